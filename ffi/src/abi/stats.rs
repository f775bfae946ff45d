//! Statistics.

use std::ffi::{c_char, c_int};

use super::device_stats::stats_of;
use super::done;
use super::text::{copy_out, to_json};
use crate::error::Error;
use crate::{guard, process};

/// The device's statistics as JSON, with the keys and values of PyTorch's
/// `torch.cuda.memory_stats_as_nested_dict()`. A device that was never used has zeros.
///
/// Returns the length without the closing NUL, or -1; the buffer gets the text if it fits, else
/// the empty string. NULL asks for the length, which may have grown by the next call.
///
/// # Safety
///
/// `buffer` is NULL or points to `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_stats(
    device: c_int,
    buffer: *mut c_char,
    capacity: usize,
) -> i64 {
    guard::answer(-1, || {
        let json = to_json(&stats_of(device)?)?;
        // SAFETY: the caller vouches for the buffer.
        Ok(unsafe { copy_out(&json, buffer, capacity) })
    })
}

/// Sets every peak to the current value (`torch.cuda.reset_peak_memory_stats`).
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_reset_peak_stats(device: c_int) -> c_int {
    done(|| {
        if let Some(heap) = process::used(device)? {
            heap.lock()?.reset_peak_stats();
        }
        Ok(())
    })
}

/// Zeroes the accumulated counters (`torch.cuda.reset_accumulated_memory_stats`).
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_reset_accumulated_stats(device: c_int) -> c_int {
    done(|| {
        if let Some(heap) = process::used(device)? {
            heap.lock()?.reset_accumulated_stats();
        }
        Ok(())
    })
}

/// The limit that `vramtape_set_memory_fraction` set; 1 is none. -1 is an
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_get_memory_fraction(device: c_int) -> f64 {
    guard::answer(-1.0, || Ok(process::heap(device)?.lock()?.memory_fraction()))
}

/// Looks through the device's whole heap for contradictions. An error names the first: a bug.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_check(device: c_int) -> c_int {
    done(|| {
        if let Some(heap) = process::used(device)? {
            heap.lock()?.check().map_err(Error::runtime)?;
        }
        Ok(())
    })
}
