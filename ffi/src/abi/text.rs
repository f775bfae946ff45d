//! Text to and from the C caller.

use std::ffi::{CStr, c_char};
use std::ptr;

use serde::Serialize;

use crate::error::Error;

/// Copies `text` and a closing NUL into the caller's buffer if both fit; otherwise makes it the
/// empty string. Answers the length of the text without the NUL.
///
/// # Safety
///
/// `buffer` is NULL, or points to `capacity` bytes of the caller's.
pub(super) unsafe fn copy_out(text: &str, buffer: *mut c_char, capacity: usize) -> i64 {
    if !buffer.is_null() && capacity > 0 {
        let fits = text.len() < capacity;
        let length = if fits { text.len() } else { 0 };
        // SAFETY: `length` bytes and a NUL fit, and the text lies elsewhere.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, length) };
        // SAFETY: the length is below the capacity.
        let end = unsafe { buffer.add(length) };
        // SAFETY: `end` is in the buffer, because the length is below the capacity.
        unsafe { end.write(0) };
    }
    text.len() as i64
}

/// The caller's text; `what` names it in errors.
///
/// # Safety
///
/// `text` is NULL, or a terminated string that stays as it is during the call.
pub(super) unsafe fn read<'a>(text: *const c_char, what: &str) -> Result<&'a str, Error> {
    if text.is_null() {
        return Err(Error::value(format!("{what} is NULL; expected a string")));
    }
    // SAFETY: the caller vouches for a terminated string that stays as it is during the call.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Error::value(format!("{what} is not UTF-8: {text:?}")))
}

/// The value as JSON.
pub(super) fn to_json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(Error::runtime)
}
