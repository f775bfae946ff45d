//! The suites of the ring, the stacks and the C ABI, and threads on a heap with a ring, with AddressSanitizer: a use of
//! freed memory, or of what lies beside an allocation, ends them.
//!
//! The heap, its devices and its settings have no unsafe code, which their `forbid(unsafe_code)` makes the compiler
//! prove: the rest of the heap's suite has nothing that the sanitizer could find.
//!
//! Leaks are not looked for: heaps and kept rings stay until their process ends, by design, and the C programs of the
//! ordinary run look for the others.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo;

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

/// The skipped tests: loom changes stacks under the sanitizer, and looks for other faults; three take a minute when
/// they are not optimised, and the code below them is run by others too (the C programs write tapes); the last ones run
/// safe code for minutes.
const SKIPPED: [&str; 14] = [
    "--skip",
    "loom_",
    "--skip",
    "tape::",
    "--skip",
    "the_table_is_bounded",
    "--skip",
    "half_a_million",
    "--skip",
    "faults::",
    "--skip",
    "model::",
    "--skip",
    "stitch::",
];

/// Adds them, built once more by `asan.sh`.
pub(super) fn add(parallel: &Parallel) {
    const NAME: &str = "ring, stacks and C ABI, AddressSanitizer";
    let Some(runtime) = runtime() else {
        return parallel
            .tally
            .skip(NAME, "this Rust toolchain has no AddressSanitizer for this machine");
    };
    parallel.add(NAME.to_owned(), move || {
        let mut test = cargo::command(&["test", "--no-fail-fast"])?;
        test.args(SUITES);
        test.arg("--").args(SKIPPED);
        let wrapper = cargo::root()?.join("xtask/src/test/asan.sh");
        test.env("RUSTC_WORKSPACE_WRAPPER", wrapper).env("VRAMTAPE_ASAN_RUNTIME", &runtime);
        // Apart: beside the ordinary tests one `libvramtape.so` would replace the other.
        test.env("CARGO_TARGET_DIR", cargo::target()?.join("asan"));
        test.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
        test.env("ASAN_OPTIONS", "detect_leaks=0");
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
