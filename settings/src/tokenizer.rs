//! Cuts `key:value,key:[a:b,c:d]` into tokens as c10's `ConfigTokenizer` does.

use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;

/// A key, a value or one of `, : [ ]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// Its characters without white space.
    pub text: String,
    /// Characters of the string before it.
    pub at: usize,
    /// White space stood inside it and was dropped: `1 0` reads `10`.
    pub closed_up: bool,
}

/// Cuts `text`. White space disappears, also inside tokens.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut open: Option<Token> = None;
    let mut space_before = false;
    for (at, character) in text.chars().enumerate() {
        match character {
            ',' | ':' | '[' | ']' => {
                tokens.extend(open.take());
                tokens.push(Token { text: character.to_string(), at, closed_up: false });
            }
            ' ' | '\t'..='\r' => {}
            _ => {
                let token = open.get_or_insert(Token { text: String::new(), at, closed_up: false });
                token.closed_up |= space_before && !token.text.is_empty();
                token.text.push(character);
            }
        }
        space_before = matches!(character, ' ' | '\t'..='\r');
    }
    tokens.extend(open);
    tokens
}

#[cfg(test)]
mod tests {
    use std::prelude::v1::*;

    use super::*;

    #[test]
    fn separators_are_tokens_and_spaces_are_not() {
        let texts: Vec<_> =
            tokens(" a : [ 64:8, >:1 ] ,b").into_iter().map(|t| (t.text, t.at)).collect();
        let expected = [
            ("a", 1),
            (":", 3),
            ("[", 5),
            ("64", 7),
            (":", 9),
            ("8", 10),
            (",", 11),
            (">", 13),
            (":", 14),
            ("1", 15),
            ("]", 17),
            (",", 19),
            ("b", 20),
        ];
        assert_eq!(texts, expected.map(|(text, at)| (text.to_owned(), at)));
    }

    #[test]
    fn a_space_inside_a_token_is_remembered() {
        let found = tokens(" 1 0\u{b}0 ,20 ");
        assert_eq!((found[0].text.as_str(), found[0].closed_up), ("100", true));
        assert_eq!((found[2].text.as_str(), found[2].closed_up), ("20", false));
    }
}
