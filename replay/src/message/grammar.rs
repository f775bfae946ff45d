//! Patterns over squashed text: regular expressions in which `{name}` is a size and `{name#}` a number.

use regex::bytes::Regex;

/// A size: a number, thousands grouped or not, and a unit.
const SIZE: &str = r"[0-9]+(?:,[0-9]{3})*(?:\.[0-9]*)?(?:[kmgtpe]i?b|bytes?|[bkmgtp])";
/// A number without a unit.
const NUMBER: &str = r"[0-9]{1,20}(?:\.[0-9]*)?";

/// Compiles a pattern. Whitespace in it is ignored.
pub(super) fn compile(pattern: &str) -> Regex {
    let mut text = String::from("(?x)");
    let mut rest = pattern;
    while let Some(open) = rest.find('{') {
        let (before, group) = rest.split_at(open);
        let close = group.find('}').expect("a pattern closes its groups");
        text.push_str(before);
        match &group[1..close] {
            count if count.starts_with(|first: char| first.is_ascii_digit()) => {
                text.push_str(&group[..=close]);
            }
            name => match name.strip_suffix('#') {
                Some(name) => text.extend(["(?P<", name, ">", NUMBER, ")"]),
                None => text.extend(["(?P<", name, ">", SIZE, ")"]),
            },
        }
        rest = &group[close + 1..];
    }
    text.push_str(rest);
    regex::bytes::RegexBuilder::new(&text)
        .unicode(false)
        .build()
        .expect("the patterns of the tables compile")
}
