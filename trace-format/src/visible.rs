//! Text for a terminal. Names in tapes, devices and files may hold control characters, which a terminal obeys: they are
//! shown as escapes instead, the same in text and in JSON.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with every control character but line ends and tabs as `\u001b`, which JSON reads back. Characters that
/// change the direction of writing count too: they make a line look like another one.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for one in text.chars() {
        if is_hidden(one) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\u{:04x}", u32::from(one));
        } else {
            shown.push(one);
        }
    }
    shown.into()
}

fn is_hidden(one: char) -> bool {
    let changes_direction = matches!(one, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (one.is_control() && !matches!(one, '\n' | '\t')) || changes_direction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_other_text_is_left_alone() {
        let plain = "peak\treserved\n3.97 GiB é 日本\n";
        assert!(matches!(visible(plain), Cow::Borrowed(same) if same == plain));
        let shown = visible("a\x1b]0;title\x07b\u{9b}2J\r\x7f\u{202e}c");
        assert_eq!(shown, "a\\u001b]0;title\\u0007b\\u009b2J\\u000d\\u007f\\u202ec");
    }

    #[test]
    fn json_reads_back_as_it_was() {
        let name = "a\x1b[2J\u{9b}\u{202e}\n\tb";
        let json = serde_json::to_string_pretty(&[name]).unwrap();
        let shown = visible(&json);
        assert!(!shown.contains(is_hidden));
        assert_eq!(serde_json::from_str::<[String; 1]>(&shown).unwrap(), [name]);
    }
}
