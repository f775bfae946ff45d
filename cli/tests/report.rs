//! Reports of runs: what is printed, word for word, their files, and the errors.

mod common;

use std::fs;

use common::{command, golden, good, json, vramtape};

fn trace(name: &str) -> String {
    format!("{}/../tests/data/traces/{name}.pickle.zst", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_report_has_the_cause_and_fits_a_screen() {
    let full = good(&["report", &trace("resnet50_batchsweep-oom")]);
    golden("report-full", &full);
    let fragmented = trace("gpt2_train-default");
    let args = ["report", &fragmented, "--capacity", "15256MiB", "--format", "text"];
    let fragmented_text = good(&args);
    golden("report-fragmented", &fragmented_text);
    golden("report-peak", &good(&["report", &fragmented]));
    for report in [full, fragmented_text] {
        assert!(report.lines().count() <= 45, "{report}");
    }
}

#[test]
fn the_ending_of_the_file_is_its_format() {
    let folder = tempfile::tempdir().unwrap();
    let run = trace("gpt2_train-default");
    for (name, begin) in [("r.md", "### "), ("r.txt", "GPU memory"), ("r.html", "<!doctype html>")]
    {
        let path = folder.path().join(name);
        let path = path.to_str().unwrap();
        assert_eq!(good(&["report", &run, "-o", path]), format!("{path}\n"));
        assert!(fs::read_to_string(path).unwrap().starts_with(begin), "{name}");
        let (text, code) = vramtape(&["report", &run, "-o", path]);
        assert!(code == Some(2) && text.contains("exists: use -f"), "{text}");
        let found = json(&["report", &run, "-f", "-o", path]);
        assert_eq!(found["report"], fs::read_to_string(path).unwrap());
    }
    let (text, code) = vramtape(&["report", &run, "-o", "report.pdf"]);
    assert!(code == Some(2) && text.contains("end it with .md, .txt or .html"), "{text}");
}

#[test]
fn the_figures_are_those_of_explain() {
    let run = trace("resnet50_batchsweep-oom");
    let (found, explained) = (json(&["report", &run]), json(&["explain", &run]));
    assert_eq!(found["verdict"][0], explained["oom"]["verdict"]);
    let held = found["holders"].as_array().unwrap();
    let bytes = held.iter().map(|row| row["bytes"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(bytes, explained["live"]["allocated_bytes"].as_u64().unwrap());
    let shares = held.iter().map(|row| row["share_percent"].as_f64().unwrap()).sum::<f64>();
    assert!((shares - 100.0).abs() < 1e-6, "{shares}");
}

#[test]
fn a_run_that_cannot_be_read_is_an_error() {
    command(&["report", "/nowhere.vtape"]).assert().code(2);
}
