//! The page of `vramtape view` and `vramtape compare --html` in a real browser: it shows what the records say and what
//! the commands print.
//!
//! `cargo xtask test` runs this where it finds a Chromium, and says so where it does not. By hand:
//! `VRAMTAPE_BROWSER=chromium cargo test -p cli --test page -- --ignored`.

mod edges;
mod envelopes;
mod explain;
mod flame;
mod map;
mod plots;
mod ranks;
mod segments;
mod served;
mod speedscope;
mod table;
mod view;

use assert_cmd::Command;
use serde_json::Value;

/// What the command prints; it has to succeed.
fn vramtape(args: &[&str]) -> String {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("vramtape"));
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Of `5 GiB`.
fn bytes(text: &str) -> f64 {
    let (number, unit) = text.split_once(' ').unwrap();
    let power = ["B", "KiB", "MiB", "GiB", "TiB"].iter().position(|known| *known == unit).unwrap();
    number.parse::<f64>().unwrap() * 1024_f64.powi(power as i32)
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key}: {value}"))
}
