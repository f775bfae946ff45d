//! docs/settings.md says what the parser does.

use settings::{Settings, TapePath};

#[test]
fn every_documented_value_is_accepted_and_every_default_is_the_parsers() {
    let table: Vec<Vec<String>> = include_str!("../../docs/settings.md")
        .lines()
        .skip_while(|line| *line != "## VRAMTAPE_CONF")
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect();
    assert_eq!(table.len(), 20, "the keys of VRAMTAPE_CONF");
    for row in &table {
        let key = row[1].trim_matches('`');
        let quoted = |cell: &str| -> Vec<String> {
            cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        let values = match key {
            "tape" | "oom_dir" => vec![quoted(&row[2]).join("-")],
            "ring_events" | "address_budget" => row[2].split(" to ").map(str::to_owned).collect(),
            _ => quoted(&row[2]),
        };
        assert!(!values.is_empty(), "{key} has no values");
        for value in values {
            let text = format!("{key}:{value}");
            let parsed = Settings::parse(&text);
            assert!(parsed.is_ok(), "{text}: {}", parsed.unwrap_err());
        }
    }
    let default = |key: &str| {
        let row = table.iter().find(|row| row[1] == format!("`{key}`")).expect("a documented key");
        row[3].trim_matches('`').to_owned()
    };
    assert_eq!(default("tape"), TapePath::default().as_str());
    for key in [
        "strategy",
        "stream_sharing",
        "address_budget",
        "placement_memory",
        "record",
        "ring_events",
        "stacks",
        "command",
        "device",
    ] {
        let (settings, _) = Settings::parse(&format!("{key}:{}", default(key))).expect("a default");
        assert_eq!(settings, Settings::default(), "{key}");
    }
}
