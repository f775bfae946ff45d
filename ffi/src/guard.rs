//! Wraps every export: panics stay inside, errors are recorded.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{self, Error};
use crate::torch;

/// Runs an export that answers every failure with `otherwise`. It never throws.
#[inline]
pub(crate) fn answer<T>(otherwise: T, body: impl FnOnce() -> Result<T, Error>) -> T {
    match attempt(body) {
        Ok(value) => value,
        Err(error) => {
            error::record(&error);
            otherwise
        }
    }
}

/// Runs an export that PyTorch calls where an exception may pass: in a process with PyTorch the
/// failure is thrown, elsewhere it is answered with `otherwise`.
#[inline]
pub(crate) fn raise<T>(otherwise: T, body: impl FnOnce() -> Result<T, Error>) -> T {
    match attempt(body) {
        Ok(value) => value,
        Err(error) => {
            fail(&error);
            otherwise
        }
    }
}

/// Out of line, so that the way of a call that succeeds stays short.
#[cold]
fn fail(error: &Error) {
    error::record(error);
    torch::raise(error.exception, &error.message);
}

/// The body's answer, a panic included as an error.
#[inline]
fn attempt<T>(body: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    // A panic breaks the heap's lock, so nothing half done is seen again.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(answer) => answer,
        Err(panic) => Err(Error::runtime(internal_error(panic.as_ref()))),
    }
}

/// The error message for a panic.
#[cold]
pub(crate) fn internal_error(panic: &(dyn Any + Send)) -> String {
    format!("internal error in vramtape, please report it: {}", message(panic))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<String>() {
        return text;
    }
    panic.downcast_ref::<&str>().copied().unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_goes_no_further() {
        let before = error::count();
        let got = answer(7, || -> Result<i32, Error> { panic!("at {}", 3) });
        assert_eq!(got, 7);
        assert!(error::count() > before);
        assert!(!error::last().is_null());
    }

    #[test]
    fn outside_pytorch_a_failure_is_answered_and_not_thrown() {
        let got = raise(None, || Err::<Option<i32>, _>(Error::value("no")));
        assert_eq!(got, None);
    }
}
