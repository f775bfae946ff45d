//! What tests of the command share: running it, and the expected texts.

#![allow(dead_code, reason = "each test file is a crate and uses what it needs")]

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

/// The command, at a terminal of known width and with a cache of its own: `clean` empties it.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("vramtape"));
    command.args(args).env("COLUMNS", "100").env("NO_COLOR", "1");
    command.env("VRAMTAPE_CACHE", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// All it prints, and its exit code.
pub(crate) fn vramtape(args: &[&str]) -> (String, Option<i32>) {
    let output = command(args).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code())
}

/// What it prints; it has to succeed.
pub(crate) fn good(args: &[&str]) -> String {
    let (text, code) = vramtape(args);
    assert_eq!(code, Some(0), "{text}");
    text
}

/// What it prints with `--json`; it has to succeed.
pub(crate) fn json(args: &[&str]) -> Value {
    serde_json::from_str(&good(&[args, &["--json"]].concat())).unwrap()
}

/// Compares with `tests/golden/NAME.txt`.
pub(crate) fn golden(name: &str, actual: &str) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, actual).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(expected, actual, "if this is right now, run with UPDATE_GOLDEN=1");
}
