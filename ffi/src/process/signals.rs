//! SIGTERM and SIGHUP end the process as they would, but its tape is finished before.
//!
//! The handler only wakes a thread, which finishes the tape, restores the default action and sends the signal again:
//! so it also works while every thread of the program is inside a long call, and takes no lock of the thread that it
//! interrupts. Signals for which the program has a handler, or which it ignores, are left alone.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::{exit, helper};
use crate::log;

const SIGNALS: [(c_int, &str); 2] = [(libc::SIGTERM, "SIGTERM"), (libc::SIGHUP, "SIGHUP")];

/// Kubernetes and Slurm wait for 30 seconds before they kill.
const FINISH_MAX: Duration = Duration::from_secs(10);

static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// The process whose thread waits; another one has only inherited the handler.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// The signal that arrived.
static ARRIVED: AtomicI32 = AtomicI32::new(0);
static WAKE: Semaphore = Semaphore(UnsafeCell::new(MaybeUninit::uninit()));

/// The only way to wake a thread that a signal handler may take without a file descriptor, which a program may close.
struct Semaphore(UnsafeCell<MaybeUninit<libc::sem_t>>);

// SAFETY: a semaphore is for all threads; it is made before the thread and the handler that use it.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    fn get(&self) -> *mut libc::sem_t {
        self.0.get().cast()
    }
}

/// Finishes tapes at these signals, from the first device on that this process uses.
pub(crate) fn watch() {
    IS_WANTED.store(true, Ordering::Release);
}

/// Begins, if it is wanted and this process did not. Called with the process's lock held, when a device is opened:
/// there is nothing to finish before, and a thread more would make Python warn of a fork.
pub(super) fn arm() {
    if IS_WANTED.load(Ordering::Acquire) && OWNER.load(Ordering::Acquire) != own_pid() {
        arm_with(wait);
    }
}

fn own_pid() -> i32 {
    std::process::id() as i32
}

fn arm_with(wait: fn()) {
    // SAFETY: its memory is static, and no thread of this process uses it yet.
    let made = unsafe { libc::sem_init(WAKE.get(), 0, 0) };
    if made != 0 {
        return;
    }
    // Before the thread, which takes the handler away if it fails. A signal that comes first is not lost: the semaphore
    // counts it.
    OWNER.store(own_pid(), Ordering::Release);
    for (signal, _) in SIGNALS {
        if action(signal) == libc::SIG_DFL || action(signal) == handler() {
            set(signal, handler());
        }
    }
    let loss = "SIGTERM and SIGHUP do not finish the tape from here on";
    if let Err(error) = helper::spawn("vramtape-signals", loss, wait, disarm) {
        tracing::debug!("SIGTERM will not finish the tape: no thread: {error}");
        OWNER.store(0, Ordering::Release);
        disarm();
    }
}

/// Lets the signals end the process at once again.
fn disarm() {
    for (signal, _) in SIGNALS {
        if action(signal) == handler() {
            set(signal, libc::SIG_DFL);
        }
    }
    // A signal that arrived meanwhile woke no thread.
    if ARRIVED.load(Ordering::Acquire) != 0 {
        die(ARRIVED.load(Ordering::Acquire));
    }
}

fn handler() -> libc::sighandler_t {
    on_signal as extern "C" fn(c_int) as libc::sighandler_t
}

fn action(signal: c_int) -> libc::sighandler_t {
    let mut found = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is set; `found` is memory for one action.
    unsafe { libc::sigaction(signal, ptr::null(), found.as_mut_ptr()) };
    // SAFETY: all zeros are a valid action, and the call may have filled it.
    unsafe { found.assume_init() }.sa_sigaction
}

fn set(signal: c_int, handler: libc::sighandler_t) {
    // SAFETY: all zeros are a valid action.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the action is whole; the handler is a function of this library, which is never unloaded.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
}

/// Calls only what POSIX lets a signal handler call.
extern "C" fn on_signal(signal: c_int) {
    // SAFETY: it takes no argument, always succeeds, and may be called in a signal handler.
    let pid = unsafe { libc::getpid() };
    if pid == OWNER.load(Ordering::Acquire) {
        ARRIVED.store(signal, Ordering::Release);
        // SAFETY: the semaphore was made before the handler was set.
        unsafe { libc::sem_post(WAKE.get()) };
        return;
    }
    // A forked child without that thread. The signal is blocked until this returns.
    set(signal, libc::SIG_DFL);
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(signal) };
}

/// The thread: waits for a signal, finishes, and lets the signal end the process.
fn wait() {
    // SAFETY: it was made before this thread.
    while unsafe { libc::sem_wait(WAKE.get()) } != 0 {}
    let signal = ARRIVED.load(Ordering::Acquire);
    let name =
        SIGNALS.iter().find(|(number, _)| *number == signal).map_or("a signal", |(_, name)| name);
    let (done, finished) = mpsc::channel();
    let work = move || {
        exit::finish_at_signal(name);
        let _ = done.send(());
    };
    let started = helper::spawn("vramtape-end", "the tape is not finished", work, || {});
    // A panic there was reported, and drops the channel.
    if started.is_ok() && finished.recv_timeout(FINISH_MAX) == Err(RecvTimeoutError::Timeout) {
        log::warn_at_end(&format!(
            "{name}: the tape could not be finished within {} s; what was written of it is readable",
            FINISH_MAX.as_secs()
        ));
    }
    die(signal);
}

/// Ends the process by the signal.
fn die(signal: c_int) {
    set(signal, libc::SIG_DFL);
    let mut set = MaybeUninit::uninit();
    // SAFETY: memory for one signal set, which the call fills.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the set was filled.
    unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    // SAFETY: the set was filled; the old mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut()) };
    // SAFETY: sends a signal to this thread, which takes it with its default action.
    unsafe { libc::raise(signal) };
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::thread;

    use super::super::helper::testing::alone;
    use super::*;

    /// How a process ends that gets SIGTERM once it has printed a line, and its last lines.
    fn end_by_sigterm(test: &str) -> (ExitStatus, String) {
        let mut process = alone(test).spawn().expect("a process");
        let mut errors = BufReader::new(process.stderr.take().expect("a pipe"));
        let mut text = String::new();
        while !text.contains('\n') {
            assert!(errors.read_line(&mut text).expect("its errors") > 0, "it ended by itself");
        }
        // SAFETY: sends a signal to a child that nothing has waited for.
        assert_eq!(unsafe { libc::kill(process.id() as i32, libc::SIGTERM) }, 0);
        let status = process.wait().expect("a child");
        errors.read_to_string(&mut text).expect("its errors");
        (status, text)
    }

    const LOSS: &str = "vramtape: SIGTERM and SIGHUP do not finish the tape from here on: internal error in vramtape";

    #[test]
    fn after_a_panic_of_the_thread_a_signal_ends_the_process_as_without_us() {
        let (status, text) = end_by_sigterm("process::signals::tests::process_that_panics_at_once");
        assert_eq!(status.signal(), Some(libc::SIGTERM), "{text}");
        assert!(text.contains(LOSS) && text.contains("at once"), "{text}");
    }

    #[test]
    fn a_signal_whose_handling_panics_ends_the_process_all_the_same() {
        let (status, text) = end_by_sigterm("process::signals::tests::process_that_panics_later");
        assert_eq!(status.signal(), Some(libc::SIGTERM), "{text}");
        assert!(text.contains(LOSS) && text.contains("at the signal"), "{text}");
    }

    #[test]
    #[ignore = "run by another test as a process to end"]
    fn process_that_panics_at_once() {
        crate::log::start().expect("no level is set");
        std::panic::set_hook(Box::new(|_| {}));
        arm_with(|| panic!("at once"));
        thread::sleep(Duration::from_secs(30));
    }

    #[test]
    #[ignore = "run by another test as a process to end"]
    fn process_that_panics_later() {
        crate::log::start().expect("no level is set");
        std::panic::set_hook(Box::new(|_| {}));
        arm_with(|| {
            // SAFETY: it was made before this thread.
            while unsafe { libc::sem_wait(WAKE.get()) } != 0 {}
            panic!("at the signal");
        });
        eprintln!("ready");
        thread::sleep(Duration::from_secs(30));
    }
}
