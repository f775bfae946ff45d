//! The suites of the heap, the ring and the C ABI with AddressSanitizer: a use of freed memory, or of what lies beside
//! an allocation, ends them.
//!
//! Leaks are not looked for: heaps and kept rings stay until their process ends, by design, and the C programs of the
//! ordinary run look for the others.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo;
use crate::tally::Tally;

use super::parallel::Parallel;
use super::rust::counted;

/// The packages, and which of their tests.
const SUITES: [&str; 17] = [
    "-p",
    "allocator",
    "-p",
    "recorder",
    "-p",
    "shared-heap",
    "-p",
    "ffi",
    "-p",
    "stacks",
    "--lib",
    "--test",
    "heap",
    "--test",
    "recording",
    "--test",
    "c_programs",
];

/// The skipped tests: loom changes stacks under the sanitizer, and looks for other faults; the rest takes a minute when
/// it is not optimised, and the code below it is run by others too (the C programs write tapes).
const SKIPPED: [&str; 8] = [
    "--skip",
    "loom_",
    "--skip",
    "tape::",
    "--skip",
    "the_table_is_bounded",
    "--skip",
    "half_a_million",
];

/// Packages that are optimised there too: the suite of the heap is five times as fast, for a minute of the compiler.
const OPTIMISED: [&str; 7] =
    ["allocator", "device", "events", "hashbrown", "proptest", "settings", "sim-device"];

/// Random runs of each setting of the heap's model: a tenth of the ordinary, as each takes ten times as long.
const CASES: &str = "10";

/// Adds them, built once more by `asan.sh`.
pub(super) fn add(parallel: &mut Parallel, tally: &mut Tally) {
    const NAME: &str = "heap, ring and C ABI, AddressSanitizer";
    let Some(runtime) = runtime() else {
        return tally.skip(NAME, "this Rust toolchain has no AddressSanitizer for this machine");
    };
    parallel.add(NAME.to_owned(), move || {
        let mut test = cargo::command(&["test", "--no-fail-fast"])?;
        test.args(SUITES);
        for package in OPTIMISED {
            test.args(["--config", &format!("profile.dev.package.{package}.opt-level=1")]);
        }
        test.arg("--").args(SKIPPED);
        let wrapper = cargo::root()?.join("xtask/src/test/asan.sh");
        test.env("RUSTC_WORKSPACE_WRAPPER", wrapper).env("VRAMTAPE_ASAN_RUNTIME", &runtime);
        // Apart: beside the ordinary tests one `libvramtape.so` would replace the other.
        test.env("CARGO_TARGET_DIR", cargo::target()?.join("asan"));
        test.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
        test.env("ASAN_OPTIONS", "detect_leaks=0").env("PROPTEST_CASES", CASES);
        counted("cargo-asan", test)
    });
}

/// The sanitizer's library of this toolchain.
fn runtime() -> Option<PathBuf> {
    let folder = target_libraries().ok()?;
    let is_it = |path: &PathBuf| path.to_string_lossy().ends_with("_rt.asan.a");
    folder.read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path())).find(is_it)
}

/// The folder of what rustc links for the machine that it runs on.
fn target_libraries() -> Result<PathBuf> {
    let mut rustc = Command::new("rustc");
    rustc.current_dir(cargo::root()?).args(["--print", "target-libdir"]);
    let printed = rustc.output().context("cannot start rustc")?.stdout;
    Ok(PathBuf::from(String::from_utf8_lossy(&printed).trim()))
}
