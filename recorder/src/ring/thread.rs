//! Which thread this is, as cheaply as a processor can tell.
//!
//! In a library that is loaded at run time a thread-local variable costs a call. Whether a record is made by the thread
//! that made the one before is asked every time, and the answer is nearly always yes: for that the thread's pointer is
//! enough, which is in a register. No two threads that live at once have the same; one that begins later may have
//! the pointer of one that ended, so how many have ended so far is part of the answer.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam_utils::CachePadded;

/// How many threads have ended. Read with every record, by every device, and written where a thread ends.
static ENDED: CachePadded<AtomicU32> = CachePadded::new(AtomicU32::new(0));

/// A thread, until any thread ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadTag {
    pointer: usize,
    ended: u32,
}

impl ThreadTag {
    /// This thread's.
    #[inline]
    pub(super) fn here() -> Self {
        // A thread that reuses the pointer of one that ended began after that end, and sees it.
        Self { pointer: pointer(), ended: ENDED.load(Ordering::Relaxed) }
    }
}

/// Counts a thread when it ends.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Ordering::Relaxed);
    }
}

/// The operating system's id of this thread, asked for once, and whether its end will be counted: of a thread that is
/// ending already no [`ThreadTag`] may be kept.
pub(super) fn id() -> (u32, bool) {
    thread_local! {
        static ID: Cell<u32> = const { Cell::new(0) };
        static ENDS: Ends = const { Ends };
    }
    let id = match ID.get() {
        0 => rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned(),
        id => id,
    };
    ID.set(id);
    (id, ENDS.try_with(|_| ()).is_ok())
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn pointer() -> usize {
    let pointer;
    // SAFETY: on x86-64 Linux the word at fs:0 is the thread's own address (the psABI's variant II of such storage).
    #[allow(unsafe_code)]
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    pointer
}

/// The address of something that each thread has its own of.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn pointer() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| (&raw const *here).addr())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_keeps_its_tag_and_shares_it_with_none_that_lives() {
        let here = ThreadTag::here();
        assert_eq!(here, ThreadTag::here());
        let there = thread::scope(|scope| scope.spawn(ThreadTag::here).join().unwrap());
        assert_ne!(here.pointer, there.pointer);
    }

    #[test]
    fn a_thread_with_the_pointer_of_one_that_ended_has_another_tag() {
        let mut seen = Vec::new();
        let mut reused = 0;
        for _ in 0..50 {
            let (id, tag) = thread::spawn(|| (id().0, ThreadTag::here())).join().unwrap();
            reused += usize::from(
                seen.iter().any(|(_, other): &(u32, ThreadTag)| other.pointer == tag.pointer),
            );
            assert!(
                !seen.iter().any(|(_, other)| *other == tag),
                "thread {id} is taken for another"
            );
            seen.push((id, tag));
        }
        assert!(
            reused > 0,
            "the C library gave no thread the memory of another: nothing was tested"
        );
    }
}
