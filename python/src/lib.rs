//! `libvramtape_lab.so`: the replay lab behind the C functions that the Python package calls.
//!
//! A separate library, so that the one which PyTorch loads into a training run stays small. The functions are the
//! package's own: both are in one wheel, and nothing else calls them.
//!
//! A question runs on its own threads, from [`vramtape_lab_ask`] until it is finished or given up. There are no
//! callbacks: Python polls for progress, so an exception or Ctrl-C is raised between two polls. No thread exists before
//! or after a question, so a process may fork between two of them.

mod asked;

use std::ffi::{CStr, CString, OsString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;
use std::panic::catch_unwind;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use asked::Asked;

/// A question on its way, for the caller a pointer and nothing more.
pub struct Question {
    asked: Arc<Asked>,
    reply: CString,
}

/// Asks: `arguments` are those of the `vramtape` command without its name, and as many threads as `threads` says work
/// on it, 0 for one a core. NULL where no thread can be started.
///
/// # Safety
///
/// `arguments` points to `count` terminated strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_lab_ask(
    arguments: *const *const c_char,
    count: usize,
    threads: usize,
) -> *mut Question {
    // SAFETY: the caller vouches for `count` terminated strings.
    let arguments = unsafe { read(arguments, count) };
    match catch_unwind(|| Asked::start(arguments, threads)) {
        Ok(Ok(asked)) => Box::into_raw(Box::new(Question { asked, reply: CString::default() })),
        _ => ptr::null_mut(),
    }
}

/// Waits, at most so long: 1 where the question is finished, else 0, and how many of how many records are done (0 of 0
/// while the run is read).
///
/// # Safety
///
/// `question` is from `vramtape_lab_ask` and not closed; `done` and `total` point to room for one number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_lab_wait(
    question: *const Question,
    milliseconds: u32,
    done: *mut u64,
    total: *mut u64,
) -> c_int {
    // SAFETY: the caller vouches for a question of ours that is not closed; only `reply` and `close` change it.
    let question = unsafe { &*question };
    let is_finished = question.asked.wait(Duration::from_millis(milliseconds.into()));
    let seen = question.asked.progress();
    // SAFETY: the caller gives room for one number.
    unsafe { done.write(seen.0) };
    // SAFETY: the caller gives room for one number here too.
    unsafe { total.write(seen.1) };
    c_int::from(is_finished)
}

/// The reply of a finished question, JSON with `answer`, `error` and `warnings`. It lives until the question is closed.
///
/// # Safety
///
/// `question` is from `vramtape_lab_ask`, finished and not closed, and no other thread uses it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_lab_reply(question: *mut Question) -> *const c_char {
    // SAFETY: the caller vouches for a question of ours that is not closed, and that no other thread uses.
    let question = unsafe { &mut *question };
    // JSON holds no NUL.
    question.reply = CString::new(question.asked.reply()).unwrap_or_default();
    question.reply.as_ptr()
}

/// Forgets a question. One that is not finished is given up, at its next step.
///
/// # Safety
///
/// `question` is from `vramtape_lab_ask` and not closed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_lab_close(question: *mut Question) {
    // SAFETY: the caller vouches that `vramtape_lab_ask` made this box, and for its last use.
    let question = unsafe { Box::from_raw(question) };
    question.asked.give_up();
}

/// Runs the `vramtape` command on this process's standard streams, the program's name first; its exit code.
///
/// # Safety
///
/// As for `vramtape_lab_ask`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_lab_command(
    arguments: *const *const c_char,
    count: usize,
) -> c_int {
    // SAFETY: the caller vouches for `count` terminated strings.
    let arguments = unsafe { read(arguments, count) };
    catch_unwind(|| cli::run(arguments)).map_or(101, c_int::from) // As a Rust program that panicked.
}

/// # Safety
///
/// `arguments` points to `count` terminated strings.
unsafe fn read(arguments: *const *const c_char, count: usize) -> Vec<OsString> {
    let one = |at| {
        // SAFETY: the caller vouches for `count` pointers, and `at` is below that.
        let argument = unsafe { arguments.add(at) };
        // SAFETY: one of these pointers is there.
        let argument = unsafe { argument.read() };
        // SAFETY: the caller vouches for a terminated string.
        let argument = unsafe { CStr::from_ptr(argument) };
        OsString::from_vec(argument.to_bytes().to_vec())
    };
    (0..count).map(one).collect()
}
