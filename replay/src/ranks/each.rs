//! How many ranks share one machine: every core busy, a few tapes in memory.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// However many cores there are, no more runs are in memory at once.
const AT_ONCE_MAX: usize = 16;

/// Does `work` on every source, several at a time, and returns what comes of each, in the order of the sources.
///
/// All happens on rayon's pool, the one that the caller is on. `work` reads a run, asks about it and drops it. It
/// splits its asking into up to `jobs_each` jobs, so that only as many sources are open at once as keep every core
/// busy: two, where one is replayed while the next is read, up to 16.
///
/// # Errors
/// The error of the first source that has one, whatever the number of cores; sources that were not begun by then are
/// left alone.
pub fn each<S: Sync, T: Send, E: Send>(
    sources: &[S],
    jobs_each: usize,
    work: impl Fn(&S) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let cores = rayon::current_num_threads();
    let enough = cores.div_ceil(jobs_each.max(1)).max(2);
    let at_once = enough.min(cores).min(AT_ONCE_MAX).min(sources.len());
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let results: Mutex<Vec<Option<Result<T, E>>>> =
        Mutex::new(sources.iter().map(|_| None).collect());
    // So many loops, and not a job for each source: a thread that waits for jobs of its own source may take up another
    // loop, but never more sources than there are loops.
    let worker = || {
        while !has_failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(source) = sources.get(at) else { break };
            let result = work(source);
            if result.is_err() {
                has_failed.store(true, Ordering::Relaxed);
            }
            results.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(result);
        }
    };
    rayon::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|_| worker());
        }
    });
    // Sources are begun in order and ended once begun: before the first error there is no gap.
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;

    #[test]
    fn the_order_is_the_sources_and_no_more_are_open_than_are_needed() {
        let (open, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let sources: Vec<usize> = (0..100).collect();
        let done = each(&sources, 8, |source| {
            most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let sum: usize = (0..8_usize).into_par_iter().map(|job| job * source).sum();
            open.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, ()>(sum)
        });
        assert_eq!(done.unwrap(), sources.iter().map(|source| 28 * source).collect::<Vec<_>>());
        let enough = rayon::current_num_threads().div_ceil(8).max(2);
        assert!(most.into_inner() <= enough.min(AT_ONCE_MAX));
    }

    #[test]
    fn the_first_error_in_order_is_the_one_and_later_sources_are_not_begun() {
        let begun = AtomicUsize::new(0);
        let sources: Vec<usize> = (0..1000).collect();
        let failed = each(&sources, 1, |source| {
            begun.fetch_add(1, Ordering::Relaxed);
            if *source >= 3 { Err(*source) } else { Ok(()) }
        });
        assert_eq!(failed, Err(3));
        assert!(begun.into_inner() < 3 + 2 * AT_ONCE_MAX);
        assert_eq!(each(&[(); 0], 1, |()| Ok::<_, ()>(())), Ok(Vec::new()));
    }
}
