//! The counts that `cargo xtask test` prints.

use std::env;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::exec;

/// Tests passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Passed.
    pub(crate) passed: u64,
    /// Failed.
    pub(crate) failed: u64,
}

impl Counts {
    /// One test that passed or failed.
    pub(crate) fn one(passed: bool) -> Self {
        Self { passed: u64::from(passed), failed: u64::from(!passed) }
    }
}

/// How one group of tests went.
pub(crate) struct Outcome {
    /// Its tests.
    pub(crate) counts: Counts,
    /// Shown below the line if something failed.
    pub(crate) detail: String,
}

/// A group that has run.
pub(crate) struct Group {
    name: String,
    outcome: Outcome,
    elapsed: Duration,
    /// Processor time of the programs that it ran.
    processor: Duration,
}

impl Group {
    /// Runs it. An error counts as one failed test.
    pub(crate) fn run(name: &str, run: impl FnOnce() -> Result<Outcome>) -> Self {
        let (started, before) = (Instant::now(), exec::processor_time());
        let outcome = run().unwrap_or_else(|error| Outcome {
            counts: Counts::one(false),
            detail: format!("{error:#}"),
        });
        let (elapsed, processor) =
            (started.elapsed(), exec::processor_time().saturating_sub(before));
        Self { name: name.to_owned(), outcome, elapsed, processor }
    }

    /// Whether a test of it failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.outcome.counts.failed > 0
    }
}

/// Sums up, one printed line a group, in the order in which groups end.
#[derive(Default)]
pub(crate) struct Tally {
    sums: Mutex<Sums>,
    is_ci: bool,
}

#[derive(Default)]
struct Sums {
    total: Counts,
    skipped: u64,
    /// The names of the groups that failed.
    failed: Vec<String>,
}

impl Tally {
    /// No groups yet. With `CI=true` a skipped group is a failed one.
    pub(crate) fn new() -> Self {
        let is_ci = env::var_os("CI").is_some_and(|ci| ci == "true");
        Self { is_ci, ..Self::default() }
    }

    /// Runs and prints one group. An error counts as one failed test.
    pub(crate) fn group(&self, name: &str, run: impl FnOnce() -> Result<Outcome>) {
        self.record(&Group::run(name, run));
    }

    /// Prints and counts a group that has run.
    pub(crate) fn record(&self, group: &Group) {
        let Group { name, outcome, elapsed, processor } = group;
        let Counts { passed, failed } = outcome.counts;
        let [elapsed, processor] = [elapsed, processor].map(Duration::as_secs_f64);
        let times = format!("{elapsed:>6.1} s {processor:>6.1} s of processor time");
        let mut sums = self.lock(); // No other group's lines come between.
        if failed == 0 {
            println!("PASS  {name:<44} {passed:>5} passed  {times}");
        } else {
            println!("FAIL  {name:<44} {passed:>5} passed, {failed} failed  {times}");
            println!("{}", outcome.detail);
            sums.failed.push(name.clone());
        }
        sums.total.passed += passed;
        sums.total.failed += failed;
    }

    /// Reports that a group did not run because this machine lacks something, which is a failure in CI.
    pub(crate) fn skip(&self, name: &str, why: &str) {
        if self.is_ci {
            return self.group(name, || bail!("skipped, which is a failure in CI: {why}"));
        }
        self.leave_out(name, why);
    }

    /// Reports that a group did not run for a reason that installing something would not change.
    pub(crate) fn leave_out(&self, name: &str, why: &str) {
        self.lock().skipped += 1;
        println!("SKIP  {name:<44} {why}");
    }

    /// The counts so far.
    #[cfg(test)]
    pub(crate) fn total(&self) -> Counts {
        self.lock().total
    }

    /// A group that panics fails the whole command; the others are still counted.
    fn lock(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints the time, the groups that were skipped or failed and, as the last line, the sum; fails if anything
    /// failed, or if nothing ran.
    pub(crate) fn finish(&self, seconds: u64) -> ExitCode {
        let Sums { total, skipped, failed } = &*self.lock();
        println!("in {seconds} s, {skipped} groups skipped");
        if !failed.is_empty() {
            println!("failed: {}", failed.join(", "));
        }
        println!("{} passed, {} failed", total.passed, total.failed);
        if total.failed == 0 && total.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_group_fails_in_ci_only() {
        let tally = Tally { is_ci: true, ..Tally::default() };
        tally.skip("a check", "its tool is missing");
        tally.leave_out("another", "not asked for");
        assert_eq!((tally.total(), tally.lock().skipped), (Counts { passed: 0, failed: 1 }, 1));
        assert_eq!(tally.lock().failed, ["a check"]);
        let tally = Tally::default();
        tally.skip("a check", "its tool is missing");
        assert_eq!((tally.total(), tally.lock().skipped), (Counts::default(), 1));
    }
}
