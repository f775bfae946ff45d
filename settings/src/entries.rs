//! Cuts `VRAMTAPE_CONF` into its `key:value` entries. A value may be double-quoted; `\"` and `\\`
//! stand for a quote and a backslash inside.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use super::error::{ConfigError, PyException, Result, TextPosition};

const VARIABLE: &str = "VRAMTAPE_CONF";

/// One `key:value`, positions in characters.
pub(super) struct Entry {
    pub key: String,
    pub key_at: usize,
    pub value: String,
    pub value_at: usize,
}

/// Cuts a string into entries.
pub(super) struct Entries<'a> {
    text: &'a str,
    characters: core::iter::Peekable<core::iter::Enumerate<core::str::Chars<'a>>>,
}

impl<'a> Entries<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, characters: text.chars().enumerate().peekable() }
    }

    fn skip_spaces(&mut self) {
        while self.characters.next_if(|(_, c)| c.is_whitespace()).is_some() {}
    }

    fn at(&mut self) -> usize {
        self.characters.peek().map_or_else(|| self.text.chars().count(), |(at, _)| *at)
    }

    /// Everything up to one of `ends`, without spaces at its end.
    fn word(&mut self, ends: &[char]) -> String {
        let mut word = String::new();
        while let Some((_, character)) = self.characters.next_if(|(_, c)| !ends.contains(c)) {
            word.push(character);
        }
        word.truncate(word.trim_end().len());
        word
    }

    fn quoted(&mut self, opening: usize) -> Result<String> {
        let mut value = String::new();
        while let Some((_, character)) = self.characters.next() {
            match character {
                '"' => return Ok(value),
                '\\' => match self.characters.next() {
                    Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                    Some((at, other)) => {
                        let message = format!("\\{other} means nothing in a quoted value");
                        let advice = "write \\\\ for a backslash, \\\" for a quote".to_owned();
                        return Err(refuse(self.text, at, message, advice));
                    }
                    None => break,
                },
                other => value.push(other),
            }
        }
        let message = "a quoted value does not end".to_owned();
        Err(refuse(self.text, opening, message, "close it with \"".to_owned()))
    }

    fn entry(&mut self) -> Result<Entry> {
        let key_at = self.at();
        let key = self.word(&[':', ',']);
        if self.characters.next_if(|(_, c)| *c == ':').is_none() {
            let message = format!("{key:?} has no value");
            return Err(refuse(self.text, key_at, message, "write key:value,key:value".to_owned()));
        }
        self.skip_spaces();
        let value_at = self.at();
        let is_quoted = self.characters.next_if(|(_, c)| *c == '"').is_some();
        let value = if is_quoted { self.quoted(value_at)? } else { self.word(&[',']) };
        self.skip_spaces();
        let end = self.at();
        if self.characters.next().is_some_and(|(_, c)| c != ',') {
            let message = format!("something follows the quoted value of {key}");
            return Err(refuse(self.text, end, message, "write a comma there".to_owned()));
        }
        Ok(Entry { key, key_at, value, value_at })
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_spaces();
        self.characters.peek()?;
        Some(self.entry())
    }
}

/// A refusal at character `at`.
pub(super) fn refuse(text: &str, at: usize, message: String, advice: String) -> ConfigError {
    ConfigError { exception: PyException::ValueError, message, place: place(text, at), advice }
}

/// Character `at` of the string.
pub(super) fn place(text: &str, at: usize) -> TextPosition {
    TextPosition { variable: VARIABLE, text: text.to_owned(), at }
}

#[cfg(test)]
mod tests {
    use std::prelude::v1::*;

    use super::*;
    use crate::error::Result;

    fn cut(text: &str) -> Result<Vec<(String, String)>, String> {
        Entries::new(text)
            .map(|entry| entry.map(|e| (e.key, e.value)).map_err(|error| error.to_string()))
            .collect()
    }

    #[test]
    fn values_end_at_commas_unless_quoted() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let text = r#" tape : "/a,b: \"c\" \\" , record:file ,x:/p:q r , "#;
        assert_eq!(
            cut(text),
            Ok(vec![pair("tape", "/a,b: \"c\" \\"), pair("record", "file"), pair("x", "/p:q r")])
        );
        assert_eq!(cut(""), Ok(vec![]));
    }

    #[test]
    fn a_broken_entry_is_named_with_its_place() {
        for (text, wrong, at) in [
            ("record:ring,tape", "\"tape\" has no value", 13),
            (",", "\"\" has no value", 1),
            ("tape:\"a", "a quoted value does not end", 6),
            ("tape:\"a\\n\"", "\\n means nothing", 9),
            ("tape:\"a\"b", "something follows the quoted value of tape", 9),
        ] {
            let error = cut(text).unwrap_err();
            assert!(error.contains(wrong), "{error}");
            assert!(error.contains(&format!("character {at} ")), "{error}");
        }
    }
}
