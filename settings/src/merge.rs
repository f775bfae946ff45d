//! `VRAMTAPE_CONF` with some of its keys changed, which a launcher passes to the program that it starts.

use alloc::string::String;
use alloc::vec::Vec;

use super::Settings;
use super::entries::{Entries, Entry};
use crate::error::Result;

/// `text` with the keys of `changes` in place of its own of that name, and the others as they are.
///
/// # Errors
/// If [`Settings::parse`] refuses either, or both together.
pub fn merge(text: &str, changes: &str) -> Result<String> {
    Settings::parse(text)?;
    Settings::parse(changes)?;
    let changed: Vec<Entry> = Entries::new(changes).collect::<Result<_, _>>()?;
    let mut merged = String::new();
    for entry in Entries::new(text) {
        let entry = entry?;
        if changed.iter().all(|change| change.key != entry.key) {
            write(&mut merged, &entry);
        }
    }
    for change in &changed {
        write(&mut merged, change);
    }
    Settings::parse(&merged)?;
    Ok(merged)
}

/// Adds an entry, so that it reads as it was read.
fn write(merged: &mut String, Entry { key, value, .. }: &Entry) {
    if !merged.is_empty() {
        merged.push(',');
    }
    merged.push_str(key);
    merged.push(':');
    if value.contains([',', '"', '\\']) || value.trim() != value {
        merged.push('"');
        merged.push_str(&value.replace('\\', r"\\").replace('"', "\\\""));
        merged.push('"');
    } else {
        merged.push_str(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_keys_replace_and_others_stay() {
        for (text, changes, merged) in [
            ("", "", ""),
            ("record:ring", "", "record:ring"),
            ("", "route:observe", "route:observe"),
            ("tape:a.vtape,ring_events:64", "tape:b.vtape", "ring_events:64,tape:b.vtape"),
            (
                "stacks:all",
                r#"tape:"/a b,c\"d\\ .vtape ""#,
                r#"stacks:all,tape:"/a b,c\"d\\ .vtape ""#,
            ),
        ] {
            assert_eq!(merge(text, changes).unwrap(), merged, "{text:?} with {changes:?}");
            assert_eq!(merge(merged, changes).unwrap(), merged, "once more changes nothing");
        }
    }

    #[test]
    fn an_invalid_string_is_refused_in_either_place() {
        for (text, changes) in [("recor:off", ""), ("", "recor:off"), ("", "tape:{host}")] {
            assert!(merge(text, changes).is_err(), "{text:?} with {changes:?}");
        }
    }
}
