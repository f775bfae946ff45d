//! Tables of a run, as a person makes them; what is in them is tested where they are written (`tables/tests`) and read
//! (`tests/python/tables`).

mod common;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

use common::vramtape;

fn trace(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
    folder.join(name).to_str().unwrap().to_owned()
}

/// A folder that is there, and the names of what is in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn holds(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

#[test]
fn a_folder_gets_every_table_and_a_file_the_named_one() {
    let folder = Folder::new();
    let (run, out) = (trace("tapes/one-shot-side-stream.vtape"), folder.name("run"));
    let args = ["export", &run, "-o", &out];
    let (text, code) = vramtape(&[&args[..], &["--json"]].concat());
    assert_eq!(code, Some(0), "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let tables = report["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 5);
    let info: Value = serde_json::from_str(&vramtape(&["info", &run, "--json"]).0).unwrap();
    assert_eq!(tables[0]["rows"], info["devices"][0]["records"]);
    for table in tables {
        let size = fs::metadata(table["file"].as_str().unwrap()).unwrap().len();
        assert_eq!(table["size_bytes"], size, "{table}");
    }
    let (text, code) = vramtape(&args);
    assert!(code == Some(2) && text.contains("records.parquet exists: use -f"), "{text}");
    assert_eq!(vramtape(&[&args[..], &["-f"]].concat()).1, Some(0));

    let file = folder.name("stacks.arrow");
    let (text, code) = vramtape(&["export", &run, "-o", &file, "--table", "stacks"]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(&fs::read(&file).unwrap()[..6], b"ARROW1");
    let file = folder.name("run.parquet");
    let (text, code) = vramtape(&["export", &run, "-o", &file]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(&fs::read(&file).unwrap()[..4], b"PAR1");
    let (text, code) =
        vramtape(&["export", &run, "-o", &folder.name("run.1/"), "--table", "frames"]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(folder.holds(), ["run", "run.1", "run.parquet", "stacks.arrow"]);
}

#[test]
fn a_failed_export_is_an_error_with_a_reason_and_leaves_no_file() {
    let folder = Folder::new();
    let run = trace("traces/gpt2_train-default.pickle.zst");
    fs::write(folder.path("notes.txt"), "").unwrap();
    let notes = folder.name("notes.txt");
    for (out, part) in [
        ("-", "standard output"),
        (notes.as_str(), "is a file"),
        (&folder.name("missing/run.parquet"), "No such file"),
        (&folder.name("run.csv"), "there is no format `csv`: give -o FILE.parquet"),
    ] {
        let (text, code) = vramtape(&["export", &run, "-o", out]);
        assert!(code == Some(2) && text.contains(part), "{text}");
    }
    for flags in [["--table", "nothing"], ["--format", "csv"], ["--config", "max_split_size_mb:3"]]
    {
        let (text, code) =
            vramtape(&[&["export", &run, "-o", &folder.name("x")], &flags[..]].concat());
        assert_eq!(code, Some(2), "{text}");
    }
    let (text, code) =
        vramtape(&["export", &run, "-o", &folder.name("x.parquet"), "--format", "arrow"]);
    assert!(code == Some(2) && text.contains("--format contradicts the name"), "{text}");
    assert_eq!(folder.holds(), ["notes.txt"]);
}

/// A file may have 64 KiB: what comes behind them is refused, as on a disk that is full.
#[test]
fn a_full_disk_is_reported_and_no_table_is_left() {
    let folder = Folder::new();
    let (run, out) = (trace("traces/gpt2_train-default.pickle.zst"), folder.name("run"));
    for format in ["parquet", "arrow"] {
        let command = assert_cmd::cargo::cargo_bin!("vramtape").to_str().unwrap();
        let line = r#"trap "" XFSZ; ulimit -f 64; exec "$0" "$@""#;
        let mut shell = Command::new("bash");
        let output = shell.args(["-c", line, command, "export", &run, "-o", &out]);
        let output = output.args(["--format", format]).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("cannot write") && text.contains("File too large"), "{text}");
        assert!(folder.holds().is_empty(), "{:?}", folder.holds());
    }
}

#[test]
fn a_file_for_speedscope_has_the_bytes_of_the_peak_by_stack() {
    let folder = Folder::new();
    let run = trace("traces/gpt2_train-default.pickle.zst");
    let out = folder.name("run.speedscope.json");
    let (text, code) = vramtape(&["export", &run, "-o", &out]);
    assert_eq!(code, Some(0), "{text}");
    let file: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    let info: Value = serde_json::from_str(&vramtape(&["info", &run, "--json"]).0).unwrap();
    let frames = file["shared"]["frames"].as_array().unwrap();
    let sum = |profile: &Value| -> u64 {
        profile["weights"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap()).sum()
    };
    let [peak, all] = &file["profiles"].as_array().unwrap()[..] else { panic!("{file}") };
    assert_eq!(sum(peak), info["devices"][0]["peak_allocated_bytes"]);
    assert_eq!((&peak["endValue"], &all["endValue"]), (&sum(peak).into(), &sum(all).into()));
    assert!(sum(all) > sum(peak));
    // The outermost frame comes first, and the holders of `info` have the same bytes by code.
    let holder = &info["devices"][0]["holders"]["peak"]["rows"][0];
    let stack = &holder["stacks"][0];
    let expected: Vec<&Value> =
        stack["frames"].as_array().unwrap().iter().rev().map(|it| &it["function"]).collect();
    let samples =
        peak["samples"].as_array().unwrap().iter().zip(peak["weights"].as_array().unwrap());
    let names = |sample: &Value| -> Vec<Value> {
        let places = sample.as_array().unwrap().iter();
        places.map(|place| frames[place.as_u64().unwrap() as usize]["name"].clone()).collect()
    };
    assert!(
        samples.into_iter().any(|(sample, bytes)| {
            names(sample).iter().eq(expected.iter().copied()) && bytes == &stack["allocated_bytes"]
        }),
        "{stack}"
    );
    let (text, code) = vramtape(&["export", &run, "-o", &out]);
    assert!(code == Some(2) && text.contains("exists"), "{text}");
    let (text, code) = vramtape(&["export", &run, "-f", "-o", &out, "--table", "stacks"]);
    assert!(code == Some(2) && text.contains("a file for speedscope"), "{text}");
}

#[test]
fn a_profile_for_firefox_is_json_and_compressed_where_its_name_ends_so() {
    let folder = Folder::new();
    let run = trace("traces/gpt2_train-default.pickle.zst");
    let files = ["run.firefox.json", "run.firefox.json.gz"].map(|name| folder.path(name));
    for out in &files {
        let (text, code) = vramtape(&["export", &run, "-o", out.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{text}");
    }
    let [plain, compressed] = files.map(|file| fs::read(file).unwrap());
    let profile: Value = serde_json::from_slice(&plain).unwrap();
    assert_eq!(profile["meta"]["product"], "gpt2_train-default.pickle.zst");
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&compressed[..]).read_to_end(&mut unpacked).unwrap();
    assert!(unpacked == plain && compressed.len() < plain.len() / 4);
    let out = folder.name("run.firefox.json");
    let (text, code) = vramtape(&["export", &run, "-f", "-o", &out, "--table", "stacks"]);
    assert!(code == Some(2) && text.contains("a file for the Firefox Profiler"), "{text}");
    assert_eq!(folder.holds().len(), 2);
}
