//! The lock around a heap: the cheapest there is where nobody else wants it, and broken for good once a call panicked
//! in the middle of a change.
//!
//! Unlocking is a store, so nobody who waits is woken: they look again. Whoever holds the lock either is done within
//! nanoseconds or asks the device, which takes so long that a late look does not matter.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use spin::mutex::{SpinMutex, SpinMutexGuard};

/// A value for one thread at a time.
pub(crate) struct Lock<T> {
    value: SpinMutex<T>,
    /// Whether a panic left the value in the middle of a change. Looked at and set by who holds the lock.
    is_broken: AtomicBool,
}

/// An earlier call panicked in the middle of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { value: SpinMutex::new(value), is_broken: AtomicBool::new(false) }
    }

    /// Works on the value. A panic breaks it; nothing is asked of threads and panics otherwise.
    #[inline]
    pub(crate) fn with<O, E: From<Broken>>(
        &self,
        work: impl FnOnce(&mut T) -> Result<O, E>,
    ) -> Result<O, E> {
        let mut value = self.enter()?;
        let broken = Break(&self.is_broken);
        let outcome = work(&mut value);
        mem::forget(broken);
        outcome
    }

    /// The value, until the guard goes. A panic meanwhile breaks it.
    pub(crate) fn lock(&self) -> Result<Guard<'_, T>, Broken> {
        let value = self.enter()?;
        let watch = Watch { is_broken: &self.is_broken, was_panicking: thread::panicking() };
        Ok(Guard { _watch: watch, value })
    }

    /// The value, broken or not.
    pub(crate) fn lock_anyhow(&self) -> SpinMutexGuard<'_, T> {
        self.value.try_lock().unwrap_or_else(|| self.wait())
    }

    #[inline]
    fn enter(&self) -> Result<SpinMutexGuard<'_, T>, Broken> {
        let value = match self.value.try_lock() {
            Some(value) => value,
            None => self.wait(),
        };
        if self.is_broken.load(Ordering::Relaxed) { Err(Broken) } else { Ok(value) }
    }

    /// Waits for the lock. A heap that changes hands takes dozens of cache lines along, which costs more than a call:
    /// who comes second looks again after a while, longer each time, so that the first does several calls in a row.
    /// Whoever holds it for longer is asking the device, and is waited for asleep.
    #[cold]
    #[inline(never)]
    fn wait(&self) -> SpinMutexGuard<'_, T> {
        const LONGEST_SLEEP: Duration = Duration::from_millis(1);
        for patience in 5..12 {
            for _ in 0..1 << patience {
                std::hint::spin_loop();
            }
            if let Some(value) = self.value.try_lock() {
                return value;
            }
        }
        let mut pause = Duration::from_micros(20);
        loop {
            thread::sleep(pause);
            if let Some(value) = self.value.try_lock() {
                return value;
            }
            pause = (pause * 2).min(LONGEST_SLEEP);
        }
    }
}

/// The locked value. A panic while it lives breaks it.
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

/// Breaks the value where a panic began after it was locked.
struct Watch<'a> {
    is_broken: &'a AtomicBool,
    was_panicking: bool,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.was_panicking && thread::panicking() {
            self.is_broken.store(true, Ordering::Relaxed);
        }
    }
}

/// Breaks the value, unless it is forgotten.
struct Break<'a>(&'a AtomicBool);

impl Drop for Break<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn add_one(lock: &Lock<i32>) -> Result<i32, Broken> {
        lock.with(|value| {
            *value += 1;
            Ok(*value)
        })
    }

    fn panics(work: impl FnOnce()) {
        assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
    }

    #[test]
    fn a_panic_in_the_middle_of_work_breaks_it_for_good() {
        let lock = Lock::new(1);
        assert_eq!(add_one(&lock), Ok(2));
        panics(|| {
            let _ = lock.with(|_| -> Result<(), Broken> { panic!("in the middle of a change") });
        });
        assert_eq!(add_one(&lock), Err(Broken));
        assert_eq!(lock.lock().err(), Some(Broken));
        assert_eq!(*lock.lock_anyhow(), 2);
    }

    #[test]
    fn a_panic_under_a_guard_breaks_it_for_good() {
        let lock = Lock::new(1);
        *lock.lock().expect("whole") += 1;
        panics(|| {
            let _guard = lock.lock().expect("whole");
            panic!("under a guard");
        });
        assert_eq!(add_one(&lock), Err(Broken));
    }

    /// Destructors that run while a thread unwinds may free memory.
    #[test]
    fn calls_made_while_a_panic_unwinds_break_nothing() {
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
    fn one_thread_at_a_time_and_who_waits_long_waits_asleep() {
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
                            Ok::<_, Broken>(pair.0 == pair.1)
                        };
                        assert_eq!(lock.with(add), Ok(true));
                    }
                });
            }
        });
        assert_eq!(*lock.lock_anyhow(), (4 * ROUNDS, 4 * ROUNDS));
    }
}
