//! No settings string, however broken, panics or hangs; what is refused says where.

use proptest::prelude::*;
use settings::{Compat, Config, ConfigError, Environment, Settings, Warning};

/// Strings of the parts that the parsers look for, in any order.
fn settings() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("max_split_size_mb"),
        Just("large_segment_size_mb"),
        Just("roundup_power2_divisions"),
        Just("expandable_segments_reserve_by_class"),
        Just("garbage_collection_threshold"),
        Just("expandable_segments"),
        Just("backend"),
        Just("tape"),
        Just("record"),
        Just(":"),
        Just(":"),
        Just(","),
        Just("["),
        Just("]"),
        Just(">"),
        Just("\""),
        Just("\\"),
        Just("{rank}"),
        Just("{"),
        Just(" "),
        Just("True"),
        Just("64"),
        Just("0.5"),
        Just("-1"),
        Just("0x1p"),
        Just("nan("),
        Just("file"),
        Just("é\u{0}"),
    ];
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

fn check_place(place: &settings::TextPosition, text: &str) {
    assert_eq!(place.text, text);
    assert!(place.at <= text.chars().count(), "{place}");
}

fn check(text: &str, outcome: Result<Vec<Warning>, ConfigError>) {
    match outcome {
        Ok(warnings) => warnings.iter().for_each(|warning| check_place(&warning.place, text)),
        Err(error) => check_place(&error.place, text),
    }
}

proptest! {
    #[test]
    fn any_string_is_read_or_refused(text in prop_oneof![settings(), ".{0,64}"]) {
        for compat in [Compat::V2_11, Compat::V2_15] {
            check(&text, Config::parse(&text, compat).map(|parsed| parsed.warnings));
        }
        check(&text, Config::default().reparse(&text).map(|parsed| parsed.warnings));
        check(&text, Settings::parse(&text).map(|(_, warnings)| warnings));
    }

    /// The same string read twice gives the same settings: nothing but the string and the kept keys
    /// decides.
    #[test]
    fn reading_twice_changes_nothing(text in settings()) {
        if let Ok(once) = Config::default().reparse(&text) {
            prop_assert_eq!(once.config.reparse(&text).map(|twice| twice.config), Ok(once.config));
        }
    }
}

#[test]
fn a_string_of_a_million_parts_ends() {
    for part in ["[", "foo:1,", "expandable_segments:True,", "roundup_power2_divisions:[", "\\"] {
        let text = part.repeat(1_000_000 / part.len());
        let variable = |name: &str| (name == "PYTORCH_ALLOC_CONF").then(|| text.clone().into());
        let outcome = Environment::read(variable, Compat::V2_15);
        assert_eq!(outcome.is_ok(), part.starts_with("expandable"), "{part:?}");
        assert!(Settings::parse(&text).is_err());
    }
}
