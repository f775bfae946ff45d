//! Whether our allocator does what the recorded one did: the same segment calls in the same order, every allocation in
//! the same place, and the same statistics at the end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use events::PageAudit;
use serde::{Deserialize, Serialize};
use settings::{Compat, Config, ConfigError, Plan, Settings, Strategy};
use trace_format::{BaseState, DeviceId, Event, Record, SegmentState};

use crate::driver::{DriveError, Follow, Result};
use crate::import::{Import, RunLimits};
use crate::placements;
use crate::plan::{self, PlanFileError};
use crate::run::{Addresses, DeviceTape, Options, Outcome, run_recording};
use crate::start::{Departure, Effects, Start};
use crate::tape::{Device, Tape};

/// A statistic that a recording cannot be held to: flushes that returned nothing left no trace in it.
const UNTRACED_STAT: &str = "num_sync_all_streams";

/// A run's metadata beside its snapshot (`--meta`).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RecordedRun {
    /// Version of the PyTorch that recorded.
    pub torch: Option<String>,
    /// Memory of its device.
    pub device_total_bytes: Option<u64>,
    /// `set_per_process_memory_fraction`.
    pub fraction: Option<f64>,
    /// `torch.cuda.memory_stats()` at the end.
    pub memory_stats: Option<BTreeMap<String, i64>>,
}

impl RecordedRun {
    /// Reads the description; unknown fields are left alone.
    ///
    /// # Errors
    /// When it is not JSON, or its fields have other types.
    pub fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// The limits the run had.
    pub fn known(&self) -> RunLimits {
        RunLimits {
            trust_factor: 1,
            capacity_bytes: self.device_total_bytes,
            memory_fraction: self.fraction,
            compat: self.torch.as_deref().map(Compat::of_torch),
        }
    }

    /// The PyTorch version whose behaviour to expect; the newest where the run has none.
    pub fn compat(&self) -> Compat {
        match &self.torch {
            Some(version) => Compat::of_torch(version),
            None => Compat::default(),
        }
    }
}

/// Replays every device of an imported snapshot under its recorded settings, and compares.
///
/// # Errors
/// When the trace contradicts itself.
pub fn verify(import: &Import, run: &RecordedRun) -> Result<Vec<(DeviceId, Verification)>> {
    import
        .devices
        .iter()
        .map(|device| Ok((device.device, verify_device(import, device, run)?)))
        .collect()
}

fn verify_device(
    import: &Import,
    device: &crate::import::DeviceImport,
    run: &RecordedRun,
) -> Result<Verification> {
    let options = Options {
        strategy: Config { compat: run.compat(), ..import.config.clone() }.into(),
        capacity_bytes: run.device_total_bytes,
        memory_fraction: None,
        addresses: Addresses::Recorded,
        follow: Follow { trust_factor: import.trust_factor, ..Follow::default() },
    };
    let text = |id: trace_format::StringId| {
        import.stacks.strings.get(id.0 as usize).map_or("", String::as_str)
    };
    let tape = DeviceTape { base: &device.base, records: &device.records, text: &text };
    let (verification, replayed) = replayed_steps(tape, &options)?;
    let stats = run.memory_stats.as_ref().filter(|_| import.devices.len() == 1).map(|recorded| {
        let recorded: Vec<_> = recorded.iter().map(|(key, value)| (key.clone(), *value)).collect();
        compare_stats(&recorded, &replayed.stats, &[UNTRACED_STAT])
    });
    let final_state = Some(compare_segments(&device.final_segments, &replayed.segments));
    Ok(Verification { final_state, stats, ..verification })
}

/// Replays every device of a tape under its recorded settings, on its recorded device, and compares.
///
/// # Errors
/// When the tape contradicts itself, or its settings cannot be replayed.
pub fn verify_tape(tape: &Tape, run: &RecordedRun) -> Result<Vec<(DeviceId, Verification)>> {
    let verify = |device| verify_recorded(tape, device, run);
    tape.devices.iter().map(|device| Ok((device.id, verify(device)?))).collect()
}

fn verify_recorded(tape: &Tape, device: &Device, run: &RecordedRun) -> Result<Verification> {
    let text = |id: trace_format::StringId| tape.text(id);
    let meta = tape.device_meta(device.id);
    let options = Options {
        strategy: recorded_config(tape, device, tape.compat())
            .map_err(|source| DriveError::Settings { index: 0, source })?
            .into(),
        capacity_bytes: run
            .device_total_bytes
            .or_else(|| meta.and_then(|meta| meta.capacity_bytes.or(meta.total_bytes))),
        memory_fraction: None,
        addresses: Addresses::Recorded,
        follow: Follow { trust_factor: tape.trust_factor, ..Follow::default() },
    };
    let part = DeviceTape { base: &device.base, records: &device.records, text: &text };
    let page_violation = is_under(tape, Strategy::Stitch)
        .then(|| page_violation(&device.base, &device.records))
        .flatten();
    Ok(Verification { page_violation, ..replayed_steps(part, &options)?.0 })
}

/// The first use of pages that breaks an invariant of `stitch`, in words. It is judged by the records alone, apart
/// from the code that made them.
pub fn page_violation(base: &BaseState, records: &[Record]) -> Option<String> {
    let mut audit = match PageAudit::new(base) {
        Ok(audit) => audit,
        Err(violation) => return Some(format!("at the start, {violation}")),
    };
    for (record, number) in records.iter().zip(1..) {
        if let Err(violation) = audit.follow(&record.event) {
            return Some(format!("at record {number} ({}), {violation}", record.event.name()));
        }
    }
    audit.end_call().err().map(|violation| format!("at the end, {violation}"))
}

/// The settings in force at the start of a device's records: those of the process, and what it changed before.
///
/// # Errors
/// When they do not parse.
pub fn recorded_config(
    tape: &Tape,
    device: &Device,
    compat: Compat,
) -> Result<Config, ConfigError> {
    let config = with_strategy(tape, compat).parse_over(&tape.meta.alloc_conf)?.config;
    let changed = &device.base.settings;
    if changed.is_empty() || *changed == tape.meta.alloc_conf || Start::of(&device.base).is_none() {
        return Ok(config);
    }
    Ok(config.reparse(changed)?.config)
}

/// The plan that the run followed; `None` where it followed none. A tape has its path only.
///
/// # Errors
/// When the file cannot be read any more: a replay under the recorded settings then has other placements.
pub fn recorded_plan(tape: &Tape) -> Option<Result<Arc<Plan>, PlanFileError>> {
    let path = own_settings(tape).plan.filter(|_| is_under(tape, Strategy::Stitch))?;
    let rank = tape.meta.rank.map(|rank| rank.to_string());
    Some(plan::read(Path::new(&path.expand(rank.as_deref(), 0, 0).ok()?)))
}

/// The defaults under the strategy that the run was recorded with.
fn with_strategy(tape: &Tape, compat: Compat) -> Config {
    Config {
        compat,
        plan: recorded_plan(tape).and_then(Result::ok),
        expandable_segments: is_under(tape, Strategy::Expandable),
        stitch: is_under(tape, Strategy::Stitch).then(|| own_settings(tape).stitch),
        ..Config::default()
    }
}

/// The `VRAMTAPE_CONF` of the run.
fn own_settings(tape: &Tape) -> Settings {
    Settings::parse(&tape.meta.vramtape_conf).map(|(settings, _)| settings).unwrap_or_default()
}

fn is_under(tape: &Tape, strategy: Strategy) -> bool {
    tape.meta.strategy.as_deref() == Some(strategy.name())
}

/// Replays a device and compares each step; what it ended with is left to compare.
fn replayed_steps(tape: DeviceTape<'_>, options: &Options) -> Result<(Verification, Outcome)> {
    let replayed = run_recording(tape, options, &mut |_| {})?;
    let base = &tape.base.segments;
    let events = |records: &[Record]| records.iter().map(|record| record.event).collect::<Vec<_>>();
    let steps = placements::compare(
        placements::Run { base, events: events(tape.records) },
        placements::Run { base, events: events(&replayed.records) },
    );
    let is_alloc = |record: &&Record| matches!(record.event, Event::Alloc { .. });
    let effects = Effects::recorded(tape.base, tape.records);
    let verification = Verification {
        start: Start::of(tape.base),
        steps,
        allocations: tape.records.iter().filter(is_alloc).count() as u64,
        replay_differs: effects.and_then(|effects| Departure::of(effects, &replayed.report)),
        final_state: None,
        stats: None,
        page_violation: None,
    };
    Ok((verification, replayed))
}

/// How two sequences compare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Agreement {
    /// Entries of the recorded sequence.
    pub recorded: u64,
    /// Entries of the replayed sequence.
    pub replayed: u64,
    /// The first place where they part, in words.
    pub first_difference: Option<String>,
}

/// A statistic that ended elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatDifference {
    /// PyTorch's key.
    pub key: String,
    /// The recorded value; `None` where only ours has the key.
    pub recorded: Option<i64>,
    /// The replayed value; `None` where only the recording has the key.
    pub replayed: Option<i64>,
}

/// The verdict over one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// The memory at the start; `None` where the run begins with an empty device.
    pub start: Option<Start>,
    /// Every segment call, allocation and half of a free, in order.
    pub steps: placements::Report,
    /// Allocations on the recording.
    pub allocations: u64,
    /// By how much the peak or the segment calls of the replay differ; `None` where they are the same.
    pub replay_differs: Option<Departure>,
    /// The blocks at the end; `None` where the recording has none to compare with.
    pub final_state: Option<Agreement>,
    /// Statistics that differ; `None` where the recording has none to compare with.
    pub stats: Option<Vec<StatDifference>>,
    /// The first recorded use of pages that breaks an invariant of `stitch`, in words; `None` where there is none.
    pub page_violation: Option<String>,
}

impl Agreement {
    /// Compares two sequences; `describe` puts an entry in words.
    fn of<T: PartialEq>(recorded: &[T], replayed: &[T], describe: impl Fn(&T) -> String) -> Self {
        let parts = recorded.iter().zip(replayed).position(|(ours, theirs)| ours != theirs);
        let shorter = recorded.len().min(replayed.len());
        let parts = parts.or((recorded.len() != replayed.len()).then_some(shorter));
        let side = |entries: &[T], at: usize| entries.get(at).map_or("nothing".into(), &describe);
        Self {
            recorded: recorded.len() as u64,
            replayed: replayed.len() as u64,
            first_difference: parts.map(|at| {
                format!(
                    "entry {at}: recorded {}, replayed {}",
                    side(recorded, at),
                    side(replayed, at)
                )
            }),
        }
    }

    /// Whether the sequences are the same.
    pub fn holds(&self) -> bool {
        self.first_difference.is_none()
    }
}

impl Verification {
    /// Whether everything that could be compared is the same.
    pub fn holds(&self) -> bool {
        self.steps.difference.is_none()
            && self.final_state.as_ref().is_none_or(Agreement::holds)
            && self.stats.as_ref().is_none_or(Vec::is_empty)
            && self.page_violation.is_none()
    }
}

/// Compares the segments two runs ended with: sizes, streams, pools and blocks, in order of address.
pub fn compare_segments(recorded: &[SegmentState], replayed: &[SegmentState]) -> Agreement {
    let shape = |segments: &[SegmentState]| -> Vec<String> {
        let blocks = segments.iter().flat_map(|segment| {
            let head = format!(
                "segment of {} bytes, stream {}, pool {}, large {}, expandable {}",
                segment.size_bytes,
                segment.stream,
                segment.pool,
                segment.is_large,
                segment.is_expandable
            );
            let blocks = segment
                .blocks
                .iter()
                .map(|block| format!("block of {} bytes, {:?}", block.size_bytes, block.status));
            std::iter::once(head).chain(blocks).collect::<Vec<_>>()
        });
        blocks.collect()
    };
    Agreement::of(&shape(recorded), &shape(replayed), Clone::clone)
}

/// Compares final statistics key by key; `except` names keys that the recording cannot be held to.
pub fn compare_stats(
    recorded: &[(String, i64)],
    replayed: &[(String, i64)],
    except: &[&str],
) -> Vec<StatDifference> {
    let value = |side: &[(String, i64)], key: &str| {
        side.iter().find(|(other, _)| other == key).map(|(_, value)| *value)
    };
    let mut keys: Vec<&str> =
        recorded.iter().chain(replayed).map(|(key, _)| key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter()
        .filter(|key| !except.contains(key))
        .map(|key| StatDifference {
            key: key.to_owned(),
            recorded: value(recorded, key),
            replayed: value(replayed, key),
        })
        .filter(|difference| difference.recorded != difference.replayed)
        .collect()
}

#[cfg(test)]
mod tests {
    use trace_format::{Addr, PoolId, StackId, Stream, ThreadId};

    use super::*;

    #[test]
    fn pages_that_are_used_against_the_invariants_are_named_with_the_record() {
        let alloc = Event::Alloc {
            addr: Addr(2 << 20),
            requested_bytes: 512,
            size_bytes: 512,
            stream: Stream(0),
            pool: PoolId::DEFAULT,
        };
        let record =
            |event| Record { event, time_ns: 0, thread: ThreadId(0), stack: StackId::NONE };
        let records = [record(Event::ResetPeak), record(alloc)];
        let found = page_violation(&BaseState::default(), &records).expect("no page is mapped");
        assert_eq!(found, "at record 2 (alloc), no page is mapped at 0x200000, which is in use");
        assert_eq!(page_violation(&BaseState::default(), &records[..1]), None);
        let bad = Verification { page_violation: Some(found), ..Verification::default() };
        assert!(!bad.holds());
    }

    #[test]
    fn a_tape_is_replayed_under_the_strategy_of_its_recording() {
        for (strategy, ours, is_expandable, budget) in [
            ("native", "", false, None),
            ("expandable", "strategy:expandable", true, None),
            ("stitch", "strategy:stitch,address_budget:9", false, Some(9)),
        ] {
            let mut tape = Tape::default();
            tape.meta.strategy = Some(strategy.to_owned());
            tape.meta.vramtape_conf = ours.to_owned();
            let config = recorded_config(&tape, &Device::default(), Compat::V2_15).unwrap();
            let found = config.stitch.map(|stitch| stitch.address_budget);
            assert_eq!((config.expandable_segments, found), (is_expandable, budget), "{strategy}");
        }
    }
}
