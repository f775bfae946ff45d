//! Which moment of a run is explained: as it is written, and where it is.

use std::fmt;
use std::str::FromStr;

use events::Off;
use models::model_settings::duration;
use serde::Serialize;
use trace_format::{Event, Record};

use super::ExplainError;
use super::peak::Peaks;
use crate::driver::{Driver, Result};
use crate::run::{DeviceTape, Options, native_driver};
use crate::strategy::Native;

/// A moment as a person names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The out of memory that ended the run, else the last recorded one, else the first of the replay.
    OutOfMemory,
    /// The first moment with the most bytes alive.
    Peak,
    /// Behind the last record.
    Last,
    /// Before the record of this number, from 0.
    Record(u64),
    /// So long after the first record.
    Time {
        /// Nanoseconds.
        ns: u64,
    },
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "oom" => Ok(Self::OutOfMemory),
            "peak" => Ok(Self::Peak),
            "last" => Ok(Self::Last),
            number if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
                number.parse().map(Self::Record).map_err(|_| format!("there is no record {number}"))
            }
            time => match duration(time) {
                Ok(ns) => Ok(Self::Time { ns }),
                Err(_) => Err(format!(
                    "`{time}` is no moment; write oom, peak, last, the number of a record, or a time such as 1500ms"
                )),
            },
        }
    }
}

/// As it is written.
impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory => f.write_str("oom"),
            Self::Peak => f.write_str("peak"),
            Self::Last => f.write_str("last"),
            Self::Record(number) => write!(f, "{number}"),
            Self::Time { ns } => write!(f, "{ns}ns"),
        }
    }
}

/// The kind of moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MomentKind {
    /// A refused request.
    Oom,
    /// The first moment with the most bytes alive.
    Peak,
    /// Behind the last record.
    Last,
    /// A record that was asked for.
    Record,
    /// A time that was asked for.
    Time,
}

/// The moments that a replay shows.
#[derive(Clone, Debug, Default)]
pub(super) struct Scan {
    /// Records whose request was refused, ascending.
    pub(super) refused: Vec<u64>,
    /// The most bytes that were alive at once, and the records before the first such moment.
    pub(super) peak: (u64, u64),
    /// The peaks of the whole run.
    pub(super) peaks: Peaks,
}

impl Scan {
    /// Replays the whole run.
    pub(super) fn of(tape: DeviceTape<'_>, options: &Options) -> Result<Self> {
        let mut driver = driver(tape, options)?;
        let mut scan = Self { peak: (driver.live_bytes(), 0), ..Self::default() };
        let mut refusals = driver.refusals();
        for (record, at) in tape.records.iter().zip(0..) {
            driver.step(record, tape.text)?;
            if driver.refusals() > refusals {
                refusals = driver.refusals();
                scan.refused.push(at);
            }
            if driver.live_bytes() > scan.peak.0 {
                scan.peak = (driver.live_bytes(), at + 1);
            }
        }
        scan.peaks = Peaks::of(&mut driver);
        Ok(scan)
    }

    /// The kind of the moment, and how many records come before it.
    pub(super) fn find(
        &self,
        at: Option<At>,
        records: &[Record],
        is_as_recorded: bool,
    ) -> Result<(MomentKind, u64), ExplainError> {
        let len = records.len() as u64;
        let refused = self.out_of_memory(records, is_as_recorded);
        match (at, refused) {
            (None | Some(At::OutOfMemory), Some(refused)) => Ok((MomentKind::Oom, refused)),
            (None | Some(At::Peak), _) => Ok((MomentKind::Peak, self.peak.1)),
            (Some(At::OutOfMemory), None) => Err(ExplainError::NoOutOfMemory),
            (Some(At::Last), _) => Ok((MomentKind::Last, len)),
            (Some(At::Record(record)), _) if record < len => {
                Ok(self.at(MomentKind::Record, record))
            }
            (Some(At::Record(record)), _) => Err(ExplainError::NoRecord { record, records: len }),
            (Some(At::Time { ns }), _) => Ok(self.at(MomentKind::Time, record_at(ns, records)?)),
        }
    }

    /// A moment before a record: an out of memory where its request is refused.
    fn at(&self, kind: MomentKind, record: u64) -> (MomentKind, u64) {
        let is_refused = self.refused.binary_search(&record).is_ok();
        (if is_refused { MomentKind::Oom } else { kind }, record)
    }

    /// The refused request that ended the run or is the last recorded one; where none of the recorded ones is refused
    /// here, the last of them if device and settings are the recorded ones, else the first of the replay.
    fn out_of_memory(&self, records: &[Record], is_as_recorded: bool) -> Option<u64> {
        let is_oom = |record: &Record| matches!(record.event, Event::Oom { .. });
        let is_recorded = |at: &&u64| {
            usize::try_from(**at).ok().and_then(|at| records.get(at)).is_some_and(is_oom)
        };
        if let Some(refused) = self.refused.iter().rev().find(is_recorded) {
            return Some(*refused);
        }
        let recorded = || records.iter().rposition(is_oom).map(|at| at as u64);
        is_as_recorded.then(recorded).flatten().or(self.refused.first().copied())
    }
}

/// The first record later than so many nanoseconds behind the first.
fn record_at(ns: u64, records: &[Record]) -> Result<u64, ExplainError> {
    let first_ns = records.first().map_or(0, |record| record.time_ns);
    let last_ns = records.iter().map(|record| record.time_ns).max().unwrap_or(0);
    if last_ns == 0 {
        return Err(ExplainError::NoClock);
    }
    let length_ns = last_ns.saturating_sub(first_ns);
    if ns > length_ns {
        return Err(ExplainError::NoTime { ns, length_ns });
    }
    let wanted_ns = first_ns.saturating_add(ns);
    let later = records.iter().position(|record| record.time_ns > wanted_ns);
    Ok(later.unwrap_or(records.len()) as u64)
}

/// A replay of the live allocator from the start.
pub(super) fn driver(tape: DeviceTape<'_>, options: &Options) -> Result<Driver<Native<Off>>> {
    native_driver(tape, options, options.native_config()?, Off)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_as_it_is_written() {
        for (text, at) in [
            ("oom", At::OutOfMemory),
            ("peak", At::Peak),
            ("last", At::Last),
            ("17", At::Record(17)),
            ("3ns", At::Time { ns: 3 }),
        ] {
            assert_eq!(text.parse(), Ok(at));
            assert_eq!(at.to_string(), text);
        }
        assert_eq!("2s".parse(), Ok(At::Time { ns: 2_000_000_000 }));
        for text in ["", "first", "-1", "99999999999999999999", "1.5s"] {
            assert!(text.parse::<At>().is_err(), "{text}");
        }
    }
}
