//! The times of a device's records in a file for another tool.

use trace_format::Record;

use crate::tape::Device;

/// Time between two records where the tape has no clock.
const RECORD_NS: u64 = 1000;

/// A clock that never goes back.
pub(super) struct Clock {
    is_recorded: bool,
    /// The present time.
    pub(super) now_ns: u64,
}

impl Clock {
    /// At the start of the device's records.
    pub(super) fn new(device: &Device) -> Self {
        let is_recorded = device.records.iter().any(|record| record.time_ns > 0);
        let first_ns = device.records.first().map_or(0, |record| record.time_ns);
        let now_ns = match device.base.time_ns {
            _ if !is_recorded => 0,
            0 => first_ns,
            base_ns => base_ns,
        };
        Self { is_recorded, now_ns }
    }

    /// Goes on to a record of this number. Where the recorded clock goes back, it stands still.
    pub(super) fn go_to(&mut self, at: usize, record: &Record) {
        let time_ns = if self.is_recorded { record.time_ns } else { at as u64 * RECORD_NS };
        self.now_ns = self.now_ns.max(time_ns);
    }
}
