//! The gapless stretches of a device's records.

use trace_format::{BaseState, DeviceId, Event, Record};

use super::Device;
use crate::sizes::{SizeError, Sizes};

/// Collects a device's records; of several stretches between gaps the longest stays.
#[derive(Debug, Default)]
pub(super) struct Stretches {
    base: BaseState,
    records: Vec<Record>,
    longest: Option<(BaseState, Vec<Record>)>,
    /// Whether records were lost since the last known state.
    has_gap: bool,
    lost: u64,
    left_out: u64,
    sizes: Sizes,
}

impl Stretches {
    /// Takes the next record.
    pub(super) fn push(&mut self, record: Record) -> Result<(), SizeError> {
        self.sizes.event(&record.event)?;
        if let Event::Lost { count } = record.event {
            self.lost = self.lost.saturating_add(count);
            self.has_gap = true;
        } else if self.has_gap {
            self.left_out += 1;
        } else {
            self.records.push(record);
        }
        Ok(())
    }

    /// Takes the next records.
    pub(super) fn extend(&mut self, records: &[Record]) -> Result<(), SizeError> {
        let is_loss = |record: &Record| matches!(record.event, Event::Lost { .. });
        if self.has_gap || records.iter().any(is_loss) {
            return records.iter().try_for_each(|record| self.push(*record));
        }
        records.iter().try_for_each(|record| self.sizes.event(&record.event))?;
        self.records.extend_from_slice(records);
        Ok(())
    }

    /// Takes a state. It matters at the start and behind a gap; elsewhere the records give the same state.
    pub(super) fn base(&mut self, base: BaseState) -> Result<(), SizeError> {
        Sizes::default().base(&base)?;
        if self.has_gap {
            self.close();
            self.has_gap = false;
            self.base = base;
        } else if self.records.is_empty() {
            self.base = base;
        }
        Ok(())
    }

    /// Keeps the longer of this stretch and the longest before.
    fn close(&mut self) {
        let stretch = (std::mem::take(&mut self.base), std::mem::take(&mut self.records));
        let before = self.longest.as_ref().map_or(0, |(_, records)| records.len());
        let shorter = if self.longest.is_some() && before >= stretch.1.len() {
            stretch.1.len()
        } else {
            self.longest = Some(stretch);
            before
        };
        self.left_out += shorter as u64;
    }

    /// The device with its longest stretch.
    pub(super) fn finish(mut self, id: DeviceId) -> Device {
        self.close();
        let (base, records) = self.longest.unwrap_or_default();
        Device { id, base, records, lost: self.lost, left_out: self.left_out }
    }
}

#[cfg(test)]
mod tests {
    use trace_format::{Record, StackId, ThreadId};

    use super::*;

    fn record(time_ns: u64, event: Event) -> Record {
        Record { time_ns, thread: ThreadId(0), stack: StackId::NONE, event }
    }

    fn base(time_ns: u64) -> BaseState {
        BaseState { time_ns, ..BaseState::default() }
    }

    fn device(stretches: Stretches) -> (u64, usize, u64, u64) {
        let device = stretches.finish(DeviceId(0));
        (device.base.time_ns, device.records.len(), device.lost, device.left_out)
    }

    #[test]
    fn without_a_gap_every_record_stays_and_the_first_state_is_the_start() {
        let mut all = Stretches::default();
        all.base(base(7)).unwrap();
        all.push(record(8, Event::ResetPeak)).unwrap();
        all.base(base(9)).unwrap();
        all.push(record(10, Event::ResetPeak)).unwrap();
        assert_eq!(device(all), (7, 2, 0, 0));
    }

    #[test]
    fn the_longest_stretch_between_gaps_stays_and_the_rest_is_counted() {
        let mut all = Stretches::default();
        all.push(record(1, Event::ResetPeak)).unwrap();
        all.push(record(2, Event::Lost { count: 5 })).unwrap();
        all.push(record(3, Event::ResetPeak)).unwrap(); // The state that this applies to is unknown.
        all.base(base(4)).unwrap();
        all.push(record(5, Event::ResetPeak)).unwrap();
        all.push(record(6, Event::ResetPeak)).unwrap();
        all.push(record(7, Event::Lost { count: 1 })).unwrap();
        all.base(base(8)).unwrap();
        all.push(record(9, Event::ResetPeak)).unwrap();
        assert_eq!(device(all), (4, 2, 6, 3));
    }

    #[test]
    fn records_that_come_together_are_taken_as_one_by_one() {
        let lost = Event::Lost { count: 5 };
        let events = [Event::ResetPeak, Event::ResetPeak, lost, Event::ResetPeak];
        for parts in [&events[..2], &events] {
            let records: Vec<Record> = (1..).zip(parts).map(|(at, it)| record(at, *it)).collect();
            let (mut one_by_one, mut together) = (Stretches::default(), Stretches::default());
            records.iter().try_for_each(|record| one_by_one.push(*record)).unwrap();
            together.extend(&records).unwrap();
            assert_eq!(device(one_by_one), device(together));
        }
    }

    #[test]
    fn a_device_without_records_keeps_its_state() {
        let mut all = Stretches::default();
        all.base(base(3)).unwrap();
        assert_eq!(device(all), (3, 0, 0, 0));
    }
}
