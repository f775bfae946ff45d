//! The recorder of each heap, and what happens to its ring when the process ends or forks.

use std::sync::Arc;

use allocator::config::{RecordMode, Settings};
use allocator::record::{AnyRecorder, Off, RING_DIR, Ring, RingOptions, RingRecorder, SystemClock};
use trace_format::DeviceId;

use super::lock;
use crate::error::Error;

/// The recorder that the settings ask for.
pub(super) fn make(settings: &Settings, device: DeviceId) -> Result<AnyRecorder, Error> {
    if settings.record == RecordMode::Off {
        return Ok(AnyRecorder::Off(Off));
    }
    let options =
        RingOptions { dir: RING_DIR.into(), device, slots: settings.ring_events as usize };
    let ring = RingRecorder::new(&options, SystemClock::new()).map_err(|error| {
        Error::runtime(format_args!(
            "no memory for device {device}'s ring of \
            {} events: {error}; set ring_events in VRAMTAPE_CONF lower",
            settings.ring_events
        ))
    })?;
    Ok(AnyRecorder::Ring(ring))
}

/// The recorder's ring, if it has one.
pub(super) fn ring(recorder: &AnyRecorder) -> Option<Arc<Ring>> {
    match recorder {
        AnyRecorder::Off(_) => None,
        AnyRecorder::Ring(recorder) => Some(Arc::clone(recorder.ring())),
    }
}

/// Removes the rings' files when the process ends as it should: what is left of a ring tells that
/// its process was killed.
pub(super) fn remove_rings_at_exit() -> Result<(), Error> {
    // SAFETY: the handler is a function of this library, which is never unloaded (PyTorch keeps
    // pointers into it).
    match unsafe { libc::atexit(remove_rings) } {
        0 => Ok(()),
        _ => Err(Error::runtime("atexit failed: out of host memory")),
    }
}

extern "C" fn remove_rings() {
    if let Some(process) = &*lock() {
        for ring in &process.rings {
            ring.remove();
        }
    }
}
