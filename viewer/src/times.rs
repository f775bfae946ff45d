//! Times of moments: samples that the page interpolates between.

use trace_format::Record;

use crate::chunk::{Arrays, Chunk};

/// Samples of a device at most, about.
const SAMPLES_MAX: usize = 1 << 16;

/// The clock of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) is_known: bool,
    pub(crate) start_ns: u64,
    pub(crate) step_moments: u32,
}

impl Clock {
    pub(crate) fn of(records: &[Record]) -> Self {
        let start_ns = records.first().map_or(0, |record| record.time_ns);
        let step = records.len().div_ceil(SAMPLES_MAX).next_power_of_two();
        Self { is_known: start_ns > 0, start_ns, step_moments: step as u32 }
    }

    /// The samples; moment 0 has the time of the first record.
    pub(crate) fn chunk(&self, id: String, records: &[Record]) -> Option<Chunk> {
        let last = records.last().filter(|_| self.is_known)?;
        let step = self.step_moments as usize;
        let sampled = records.iter().skip(step - 1).step_by(step);
        let mut latest = 0;
        let times = sampled.chain([last]).map(|record| {
            // A clock that goes back stands still here.
            latest = latest.max(record.time_ns.saturating_sub(self.start_ns));
            latest
        });
        let mut times: Vec<u64> = times.collect();
        times.insert(0, 0);
        let mut arrays = Arrays::default();
        arrays.rising(times.into_iter());
        Some(Chunk::of(id, &arrays))
    }
}
