//! The mappings of pages in a run under `stitch`: whether its steps still call the driver.

use std::fmt::Write;

use serde::Serialize;
use trace_format::{Event, MarkKind, State};

use crate::bytes;

/// Mappings of pages, homes and ghosts.
#[derive(Debug, Default, Serialize)]
pub(super) struct Mappings {
    /// The most bytes of addresses that were mapped at once; those of a page that is mapped twice count twice.
    peak_mapped_bytes: u64,
    /// Pages that were mapped.
    maps: u64,
    /// The same in the last whole step; `null` without two marks of steps.
    last_step_maps: Option<u64>,
    /// Maps before the last mark of a step.
    #[serde(skip)]
    maps_before_step: Option<u64>,
}

impl Mappings {
    /// Counts a record that led to a state.
    pub(super) fn count(&mut self, event: &Event, state: &State) {
        match event {
            Event::PageMap { .. } => {
                self.maps += 1;
                self.peak_mapped_bytes = self.peak_mapped_bytes.max(state.pages().size_bytes());
            }
            Event::Mark { kind: MarkKind::Step, .. } => {
                self.last_step_maps = self.maps_before_step.map(|before| self.maps - before);
                self.maps_before_step = Some(self.maps);
            }
            _ => {}
        }
    }

    /// `None` where no page was ever mapped.
    pub(super) fn known(self) -> Option<Self> {
        (self.peak_mapped_bytes > 0).then_some(self)
    }

    /// The lines of the summary.
    pub(super) fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "  peak mapped    {:>14}", bytes::show(self.peak_mapped_bytes))?;
        match self.last_step_maps {
            Some(maps) => writeln!(text, "    {:<15} {maps:>11}", "last step maps"),
            None => Ok(()),
        }
    }
}

impl From<&State> for Mappings {
    /// Those of a start.
    fn from(start: &State) -> Self {
        Self { peak_mapped_bytes: start.pages().size_bytes(), ..Self::default() }
    }
}
