//! Errors for the C caller: the last error of each thread, and their count.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use allocator::heap::{AllocError, HeapError};
use device::DeviceError;
use settings::{ConfigError, PyException};
use trace_format::visible;

/// The Python exception that PyTorch makes of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exception {
    OutOfMemory,
    Value,
    Index,
    Runtime,
}

/// An error on its way to the C caller. Python prints its message as it is, so that control characters of names are
/// shown in it.
#[derive(Clone, Debug)]
pub(crate) struct Error {
    pub exception: Exception,
    pub message: String,
}

impl Error {
    pub(crate) fn new(exception: Exception, message: impl Into<String>) -> Self {
        Self { exception, message: visible(&message.into()).into_owned() }
    }

    /// The same with lines behind the message, each with a line break before it.
    pub(crate) fn with_lines(mut self, lines: &str) -> Self {
        self.message.push_str(&visible(lines));
        self
    }

    /// A caller's mistake: what is wrong, with what to do about it.
    pub(crate) fn value(message: impl Into<String>) -> Self {
        Self::new(Exception::Value, message)
    }

    pub(crate) fn runtime(message: impl Display) -> Self {
        Self::new(Exception::Runtime, message.to_string())
    }
}

impl From<AllocError> for Error {
    fn from(error: AllocError) -> Self {
        let exception = match error {
            AllocError::OutOfMemory(_) | AllocError::Rejected(_) | AllocError::TooLarge { .. } => {
                Exception::OutOfMemory
            }
            _ => Exception::Runtime,
        };
        let message = match &error {
            // PyTorch's sentence comes first: programs look for it.
            AllocError::Rejected(rejection) => {
                format!("{rejection}\nvramtape: {}", rejection.explanation())
            }
            _ => error.to_string(),
        };
        Self::new(exception, message)
    }
}

impl From<HeapError> for Error {
    fn from(error: HeapError) -> Self {
        Self::runtime(error)
    }
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        Self::runtime(error)
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        let exception = match error.exception {
            PyException::ValueError => Exception::Value,
            PyException::IndexError => Exception::Index,
            PyException::RuntimeError => Exception::Runtime,
        };
        Self::new(exception, error.to_string())
    }
}

/// Errors of all threads since the process began. Touched by failures only.
static COUNT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Remembers an error as this thread's last.
pub(crate) fn record(error: &Error) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let text: Vec<u8> = error.message.bytes().filter(|byte| *byte != 0).collect();
    // A thread that is ending has no last error any more; the count is kept.
    let _ = LAST.try_with(|last| last.replace(CString::new(text).ok()));
}

/// The thread's last error, until its next one or `clear`; null where there is none.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ref().map_or(ptr::null(), |text| text.as_ptr()))
        .unwrap_or(ptr::null())
}

/// Forgets the thread's last error.
pub(crate) fn clear() {
    let _ = LAST.try_with(|last| last.replace(None));
}

/// How many errors there were in all threads.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}
