//! What grew between two runs, as a person meets it: the text, the Markdown, the limits and the exit codes.
//!
//! The expected texts are in `tests/golden`; `UPDATE_GOLDEN=1 cargo test -p cli` writes them anew.

mod common;

use std::fs;
use std::path::Path;

use common::{golden, good, json, vramtape};

/// A snapshot kept in the repository, and the tape of the same run with an edit.
fn runs(folder: &Path, edit: &str) -> (String, String) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/traces");
    let before = data.join("gpt2_train-default.pickle.zst").to_str().unwrap().to_owned();
    let after = folder.join("after.vtape").to_str().unwrap().to_owned();
    good(&["edit", &before, edit, "-f", "-o", &after]);
    (before, after)
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (before, _) = runs(folder.path(), "scale:1");
    let found = json(&["diff", &before, &before, "--fail-on", "peak:0,reserved:+0%"]);
    let device = &found["devices"][0];
    assert_eq!(
        (&found["within"], &device["peak"]["before_bytes"]),
        (&true.into(), &device["peak"]["after_bytes"])
    );
    for when in ["at_peak", "over_step"] {
        for kind in ["code", "modules", "categories", "phases"] {
            assert_eq!(device[when][kind], serde_json::json!([]), "{when} {kind}");
        }
    }
    golden("diff-same", &good(&["diff", &before, &before]));
}

#[test]
fn the_code_that_was_scaled_is_the_code_that_grew() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = runs(folder.path(), "scale:2.0:gpt2.py:305");
    golden("diff-scaled", &good(&["diff", &before, &after]));
    let found = json(&["diff", &before, &after]);
    let code = found["devices"][0]["at_peak"]["code"].as_array().unwrap();
    // The peak may move, so other code may hold less there, but none holds more.
    let grown =
        code.iter().filter(|row| row["after_bytes"].as_u64() > row["before_bytes"].as_u64());
    let names: Vec<_> = grown.map(|row| row["name"].as_str().unwrap()).collect();
    assert!(matches!(names[..], [name] if name.starts_with("workloads.py:12 lm < ")), "{names:?}");

    let (before, doubled) = runs(folder.path(), "scale:2.0");
    let found = json(&["diff", &before, &doubled]);
    let code = found["devices"][0]["at_peak"]["code"].as_array().unwrap();
    assert!(code.len() > 3, "{found}");
    for row in code {
        let [one, other] =
            ["before_bytes", "after_bytes"].map(|key| row[key].as_u64().unwrap() as f64);
        assert!((other / one - 2.0).abs() < 0.1, "{row}"); // The peak moves a little.
    }
}

#[test]
fn a_limit_that_is_exceeded_is_1_and_a_bad_one_is_2() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = runs(folder.path(), "scale:1.1");
    let args = ["diff", &before, &after, "--fail-on"];
    let (text, code) = vramtape(&[&args[..], &["peak:+2%"]].concat());
    assert!(code == Some(1) && text.contains("peak:+2% is exceeded: "), "{text}");
    good(&[&args[..], &["peak:+20%,reserved:+100GiB"]].concat());
    good(&["diff", &after, &before, "--fail-on", "peak:0"]);
    let (text, code) = vramtape(&[&args[..], &["peak:+2%,size:+1GiB"]].concat());
    assert!(code == Some(2) && text.contains("`size:+1GiB`: no figure is called"), "{text}");
    let (text, code) = vramtape(&[&args[..], &["step:+2%"]].concat());
    assert!(
        code == Some(2) && text.contains("--fail-on step:+2%: a run has no two marks of steps"),
        "{text}"
    );
}

#[test]
fn the_summary_for_a_pull_request_is_markdown() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = runs(folder.path(), "scale:1.1");
    let file = folder.path().join("summary.md");
    let args = ["diff", &before, &after, "--fail-on", "peak:+2%"];
    let (text, code) = vramtape(&[&args[..], &["--markdown", "-"]].concat());
    assert_eq!(code, Some(1), "{text}");
    golden("diff-markdown", &text);
    vramtape(&[&args[..], &["--markdown", file.to_str().unwrap()]].concat());
    assert_eq!(fs::read_to_string(&file).unwrap(), text.split("\nerror").next().unwrap());
    let rows = text.lines().filter(|line| line.starts_with('|'));
    assert!(rows.clone().count() > 5 && rows.clone().all(|row| row.ends_with('|')), "{text}");
}
