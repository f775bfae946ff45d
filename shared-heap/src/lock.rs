//! The lock around a heap: an uncontended lock and unlock are one atomic exchange and one store. A panic in the middle
//! of a change poisons it for good.
//!
//! Unlocking wakes no waiter: waiters look again after a while, so that the owner batches several calls. A waiter that
//! was unlucky for [`PATIENCE`] sets a flag, which the owner reads at its next call together with the poison: it then
//! unlocks, and waits itself.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use spin::mutex::{SpinMutex, SpinMutexGuard};

/// A value for one thread at a time.
pub(crate) struct Lock<T> {
    value: SpinMutex<T>,
    /// [`POISONED`] and [`STARVING`]; zero on the hot path.
    flags: AtomicU8,
}

/// A panic left the value in the middle of a change. Set and read with the lock held.
const POISONED: u8 = 1;

/// A thread has waited for longer than [`PATIENCE`]: others leave the lock to it. Each such thread sets it again and
/// again, and the next that gets the lock clears it. So a flag whose thread is gone (the child of a fork has only the
/// thread that forked) costs one wait.
const STARVING: u8 = 2;

/// How long a thread waits before the others make room for it. Less costs throughput: each handoff moves dozens of
/// cache lines. More is a longer wait for the unlucky.
const PATIENCE: Duration = Duration::from_millis(1);

/// The first sleep of a thread that waits.
const FIRST_PAUSE: Duration = Duration::from_micros(20);

/// An earlier call panicked in the middle of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Poisoned;

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { value: SpinMutex::new(value), flags: AtomicU8::new(0) }
    }

    /// Works on the value. A panic poisons it; no thread-local or process-wide state is read otherwise.
    #[inline]
    pub(crate) fn with<O, E: From<Poisoned>>(
        &self,
        work: impl FnOnce(&mut T) -> Result<O, E>,
    ) -> Result<O, E> {
        let mut value = self.enter()?;
        let poison = Poison(&self.flags);
        let outcome = work(&mut value);
        mem::forget(poison);
        outcome
    }

    /// The value, until the guard is dropped. A panic meanwhile poisons it.
    pub(crate) fn lock(&self) -> Result<Guard<'_, T>, Poisoned> {
        let value = self.enter()?;
        let watch = Watch { flags: &self.flags, was_panicking: thread::panicking() };
        Ok(Guard { _watch: watch, value })
    }

    /// The value, poisoned or not.
    pub(crate) fn lock_ignoring_poison(&self) -> SpinMutexGuard<'_, T> {
        self.value.try_lock().unwrap_or_else(|| self.wait())
    }

    #[inline]
    fn enter(&self) -> Result<SpinMutexGuard<'_, T>, Poisoned> {
        match self.value.try_lock() {
            Some(value) if self.flags.load(Ordering::Relaxed) == 0 => Ok(value),
            locked => self.enter_slowly(locked),
        }
    }

    /// Enters where the lock is held, poisoned, or wanted by a starving thread.
    #[cold]
    #[inline(never)]
    fn enter_slowly<'a>(
        &'a self,
        locked: Option<SpinMutexGuard<'a, T>>,
    ) -> Result<SpinMutexGuard<'a, T>, Poisoned> {
        let value = match locked {
            Some(value) if !self.has(STARVING) => value,
            Some(value) => {
                drop(value);
                // The starving thread may be waiting for this core.
                thread::sleep(FIRST_PAUSE);
                self.wait()
            }
            None => self.wait(),
        };
        if self.has(POISONED) { Err(Poisoned) } else { Ok(value) }
    }

    fn has(&self, flag: u8) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    /// Locks, unless that is left to a starving thread.
    fn try_in_turn(&self) -> Option<SpinMutexGuard<'_, T>> {
        if self.has(STARVING) { None } else { self.value.try_lock() }
    }

    /// Waits for the lock. A contended handoff moves dozens of cache lines, which costs more than a call: waiters look
    /// again after a while, longer each time, so that the owner does several calls in a row. An owner that keeps the
    /// lock for longer is in a call of the device, and waiters sleep.
    #[cold]
    #[inline(never)]
    fn wait(&self) -> SpinMutexGuard<'_, T> {
        for patience in 5..12 {
            for _ in 0..1 << patience {
                std::hint::spin_loop();
            }
            if let Some(value) = self.try_in_turn() {
                return value;
            }
        }
        let begin = Instant::now();
        let mut pause = FIRST_PAUSE;
        while begin.elapsed() < PATIENCE {
            thread::sleep(pause);
            if let Some(value) = self.try_in_turn() {
                return value;
            }
            pause *= 2;
        }
        self.wait_starving()
    }

    /// Waits for the lock while the others leave it to starving threads, of which this is one.
    fn wait_starving(&self) -> SpinMutexGuard<'_, T> {
        const LOOKS_AWAKE: u32 = 200;
        const PAUSE: Duration = Duration::from_micros(50);
        let mut looks = 0;
        loop {
            if !self.has(STARVING) {
                self.flags.fetch_or(STARVING, Ordering::Relaxed);
            }
            if let Some(value) = self.value.try_lock() {
                self.flags.fetch_and(!STARVING, Ordering::Relaxed);
                return value;
            }
            if looks < LOOKS_AWAKE {
                looks += 1;
                // The owner needs a core to get to its next call.
                thread::yield_now();
            } else {
                thread::sleep(PAUSE);
            }
        }
    }
}

/// The locked value. A panic while it lives poisons it.
pub struct Guard<'a, T> {
    // Dropped first: while the lock is held.
    _watch: Watch<'a>,
    value: SpinMutexGuard<'a, T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// Poisons the value where a panic began after it was locked.
struct Watch<'a> {
    flags: &'a AtomicU8,
    was_panicking: bool,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.was_panicking && thread::panicking() {
            self.flags.fetch_or(POISONED, Ordering::Relaxed);
        }
    }
}

/// Poisons the value, unless it is forgotten.
struct Poison<'a>(&'a AtomicU8);

impl Drop for Poison<'_> {
    fn drop(&mut self) {
        self.0.fetch_or(POISONED, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn add_one(lock: &Lock<i32>) -> Result<i32, Poisoned> {
        lock.with(|value| {
            *value += 1;
            Ok(*value)
        })
    }

    fn panics(work: impl FnOnce()) {
        assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
    }

    #[test]
    fn a_panic_in_the_middle_of_work_poisons_it_for_good() {
        let lock = Lock::new(1);
        assert_eq!(add_one(&lock), Ok(2));
        panics(|| {
            let _ = lock.with(|_| -> Result<(), Poisoned> { panic!("in the middle of a change") });
        });
        assert_eq!(add_one(&lock), Err(Poisoned));
        assert_eq!(lock.lock().err(), Some(Poisoned));
        assert_eq!(*lock.lock_ignoring_poison(), 2);
    }

    #[test]
    fn a_panic_under_a_guard_poisons_it_for_good() {
        let lock = Lock::new(1);
        *lock.lock().expect("whole") += 1;
        panics(|| {
            let _guard = lock.lock().expect("whole");
            panic!("under a guard");
        });
        assert_eq!(add_one(&lock), Err(Poisoned));
    }

    /// Destructors that run while a thread unwinds may free memory.
    #[test]
    fn calls_made_while_a_panic_unwinds_poison_nothing() {
        struct Calls<'a>(&'a Lock<i32>);
        impl Drop for Calls<'_> {
            fn drop(&mut self) {
                add_one(self.0).expect("whole");
                *self.0.lock().expect("whole") += 1;
            }
        }
        let lock = Lock::new(0);
        panics(|| {
            let _calls = Calls(&lock);
            panic!("elsewhere");
        });
        assert_eq!(add_one(&lock), Ok(3));
    }

    #[test]
    fn one_thread_at_a_time_and_long_waits_are_asleep() {
        const ROUNDS: u32 = 2_000;
        let lock = Lock::new((0_u32, 0_u32));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..ROUNDS {
                        let add = |pair: &mut (u32, u32)| {
                            pair.0 += 1;
                            if round % 500 == 0 {
                                thread::sleep(Duration::from_millis(2));
                            }
                            pair.1 += 1;
                            Ok::<_, Poisoned>(pair.0 == pair.1)
                        };
                        assert_eq!(lock.with(add), Ok(true));
                    }
                });
            }
        });
        assert_eq!(*lock.lock_ignoring_poison(), (4 * ROUNDS, 4 * ROUNDS));
    }

    /// Waits until a thread has waited for the lock for so long that it asks the others to leave it.
    fn await_starving(lock: &Lock<u32>) {
        let begin = Instant::now();
        while !lock.has(STARVING) {
            assert!(begin.elapsed() < Duration::from_secs(20), "a waiter starves after a while");
            thread::sleep(Duration::from_micros(100));
        }
    }

    /// A call that took less than [`PATIENCE`] did not starve itself, so it had to leave the lock to the waiter.
    #[test]
    fn an_owner_leaves_the_lock_to_a_thread_that_has_waited_for_long() {
        const SHORT_CALLS: u32 = 10;
        let lock = Lock::new(0);
        let begin = Instant::now();
        let mut short_calls = 0;
        while short_calls < SHORT_CALLS {
            let add = |value: &mut u32| Ok::<_, Poisoned>(mem::replace(value, 1));
            thread::scope(|scope| {
                let mut guard = lock.lock().expect("not poisoned");
                *guard = 0;
                scope.spawn(|| lock.with(add).expect("not poisoned"));
                await_starving(&lock);
                drop(guard);
                let call = Instant::now();
                let waiter_was_first = lock.with(add).expect("not poisoned") == 1;
                if call.elapsed() < PATIENCE {
                    assert!(waiter_was_first, "the owner took a lock that it had to leave");
                    short_calls += 1;
                }
            });
            assert!(!lock.has(STARVING), "a thread that got the lock does not ask for it");
            assert!(begin.elapsed() < Duration::from_secs(60), "short calls: {short_calls}");
        }
    }

    /// The child of a fork has only the thread that forked.
    #[test]
    fn a_starving_thread_that_is_gone_costs_one_wait() {
        let lock = Lock::new(1);
        lock.flags.store(STARVING, Ordering::Relaxed);
        assert_eq!(add_one(&lock), Ok(2));
        assert!(!lock.has(STARVING));
        assert_eq!(add_one(&lock), Ok(3));
    }
}
