//! Out-of-memory messages as people paste them: every number exact, every verdict as its rules say.

use std::fs;
use std::path::{Path, PathBuf};

use replay::message::explain;
use serde_json::Value;

/// A message with the numbers and the verdict that it should have.
struct Case {
    line: usize,
    text: String,
    expected: Value,
}

fn cases(path: &Path) -> Vec<Case> {
    let lines = fs::read_to_string(path).unwrap();
    let case = |(at, line): (usize, &str)| {
        let expected: Value = serde_json::from_str(line).unwrap();
        let text = expected["message"].as_str().unwrap().to_owned();
        Case { line: at + 1, text, expected }
    };
    lines.lines().enumerate().map(case).collect()
}

/// The messages kept in this repository.
fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/messages/messages.jsonl")
}

/// The larger collection, where there is one: the file that `VRAMTAPE_MESSAGES` names, or that in `shared` beside the
/// checkout.
fn shared() -> Option<PathBuf> {
    let beside =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/oom-messages/messages.jsonl");
    let path = std::env::var_os("VRAMTAPE_MESSAGES").map_or(beside, PathBuf::from);
    if !path.is_file() {
        println!("no {}: only the messages in tests/data were read", path.display());
        return None;
    }
    Some(path)
}

/// What is wrong with the reading of a case, if anything.
fn fault(case: &Case) -> Option<String> {
    let messages = explain(case.text.as_bytes()).messages;
    let [message] = &messages[..] else {
        return Some(format!("{} messages: {messages:#?}", messages.len()));
    };
    let found = serde_json::to_value(message).unwrap();
    if found["fields"] != case.expected["expected"] {
        return Some(format!(
            "fields {} instead of {}",
            found["fields"], case.expected["expected"]
        ));
    }
    let also = case.expected["also"].as_array().cloned().unwrap_or_default();
    let is_exact = also.is_empty() && case.expected["tight"] != true;
    let is_right = found["verdict"] == case.expected["verdict"]
        || (!is_exact && also.contains(&found["verdict"]));
    (!is_right).then(|| {
        format!("{} instead of {}: {}", found["verdict"], case.expected["verdict"], found["why"])
    })
}

#[test]
fn every_known_message_is_read_and_judged() {
    for path in [Some(own()), shared()].into_iter().flatten() {
        let cases = cases(&path);
        assert!(cases.len() >= 30, "{}", path.display());
        let faults: Vec<_> = cases
            .iter()
            .filter_map(|case| Some(format!("line {}: {}\n{}", case.line, fault(case)?, case.text)))
            .collect();
        assert!(faults.is_empty(), "{}:\n{}", path.display(), faults.join("\n\n"));
    }
}
