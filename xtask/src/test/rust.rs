//! The tests that need only cargo and a compiler.

use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::progress::Step;
use crate::tally::{Counts, Outcome, Tally};
use crate::{cargo, exec};

use super::advisories;
use super::parallel::Parallel;
use super::rings::Rings;

/// Against a hang. Beside the other groups, on two busy cores, a cold build takes 20 minutes, and the tests half an
/// hour for seven minutes of processor time.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// All targets of the workspace. Benches are among them: criterion runs each once when it is not asked to measure.
const TESTS: [&str; 3] = ["test", "--workspace", "--all-targets"];

/// Compares the sources with rustfmt's.
pub(super) fn check_format(tally: &Tally) {
    if cargo::has("fmt") {
        lint(tally, "format", &["fmt", "--all", "--", "--check"], &[]);
    } else {
        tally.skip("format", "rustfmt is not installed (rustup component add rustfmt)");
    }
}

/// Builds the tests, and the command and the lab with them; whether all of it compiles.
pub(super) fn build(tally: &Tally) -> bool {
    lint(tally, "build of the tests", &[&TESTS[..], &["--no-run"]].concat(), &[])
}

/// Adds the tests.
pub(super) fn add(parallel: &Parallel) {
    parallel.add("unit, integration, C and bench tests".to_owned(), || {
        counted("cargo-test", cargo::command(&[&TESTS[..], &["--no-fail-fast"]].concat())?)
    });
}

/// Adds the checks that only compile, and the examples in the documentation, one after another: all build in one
/// folder, which cargo locks.
pub(super) fn add_checks(parallel: &Parallel) {
    parallel.add_step(|parallel| {
        check(parallel.tally);
        let doctests = ["test", "-q", "--workspace", "--doc", "--no-fail-fast"];
        parallel.tally.group("documentation examples", || {
            counted("cargo-doctest", cargo::command(&doctests)?)
        });
    });
}

fn check(tally: &Tally) {
    if cargo::has("clippy") {
        let clippy = ["clippy", "-q", "--workspace", "--all-targets", "--", "-D", "warnings"];
        lint(tally, "clippy", &clippy, &[]);
    } else {
        tally.skip("clippy", "clippy is not installed (rustup component add clippy)");
    }
    // Packages that are built together share their features: by itself the heap has none.
    lint(tally, "the heap by itself", &["check", "-q", "-p", "allocator"], &[]);
    let demo = ["check", "-q", "-p", "cli", "--no-default-features"];
    lint(tally, "the command without tables", &demo, &[]);
    // The documentation is built with its private rooms, so links may lead into them.
    let doc = ["doc", "-q", "--workspace", "--no-deps", "--document-private-items"];
    lint(
        tally,
        "documentation",
        &doc,
        &[("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links")],
    );
    if cargo::has("deny") {
        let deny = ["deny", "check", "licenses", "bans", "sources"];
        lint(tally, "licences and sources", &deny, &[]);
        advisories::run(tally);
    } else {
        tally
            .skip("licences and sources", "cargo-deny is not installed (cargo install cargo-deny)");
    }
}

/// One command that passes or fails as a whole; whether it passed.
fn lint(tally: &Tally, name: &str, args: &[&str], env: &[(&str, &str)]) -> bool {
    let mut passed = false;
    tally.group(name, || {
        let mut step = Step::start(format!("cargo {}", args[0]));
        let mut command = cargo::command(args)?;
        command.envs(env.iter().copied());
        let output = exec::run(&mut step, &format!("cargo-{}", args[0]), command, LIMIT)?;
        passed = output.success();
        Ok(Outcome { counts: Counts::one(passed), detail: output.tail() })
    });
    passed
}

/// A `cargo test`, counted test by test.
pub(super) fn counted(log: &str, mut command: Command) -> Result<Outcome> {
    let args: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    let mut step = Step::start(format!("cargo {}", args.join(" ")));
    let rings = Rings::new()?;
    rings.announce(&mut command);
    let output = exec::run(&mut step, log, command, LIMIT)?;
    let mut counts = count(&output.text);
    if !output.success() && counts.failed == 0 {
        counts.failed = 1; // It did not compile, or a test program died.
    }
    let failures = output.text.lines().filter(|line| is_failure(line)).collect::<Vec<_>>();
    Ok(Outcome { counts, detail: format!("{}\n{}", failures.join("\n"), output.tail()) })
}

/// Sums the `test result:` lines of libtest and the `Success` lines of criterion.
fn count(text: &str) -> Counts {
    let mut counts = Counts::default();
    for line in text.lines() {
        if let Some(result) = line.strip_prefix("test result: ") {
            counts.passed += number_before(result, " passed");
            counts.failed += number_before(result, " failed");
        } else if line == "Success" {
            counts.passed += 1;
        }
    }
    counts
}

fn number_before(text: &str, word: &str) -> u64 {
    text.split(word)
        .next()
        .and_then(|before| before.rsplit(' ').next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

fn is_failure(line: &str) -> bool {
    line.starts_with("test ") && line.ends_with("FAILED") || line.contains("panicked at")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_libtest_and_criterion_are_summed() {
        let text = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; finished in 0.1s\n\
                    Testing alloc_free/512\nSuccess\n\
                    test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured\n";
        assert_eq!(count(text), Counts { passed: 16, failed: 2 });
    }

    #[test]
    fn the_names_of_failed_tests_are_found() {
        assert!(is_failure("test heap::tests::splits ... FAILED"));
        assert!(!is_failure("test heap::tests::splits ... ok"));
    }
}
