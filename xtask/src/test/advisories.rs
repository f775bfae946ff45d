//! Whether the public database of faults in Rust packages (RustSec) knows one in a package that is used here.
//!
//! The database is on another machine. Where that cannot be reached, the copy that cargo-deny keeps is asked; without
//! one the check is left out and says so, because no installation here would change that.

use std::time::Duration;

use anyhow::Result;

use crate::progress::Step;
use crate::tally::{Counts, Group, Outcome, Tally};
use crate::{cargo, exec};

/// The database has some ten megabytes.
const LIMIT: Duration = Duration::from_secs(3 * 60);

/// With the newest database, else with the copy.
const CHECKS: [&[&str]; 2] =
    [&["deny", "check", "advisories"], &["deny", "--offline", "check", "advisories"]];

/// Runs the check; cargo-deny is installed.
pub(super) fn run(tally: &Tally) {
    const NAME: &str = "advisories";
    let mut is_checked = false;
    let group = Group::run(NAME, || {
        let verdict = verdict()?;
        is_checked = verdict.is_some();
        Ok(verdict.unwrap_or(Outcome { counts: Counts::default(), detail: String::new() }))
    });
    if is_checked || group.has_failed() {
        tally.record(&group);
    } else {
        tally.leave_out(
            NAME,
            "the advisory database (RustSec) cannot be reached and there is no copy",
        );
    }
}

/// The database's verdict, if the database is reachable.
fn verdict() -> Result<Option<Outcome>> {
    for check in CHECKS {
        let step = &mut Step::start(format!("cargo {}", check.join(" ")));
        let output = exec::run(step, "cargo-deny-advisories", cargo::command(check)?, LIMIT)?;
        if output.success() || is_verdict(&output.text) {
            let counts = Counts::one(output.success());
            return Ok(Some(Outcome { counts, detail: output.tail() }));
        }
    }
    Ok(None)
}

/// Whether cargo-deny came to a verdict: without a database it prints none.
fn is_verdict(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("advisories "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_cannot_be_had_is_no_verdict() {
        assert!(is_verdict("error[vulnerability]: use after free\nadvisories FAILED\n"));
        assert!(is_verdict("advisories ok\n"));
        assert!(!is_verdict("[ERROR] failed to fetch advisory database\nCould not resolve host\n"));
    }
}
