//! Signals, and the thread that is not the program's.

/// Blocks all signals on this thread. The program's handlers run on its own threads, and a file that grows over
/// `ulimit -f` is an error of the write, not a signal that kills.
#[allow(unsafe_code)]
pub fn block() {
    let mut all = std::mem::MaybeUninit::uninit();
    // SAFETY: `all` is memory for one signal set, which the call fills.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the set was filled; the old mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut()) };
}
