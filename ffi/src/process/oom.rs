//! Observers of out of memory: called before the exception, with no lock held (`attachOutOfMemoryObserver`).

use std::ffi::{c_int, c_void};

use allocator::heap::{AllocError, Rejection};
use oom::mark_of_process;
use trace_format::MarkKind;

use super::{lock, oom_dir, oom_lines, tape, with};
use crate::error::Error;

/// The event that an observer is called at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// Out of memory: bytes of the requested segment, bytes that may be used, free bytes of the device.
    OutOfMemory,
    /// Refused before an allocation on the device: bytes of the segment, bytes reserved, the device's bytes.
    Rejection,
}

/// The function that is called: with the caller's pointer, the device, and the occasion's three numbers.
pub(crate) type Function =
    unsafe extern "C-unwind" fn(user: *mut c_void, device: c_int, u64, u64, u64);

/// A caller's function, and when it is called.
#[derive(Clone, Copy)]
pub(crate) struct Observer {
    pub occasion: Occasion,
    pub function: Function,
    pub user: *mut c_void,
}

// SAFETY: the caller promised that the function may be called on any thread.
unsafe impl Send for Observer {}

/// Adds an observer, for good.
pub(crate) fn add(observer: Observer) -> Result<(), Error> {
    stacks::hold_end_for_calls();
    with(|process| {
        process.observers.push(observer);
        Ok(())
    })
}

/// The error of an allocation, explained, after the observers saw it.
#[cold]
#[inline(never)]
pub(crate) fn observed(error: AllocError) -> Error {
    let mut explained = None;
    let (occasion, device, [first, second, third]) = match &error {
        AllocError::OutOfMemory(report) => {
            let allowed_bytes = report.allowed_bytes.unwrap_or(report.device_total_bytes);
            let numbers = [report.segment_bytes, allowed_bytes, report.device_free_bytes];
            if let Some(used_bytes) = report.own_used_bytes() {
                // With it a reader of the tape separates libraries of this process from other processes. A mark that
                // cannot be recorded leaves the reader without.
                let _ =
                    tape::mark_on(report.device, MarkKind::Instant, &mark_of_process(used_bytes));
            }
            // Before an observer frees memory.
            explained = Some((report.device, oom_lines::explained(report)));
            (Occasion::OutOfMemory, report.device, numbers)
        }
        AllocError::Rejected(rejection) => {
            let &Rejection { device, segment_bytes, reserved_bytes, device_total_bytes, .. } =
                rejection;
            (Occasion::Rejection, device, [segment_bytes, reserved_bytes, device_total_bytes])
        }
        _ => return error.into(),
    };
    // A reader of the tape finds this out of memory there, whatever the program does next. A tape that cannot be
    // written has warned already.
    let _ = tape::flush();
    let saved = explained.as_ref().and_then(|(device, _)| oom_dir::save(*device));
    // One may allocate, fail and come here again: the list is not locked while they run.
    let observers = lock().as_ref().map(|process| process.observers.clone()).unwrap_or_default();
    for Observer { function, user, .. } in
        observers.into_iter().filter(|observer| observer.occasion == occasion)
    {
        // SAFETY: the caller promised that both stay valid until the process ends. It may wait for Python.
        let observe = || unsafe { function(user, c_int::from(device.0), first, second, third) };
        stacks::call_program(observe);
    }
    let lines = explained.map(|(device, lines)| oom_lines::joined(lines, device, saved));
    Error::from(error).with_lines(&lines.unwrap_or_default())
}
