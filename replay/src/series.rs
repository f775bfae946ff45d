//! Memory over time of a replay, at a bounded number of points.

use serde::Serialize;
use trace_format::Record;

/// One of the equal stretches of records that a run is drawn in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Records up to the end of the stretch.
    pub after_records: u64,
    /// When it ended, in nanoseconds since the Unix epoch; 0 where the run had no clock.
    pub time_ns: u64,
    /// The most that was held from the device at once within the stretch.
    pub reserved_bytes: u64,
    /// The most that was alive at once within it.
    pub live_bytes: u64,
}

/// Draws a run in equal stretches. Each shows its peaks, so that none is hidden however few there are.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    stretch_records: u64,
    points: Vec<Point>,
}

impl Series {
    /// For so many records, at most `points` points (at least one).
    pub(crate) fn new(records: usize, points: usize) -> Self {
        let stretch_records = (records as u64).div_ceil(points.max(1) as u64).max(1);
        Self { stretch_records, points: Vec::with_capacity(points.min(records)) }
    }

    /// Adds the memory after a record.
    pub(crate) fn add(&mut self, record: &Record, reserved_bytes: u64, live_bytes: u64) {
        let done = self.points.last().map_or(0, |point| point.after_records);
        if done.is_multiple_of(self.stretch_records) {
            self.points.push(Point { after_records: done, ..Point::default() });
        }
        if let Some(point) = self.points.last_mut() {
            point.after_records += 1;
            point.time_ns = record.time_ns;
            point.reserved_bytes = point.reserved_bytes.max(reserved_bytes);
            point.live_bytes = point.live_bytes.max(live_bytes);
        }
    }

    /// The points so far.
    pub(crate) fn into_points(self) -> Vec<Point> {
        self.points
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trace_format::{Event, StackId, ThreadId};

    use super::*;

    fn record(time_ns: u64) -> Record {
        Record { time_ns, thread: ThreadId(1), stack: StackId::NONE, event: Event::ResetPeak }
    }

    proptest! {
        #[test]
        fn no_peak_is_hidden_and_no_record_left_out(
            held in prop::collection::vec((0..1000_u64, 0..1000_u64), 1..200),
            points in 1..50_usize,
        ) {
            let mut series = Series::new(held.len(), points);
            for (at, (reserved, live)) in (0..).zip(&held) {
                series.add(&record(at), *reserved, *live);
            }
            let drawn = series.into_points();
            prop_assert!(!drawn.is_empty() && drawn.len() <= points);
            prop_assert_eq!(drawn.last().unwrap().after_records, held.len() as u64);
            prop_assert_eq!(drawn.last().unwrap().time_ns, held.len() as u64 - 1);
            let most = |of: fn(&Point) -> u64| drawn.iter().map(of).max();
            prop_assert_eq!(most(|point| point.reserved_bytes), held.iter().map(|held| held.0).max());
            prop_assert_eq!(most(|point| point.live_bytes), held.iter().map(|held| held.1).max());
        }
    }
}
