//! Which of two lines is better, and whether the better one is worth a change.

use crate::report::Report;
use crate::strategy::table::STITCH;

/// A lower peak counts as a gain from this share of the old one on.
const PEAK_GAIN_MIN: f64 = 0.01;
/// A knob stays in the line if the peak were higher without it, by more than this share.
const KNOB_GAIN_MIN: f64 = 0.005;
/// Fewer device calls alone count as a gain from this share on.
const CALLS_GAIN_MIN: f64 = 0.1;

/// How good a line is, over all runs; the smaller the better.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score {
    /// More than before, of any run.
    pub(crate) ooms_more: i64,
    pub(crate) ooms: i64,
    pub(crate) worst_reserved_bytes: u64,
    pub(crate) device_calls: i64,
    pub(crate) complexity: usize,
    /// Times memory was out, of each run.
    pub(crate) ooms_of: Vec<i64>,
}

impl Score {
    pub(crate) const NONE: Self = Self {
        ooms_more: 0,
        ooms: 0,
        worst_reserved_bytes: 0,
        device_calls: 0,
        complexity: 0,
        ooms_of: Vec::new(),
    };

    pub(crate) fn of(reports: &[Report], before: Option<&Self>) -> Self {
        let ooms_of: Vec<_> = reports.iter().map(|report| report.num_ooms).collect();
        let more = before.map_or(0, |before| {
            let pairs = ooms_of.iter().zip(&before.ooms_of);
            pairs.map(|(now, then)| (now - then).max(0)).sum()
        });
        Self {
            ooms_more: more,
            ooms: ooms_of.iter().sum(),
            worst_reserved_bytes: reports
                .iter()
                .map(|report| report.peak_reserved_bytes)
                .max()
                .unwrap_or(0),
            device_calls: reports.iter().map(device_calls).sum(),
            complexity: 0,
            ooms_of,
        }
    }

    /// Whether it is as good but for what a knob has to earn: no more OOMs, hardly more memory or calls.
    pub(crate) fn is_about_as_good_as(&self, best: &Self) -> bool {
        let reserved_share =
            self.worst_reserved_bytes as f64 / best.worst_reserved_bytes.max(1) as f64;
        let calls_share = self.device_calls as f64 / best.device_calls.max(1) as f64;
        (self.ooms_more, self.ooms) <= (best.ooms_more, best.ooms)
            && reserved_share <= 1.0 + KNOB_GAIN_MIN
            && calls_share <= 1.0 + CALLS_GAIN_MIN
    }

    /// Whether a line with this score is worth a change.
    pub(crate) fn is_gain_over(&self, before: &Self) -> bool {
        let peak_share =
            self.worst_reserved_bytes as f64 / before.worst_reserved_bytes.max(1) as f64;
        let calls_share = self.device_calls as f64 / before.device_calls.max(1) as f64;
        self.is_memory_gain_over(before)
            || (before.ooms == 0 && peak_share <= 1.0 && calls_share <= 1.0 - CALLS_GAIN_MIN)
    }

    /// The same for memory alone. Where memory was out, only fewer such times are a gain: a run that reserves less and
    /// dies all the same is no better off.
    pub(crate) fn is_memory_gain_over(&self, before: &Self) -> bool {
        if before.ooms > 0 {
            return self.ooms < before.ooms;
        }
        let peak_share =
            self.worst_reserved_bytes as f64 / before.worst_reserved_bytes.max(1) as f64;
        self.ooms == 0 && peak_share <= 1.0 - PEAK_GAIN_MIN
    }
}

/// Calls that obtain or return device memory. `stitch` makes one for each page, and others to map it.
pub(crate) fn device_calls(report: &Report) -> i64 {
    if report.strategy == STITCH.name {
        return i64::try_from(report.driver_calls).unwrap_or(i64::MAX);
    }
    report.device_allocs + report.device_frees
}
