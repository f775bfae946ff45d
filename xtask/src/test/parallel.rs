//! Groups of tests side by side, two more than there are processors: most of a script's time is one thread's, and it
//! waits for other processes.

use std::thread;

use anyhow::{Context, Result};
use rayon::{ScopeFifo, ThreadPoolBuilder};

use crate::tally::{Outcome, Tally};

/// The most groups that run at once.
const THREADS_MAX: usize = 4;

/// Test groups that are safe to run in parallel, started in the order in which they are added. Each is reported when it
/// ends.
pub(super) struct Parallel<'p, 'scope> {
    scope: &'p ScopeFifo<'scope>,
    /// Where they are reported, and what runs beside them too.
    pub(super) tally: &'scope Tally,
}

/// Runs the groups that `add` adds, and those that these add.
pub(super) fn run<'scope>(
    tally: &'scope Tally,
    add: impl FnOnce(&Parallel<'_, 'scope>) + Send,
) -> Result<()> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.saturating_add(2).min(THREADS_MAX);
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.context("cannot start threads for the tests")?;
    pool.scope_fifo(|scope| add(&Parallel { scope, tally }));
    Ok(())
}

impl<'scope> Parallel<'_, 'scope> {
    /// Adds a group. One that panics fails the whole command once the others have run.
    pub(super) fn add(&self, name: String, run: impl FnOnce() -> Result<Outcome> + Send + 'scope) {
        let tally = self.tally;
        self.scope.spawn_fifo(move |_| tally.group(&name, run));
    }

    /// Adds a step after which more groups can be added. Those that were added before it run beside it.
    pub(super) fn add_step(&self, step: impl FnOnce(&Parallel<'_, 'scope>) + Send + 'scope) {
        let tally = self.tally;
        self.scope.spawn_fifo(move |scope| step(&Parallel { scope, tally }));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::tally::Counts;

    #[test]
    fn every_group_runs_once_and_is_counted() {
        let (ran, tally) = (Mutex::new(Vec::new()), Tally::default());
        let group = |number| {
            let ran = &ran;
            let run = move || {
                ran.lock().expect("no panic").push(number);
                Ok(Outcome { counts: Counts::one(number != 3), detail: "the fourth".to_owned() })
            };
            (format!("group {number}"), run)
        };
        run(&tally, |parallel| {
            for number in 0..4 {
                let (name, run) = group(number);
                parallel.add(name, run);
            }
            parallel.add_step(move |parallel| {
                for number in 4..7 {
                    let (name, run) = group(number);
                    parallel.add(name, run);
                }
            });
        })
        .expect("threads");
        assert_eq!(tally.total(), Counts { passed: 6, failed: 1 });
        let mut ran = ran.into_inner().expect("no panic");
        ran.sort_unstable();
        assert_eq!(ran, (0..7).collect::<Vec<_>>());
    }
}
