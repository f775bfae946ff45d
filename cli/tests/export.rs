//! Tables of a run, as a person makes them; what is in them is tested where they are written (`tables/tests`) and read
//! (`tests/python/tables`).

mod common;

use std::fs;
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
