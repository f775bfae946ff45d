//! The header: what the page needs to know before it reads a chunk.

use serde::Serialize;

use crate::grouping::Quantity;

/// The first element of the page's data.
#[derive(Debug, Serialize)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) producer: String,
    pub(crate) devices: Vec<DeviceHeader>,
}

/// A device of a run.
#[derive(Debug, Serialize)]
pub(crate) struct DeviceHeader {
    pub(crate) run: String,
    pub(crate) device: u16,
    pub(crate) name: String,
    pub(crate) records: u64,
    pub(crate) moments: u64,
    pub(crate) has_clock: bool,
    /// Decimal: a number of JSON would lose digits.
    pub(crate) start_ns: String,
    pub(crate) lost: u64,
    pub(crate) left_out: u64,
    pub(crate) ooms: u64,
    pub(crate) capacity_bytes: Option<u64>,
    pub(crate) levels: Vec<LevelHeader>,
    pub(crate) groupings: Vec<GroupingHeader>,
    pub(crate) lives: LivesHeader,
    pub(crate) time_step_moments: u32,
    pub(crate) peaks: Peaks,
    pub(crate) facts: Vec<(String, String)>,
    /// The names of its plots.
    pub(crate) plots: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct LevelHeader {
    pub(crate) column_moments: u32,
    pub(crate) columns: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct GroupingHeader {
    pub(crate) name: String,
    pub(crate) quantity: Quantity,
    pub(crate) groups: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct LivesHeader {
    pub(crate) leaf_moments: u32,
    pub(crate) height: u32,
    pub(crate) count: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct Peaks {
    pub(crate) allocated_bytes: u64,
    pub(crate) allocated_moment: u32,
    pub(crate) reserved_bytes: u64,
    pub(crate) reserved_moment: u32,
    pub(crate) active_bytes: u64,
    pub(crate) requested_bytes: u64,
    pub(crate) live_bytes: u64,
    pub(crate) enveloped_bytes: u64,
}
