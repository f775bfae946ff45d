//! Groups of tests side by side, one more than there are processors: most of a script's time is one thread's, and it
//! waits for other processes.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;

use crate::tally::{Group, Outcome, Tally};

/// The most groups that run at once.
const THREADS_MAX: usize = 4;

/// The work of a group.
type Run<'a> = Box<dyn FnOnce() -> Result<Outcome> + Send + 'a>;

/// Test groups that are safe to run in parallel.
#[derive(Default)]
pub(super) struct Parallel<'a> {
    groups: VecDeque<(String, Run<'a>)>,
}

impl<'a> Parallel<'a> {
    /// Adds a group.
    pub(super) fn add(&mut self, name: String, run: impl FnOnce() -> Result<Outcome> + Send + 'a) {
        self.groups.push_back((name, Box::new(run)));
    }

    /// Runs the groups, started in the order in which they were added, and reports each when it ends.
    pub(super) fn run(self, tally: &mut Tally) {
        let threads = thread::available_parallelism()
            .map_or(1, usize::from)
            .saturating_add(1)
            .min(THREADS_MAX);
        let waiting = Mutex::new(self.groups);
        let tally = Mutex::new(tally);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let Some((name, run)) = lock(&waiting).pop_front() else { break };
                        let group = Group::run(&name, run);
                        lock(&tally).record(&group);
                    }
                });
            }
        });
    }
}

/// A group that panics ends its thread; the other groups still run before the whole command fails.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Counts;

    #[test]
    fn every_group_runs_once_and_is_counted() {
        let ran = Mutex::new(Vec::new());
        let mut parallel = Parallel::default();
        for group in 0..7 {
            let ran = &ran;
            parallel.add(format!("group {group}"), move || {
                lock(ran).push(group);
                Ok(Outcome { counts: Counts::one(group != 3), detail: "the fourth".to_owned() })
            });
        }
        let mut tally = Tally::default();
        parallel.run(&mut tally);
        assert_eq!(tally.total(), Counts { passed: 6, failed: 1 });
        let mut ran = lock(&ran).clone();
        ran.sort_unstable();
        assert_eq!(ran, (0..7).collect::<Vec<_>>());
    }
}
