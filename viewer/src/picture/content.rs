//! The content of a picture: one device's columns, its largest groups with their colours, and its lanes.

use replay::tape::{Device, Tape};

use super::colours::Rgb;
use super::lanes::{Lanes, arrange};
use super::theme::Theme;
use crate::bands::{Changes, ShownLives};
use crate::columns::{Column, Counters};
use crate::device::gpu;
use crate::follow::Followed;
use crate::grouping::Grouping;
use crate::marks::marks;
use crate::patterns::patterns;
use crate::times::Clock;

/// The headroom and the limit of a capacity that is drawn, as the page has them (`page/app/view.ts`).
const HEADROOM: f64 = 1.06;
const CAPACITY_SHOWN: f64 = 1.5;
const TOP_BYTES_MIN: u64 = 1024;

/// A band of the stack.
pub(crate) struct Group {
    pub(crate) label: String,
    pub(crate) colour: Rgb,
    /// One number for each column.
    pub(crate) bytes: Vec<u64>,
}

/// Everything that a picture shows of a device.
pub(crate) struct Content<'t> {
    pub(crate) gpu: &'t str,
    pub(crate) capacity_bytes: Option<u64>,
    pub(crate) ooms: u64,
    pub(crate) records: usize,
    pub(crate) moments: u32,
    pub(crate) allocations: usize,
    pub(crate) column_moments: u32,
    pub(crate) columns: Vec<Column>,
    /// The column with the most allocated bytes.
    pub(crate) peak_column: usize,
    pub(crate) peak: Counters,
    pub(crate) peak_allocated_moment: u32,
    pub(crate) peak_reserved_moment: u32,
    pub(crate) peak_live_bytes: u64,
    pub(crate) grouping: &'static str,
    /// From the bottom.
    pub(crate) groups: Vec<Group>,
    /// All groups of the grouping.
    pub(crate) groups_all: usize,
    pub(crate) lanes: Lanes,
    pub(crate) names: Vec<String>,
}

impl<'t> Content<'t> {
    /// `pixels` is the height of the plot: groups that nowhere reach half of one are not drawn by themselves.
    pub(crate) fn new(
        tape: &'t Tape,
        device: &'t Device,
        followed: Followed,
        grouping: Option<&Grouping>,
        theme: Theme,
        pixels: f64,
    ) -> Self {
        let patterns = patterns(&followed, &device.records, tape);
        let start_ns = Clock::of(&device.records).start_ns;
        let (marks, names) =
            marks(&followed, &device.records, &patterns, start_ns, |id| tape.text(id));
        let lanes = arrange(&marks, u64::from(followed.moments));
        let (gpu, capacity_bytes) = gpu(tape, device);
        let mut content = Self {
            gpu,
            capacity_bytes,
            ooms: followed.ooms,
            records: device.records.len(),
            moments: followed.moments,
            allocations: followed.lives.len(),
            column_moments: followed.level.column_moments,
            columns: Vec::new(),
            peak_column: 0,
            peak: followed.peak,
            peak_allocated_moment: followed.peak_allocated_moment,
            peak_reserved_moment: followed.peak_reserved_moment,
            peak_live_bytes: followed.peak_live_bytes,
            grouping: grouping.map_or("", |it| it.name),
            groups: Vec::new(),
            groups_all: grouping.map_or(0, |it| it.labels.len()),
            lanes,
            names: names.into_iter().map(str::to_owned).collect(),
        };
        if let Some(grouping) = grouping {
            let least_bytes = content.top_bytes() / (2.0 * pixels);
            content.groups = groups(&followed, grouping, theme, least_bytes as u64);
        }
        content.columns = followed.level.columns;
        let heights = content.columns.iter().map(|column| column.at_peak.allocated_bytes);
        content.peak_column =
            heights.clone().position(|it| Some(it) == heights.clone().max()).unwrap_or(0);
        content
    }

    /// The capacity, where the page draws it.
    pub(crate) fn capacity_line(&self) -> Option<u64> {
        let peak = self.peak.allocated_bytes.max(self.peak.reserved_bytes) as f64;
        self.capacity_bytes.filter(|bytes| *bytes > 0 && *bytes as f64 <= CAPACITY_SHOWN * peak)
    }

    /// Whether bytes were freed while another stream used them.
    pub(crate) fn has_pending(&self) -> bool {
        self.columns.iter().any(|it| it.at_peak.active_bytes > it.at_peak.allocated_bytes)
    }

    /// The bytes at the upper edge of the plot.
    pub(crate) fn top_bytes(&self) -> f64 {
        let Counters { allocated_bytes, active_bytes, reserved_bytes, .. } = self.peak;
        let peak = allocated_bytes.max(active_bytes).max(reserved_bytes).max(TOP_BYTES_MIN);
        HEADROOM * peak.max(self.capacity_line().unwrap_or(0)) as f64
    }

    /// A sentence about a device without memory, as the page has it.
    pub(crate) fn empty_text(&self) -> Option<&'static str> {
        if self.records == 0 && self.columns.iter().all(|it| it.reserved_most == 0) {
            return Some("The recording has no records of this device.");
        }
        (self.peak.allocated_bytes == 0 && self.peak.reserved_bytes == 0)
            .then_some("Nothing was allocated or reserved on this device.")
    }
}

fn groups(followed: &Followed, grouping: &Grouping, theme: Theme, least_bytes: u64) -> Vec<Group> {
    let colours = theme.colours().of_groups(&grouping.labels, grouping.name == "category");
    let shown = ShownLives::of(followed, &followed.level);
    let changes = shown.changes(followed, &grouping.of_kind);
    let stack = changes.stack(grouping.labels.len(), least_bytes);
    let group = |(group, bytes): (u32, Vec<u64>)| Group {
        label: grouping.labels[group as usize].clone(),
        colour: colours[group as usize],
        bytes,
    };
    stack.groups.into_iter().zip(stack.bytes).map(group).collect()
}
