//! Pinned host memory: the readings that a tape has of it, the code that holds it, and the end of a program that ran
//! out of it.
//!
//! A tape has a moment with the numbers at each call of the CUDA runtime (`ffi/src/pinned`), and with PyTorch's
//! statistics beside them at steps, at moments and at the program's end (`python/vramtape/_host_memory.py`).

use allocator::stats::ByteSize;
use hashbrown::HashMap;
use oom::{OomVerdict, Step};
use serde::Serialize;
use trace_format::{Event, HostCall, HostReading, MarkKind, Record, StringId};

use crate::ending::{Ending, Kind};
use crate::holders::CodeLabels;
use crate::message::{self, Message};
use crate::snapshot::Stacks;
use crate::tape::Tape;

const STATISTICS: &str = "not per block: PyTorch's statistics at marks";
const HISTORY: &str = "per block: PyTorch's history";
const CALLS: &str = "per block: PyTorch's calls of the CUDA runtime";
/// The row of blocks that were pinned before the records, or in calls that the tape had no room for.
const NOT_ON_TAPE: &str = "pinned by calls that are not on the tape";

/// Pinned host memory of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HostMemory {
    /// The last reading.
    pub last: HostReading,
    /// The most bytes that PyTorch held.
    pub reserved_bytes_peak: u64,
    /// The most bytes in use, where PyTorch counts them.
    pub active_bytes_peak: Option<u64>,
    /// Readings on the tape.
    pub readings: u64,
    /// Bytes of a request that was refused, if nothing was pinned or allocated on a device after it.
    pub refused_bytes: Option<u64>,
    /// Where the numbers come from.
    pub source: &'static str,
}

/// The end of a program by an out of memory of the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostOutOfMemory {
    /// Always [`OomVerdict::Host`].
    pub verdict: OomVerdict,
    /// The reason, in words.
    pub why: String,
    /// The last statistics; empty where the tape has none.
    pub arithmetic: Vec<Step>,
    /// What to try first.
    pub try_first: Vec<String>,
}

/// Code, and the pinned host memory that it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostHolder {
    /// The code in a few words: `loader.py:41 batch`.
    pub label: String,
    /// Bytes of its blocks.
    pub size_bytes: u64,
    /// Its blocks.
    pub blocks: u64,
}

impl HostHolder {
    /// Pinned host memory by code, the largest first, after what was recorded until a time. Blocks whose call is not on
    /// the tape come last, in one row. Empty where the tape has no calls.
    pub fn at(tape: &Tape, time_ns: u64) -> Vec<Self> {
        let mut live = HashMap::new();
        let mut last = None;
        for record in tape.devices.iter().flat_map(|device| &device.records) {
            if record.time_ns > time_ns {
                continue;
            }
            let Some(reading) = of_record(record, &tape.stacks) else { continue };
            // Calls are on one device, steps on all.
            match reading.call {
                Some(HostCall::Pinned { addr, size_bytes }) => {
                    live.insert(addr, (size_bytes, record.stack));
                }
                Some(HostCall::Unpinned { addr, .. }) => {
                    live.remove(&addr);
                }
                _ => {}
            }
            if reading.is_by_calls && last.is_none_or(|(time_ns, _)| record.time_ns >= time_ns) {
                last = Some((record.time_ns, reading));
            }
        }
        let Some((_, last)) = last else { return Vec::new() };
        let labels = CodeLabels::of(tape);
        let mut by_label: HashMap<u32, (u64, u64)> = HashMap::new();
        let mut missing = (last.reserved_bytes, last.blocks);
        for (size_bytes, stack) in live.into_values() {
            let label = labels.of_stack(stack).unwrap_or(labels.without_stack);
            let sum = by_label.entry(label).or_default();
            *sum = (sum.0 + size_bytes, sum.1 + 1);
            missing = (missing.0.saturating_sub(size_bytes), missing.1.saturating_sub(1));
        }
        let label = |label: u32| labels.labels[label as usize].clone();
        let holder = |(of, (size_bytes, blocks))| Self { label: label(of), size_bytes, blocks };
        let mut holders: Vec<_> = by_label.into_iter().map(holder).collect();
        holders.sort_by(|a, b| (b.size_bytes, &a.label).cmp(&(a.size_bytes, &b.label)));
        if missing != (0, 0) {
            let (size_bytes, blocks) = missing;
            holders.push(Self { label: NOT_ON_TAPE.to_owned(), size_bytes, blocks });
        }
        holders
    }
}

/// The last reading among these records.
pub fn last_reading(records: &[Record], stacks: &Stacks) -> Option<HostReading> {
    let mut readings = Vec::new();
    for reading in records.iter().rev().filter_map(|record| of_record(record, stacks)) {
        readings.push(reading);
        if !matches!(reading.call, Some(HostCall::Refused { .. })) {
            break;
        }
    }
    readings.into_iter().rev().fold(None, |before, reading| Some(following(reading, before)))
}

/// A reading after another one. A call does not count the bytes in use, and one that was refused changes nothing.
fn following(reading: HostReading, before: Option<HostReading>) -> HostReading {
    match (reading.call, before) {
        (Some(HostCall::Refused { .. }), Some(before)) => HostReading {
            active_bytes: reading.active_bytes.or(before.active_bytes),
            active_bytes_peak: reading.active_bytes_peak.or(before.active_bytes_peak),
            active_blocks: reading.active_blocks.or(before.active_blocks),
            ..reading
        },
        _ => reading,
    }
}

fn of_record(record: &Record, stacks: &Stacks) -> Option<HostReading> {
    HostReading::of_mark(stacks.text(moment(record)?))
}

/// Where the numbers of a reading come from, in words.
pub fn source(reading: &HostReading) -> &'static str {
    match (reading.is_by_calls, reading.is_per_block) {
        (true, _) => CALLS,
        (false, true) => HISTORY,
        (false, false) => STATISTICS,
    }
}

/// Bytes that PyTorch keeps for reuse, if it counts those in use.
fn free_bytes(reading: &HostReading) -> Option<u64> {
    reading.active_bytes.map(|active_bytes| reading.reserved_bytes.saturating_sub(active_bytes))
}

impl HostMemory {
    /// A reading and the peak, in a few words.
    pub fn at(&self, then: Option<HostReading>) -> String {
        let (peak, source) = (ByteSize(self.reserved_bytes_peak), self.source);
        let Some(HostReading { reserved_bytes, active_bytes, blocks, .. }) = then else {
            return format!("not known at this moment, peak {peak} ({source})");
        };
        let held = ByteSize(reserved_bytes);
        let used = active_bytes.map(|bytes| format!(", {} in use", ByteSize(bytes)));
        let used = used.unwrap_or_default();
        let plural = if blocks == 1 { "" } else { "s" };
        format!("{held} in {blocks} block{plural}{used}, peak {peak} ({source})")
    }

    /// The readings of all devices; `None` where the run has none.
    pub fn of(tape: &Tape) -> Option<Self> {
        let names = tape.stacks.strings.iter();
        let by_name: Vec<_> = names.map(|name| HostReading::of_mark(name)).collect();
        if by_name.iter().all(Option::is_none) {
            return None;
        }
        let mut found: Option<(u64, Self)> = None;
        let (mut refused, mut served_ns) = (None, 0);
        for device in &tape.devices {
            let mut readings = 0;
            for record in &device.records {
                if let Event::Alloc { .. } = record.event {
                    served_ns = served_ns.max(record.time_ns);
                }
                let reading = moment(record).and_then(|name| *by_name.get(name.0 as usize)?);
                let Some(last) = reading else { continue };
                match last.call {
                    Some(HostCall::Refused { size_bytes }) => {
                        refused = Some((record.time_ns, size_bytes));
                    }
                    Some(HostCall::Pinned { .. }) => served_ns = served_ns.max(record.time_ns),
                    _ => {}
                }
                readings += 1;
                let (time_ns, all) = found.get_or_insert((
                    0,
                    Self {
                        last,
                        reserved_bytes_peak: 0,
                        active_bytes_peak: None,
                        readings: 0,
                        refused_bytes: None,
                        source: source(&last),
                    },
                ));
                all.reserved_bytes_peak = all.reserved_bytes_peak.max(last.reserved_bytes_peak);
                all.active_bytes_peak = all.active_bytes_peak.max(last.active_bytes_peak);
                if record.time_ns >= *time_ns {
                    (*time_ns, all.last) = (record.time_ns, following(last, Some(all.last)));
                }
                // A mark is on every device.
                all.readings = all.readings.max(readings);
            }
        }
        let refused = refused.filter(|(time_ns, _)| *time_ns > served_ns);
        found.map(|(_, all)| Self { refused_bytes: refused.map(|(_, bytes)| bytes), ..all })
    }
}

impl HostOutOfMemory {
    /// Whether the exception that ended the program says that host memory was out, or follows a refused call for some.
    pub fn of(tape: &Tape, host: Option<&HostMemory>) -> Option<Self> {
        let ending = Ending::of(tape);
        if ending.kind != Kind::Exception {
            return None;
        }
        let report = message::explain(ending.detail.as_bytes());
        let refused_bytes = host.and_then(|host| host.refused_bytes);
        // PyTorch's words are the same for every memory that the driver refuses.
        let is_driver = |message: &Message| message.framework == "cuda-error";
        let message = report.messages.into_iter().find(|message| {
            message.verdict == OomVerdict::Host || (is_driver(message) && refused_bytes.is_some())
        })?;
        let is_pinned = is_driver(&message);
        let what = if is_pinned {
            let bytes = refused_bytes.map(|bytes| format!(": {}", ByteSize(bytes)));
            let bytes = bytes.unwrap_or_default();
            format!(
                "the driver refused to pin more host memory{bytes}; the device's memory was not out"
            )
        } else {
            "the request was for host memory, not for a device's".to_owned()
        };
        let host = host.filter(|_| is_pinned);
        let mut try_first = host.map(pinned_advice).unwrap_or_default();
        try_first.extend(message.advice.try_first);
        Some(Self {
            verdict: OomVerdict::Host,
            why: format!("{what} ({})", ending.detail),
            arithmetic: host.map(steps).unwrap_or_default(),
            try_first,
        })
    }
}

/// The name of a moment's mark.
fn moment(record: &Record) -> Option<StringId> {
    match record.event {
        Event::Mark { kind: MarkKind::Instant, name } => Some(name),
        _ => None,
    }
}

fn steps(host: &HostMemory) -> Vec<Step> {
    const LAST: &str = "the last reading of the run";
    let last = host.last;
    let step = |name, how, bytes| Step { name, how, bytes };
    let refused = host.refused_bytes.map(|bytes| step("requested", "the refused call", bytes));
    let mut steps = Vec::from_iter(refused);
    steps.push(step("pinned by PyTorch", LAST, last.reserved_bytes));
    steps.extend(last.active_bytes.map(|bytes| step("in use", LAST, bytes)));
    steps.extend(
        free_bytes(&last).map(|bytes| step("free, kept for reuse", "pinned - in use", bytes)),
    );
    steps.push(step("pinned at most", "the peak of the readings", host.reserved_bytes_peak));
    steps
}

fn pinned_advice(host: &HostMemory) -> Vec<String> {
    let cached = match free_bytes(&host.last) {
        Some(0) => None,
        Some(free_bytes) => Some(format!(
            "torch.accelerator.empty_host_cache() before the request: {} are free and kept for reuse",
            ByteSize(free_bytes)
        )),
        None => Some(
            "torch._C._host_emptyCache() before the request (PyTorch 2.11): what is kept for reuse goes back"
                .to_owned(),
        ),
    };
    let others = [
        "DataLoader(pin_memory=False), or fewer batches that wait: num_workers x prefetch_factor",
        "sizes of at most a power of two: PyTorch rounds each pinned block up to one, so that 1.1 GiB take 2 GiB; from \
         2.15 on, PYTORCH_CUDA_ALLOC_CONF=pinned_max_round_threshold_mb:64 rounds none above 64 MiB",
    ];
    cached.into_iter().chain(others.map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use trace_format::{Addr, EndKind, Meta, ProgramEnd, Recovery, StackId, ThreadId};

    use super::*;
    use crate::tape::Device;

    const EARLIER: &str = "pinned host memory: reserved_bytes=8 reserved_bytes_peak=12 blocks=1";
    const LATER: &str = "pinned host memory: reserved_bytes=4 reserved_bytes_peak=12 blocks=1 active_bytes=3 \
                         active_bytes_peak=9 active_blocks=1 of_a_later_version=x";

    const ELSEWHERE: &str =
        "torch.AcceleratorError: CUDA error: out of memory; a.py:3: graph.replay()";

    /// The name of a call's moment.
    fn call(reserved_bytes: u64, blocks: u64, call: HostCall) -> String {
        let reading = HostReading {
            reserved_bytes,
            reserved_bytes_peak: reserved_bytes,
            blocks,
            is_per_block: true,
            is_by_calls: true,
            call: Some(call),
            ..HostReading::default()
        };
        reading.mark()
    }

    /// A tape of one device whose moments have these names, and its end.
    fn tape(names: &[&str], kind: EndKind, detail: &str) -> Tape {
        let mut tape = Tape::default();
        let mut records = Vec::new();
        for (name, time_ns) in names.iter().zip(1..) {
            let event = Event::Mark { kind: MarkKind::Instant, name: tape.stacks.add_string(name) };
            records.push(Record { time_ns, thread: ThreadId(1), stack: StackId::NONE, event });
        }
        tape.devices = vec![Device { records, ..Device::default() }];
        let end = ProgramEnd { kind, detail: detail.to_owned(), ..ProgramEnd::default() };
        tape.meta = Meta { end: Some(end), ..Meta::default() };
        tape.recovery = Recovery { finished: true, ..Recovery::default() };
        tape
    }

    #[test]
    fn a_refused_call_leaves_the_bytes_in_use() {
        let refused = call(4, 1, HostCall::Refused { size_bytes: 16 });
        let pinned = call(8, 2, HostCall::Pinned { addr: Addr(64), size_bytes: 4 });
        for (names, active_bytes) in [
            (&[LATER, &*refused, &*refused] as &[&str], Some(3)),
            (&[LATER, &*pinned, &*refused], None),
            (&[&*refused], None),
        ] {
            let run = tape(names, EndKind::Exit, "");
            assert_eq!(HostMemory::of(&run).unwrap().last.active_bytes, active_bytes, "{names:?}");
            let last = last_reading(&run.devices[0].records, &run.stacks).unwrap();
            assert_eq!((last.active_bytes, last.reserved_bytes), (active_bytes, 4), "{names:?}");
        }
    }

    #[test]
    fn a_run_has_its_last_reading_and_its_peak_and_counts_each_mark_once() {
        let mut run = tape(&["epoch 1", EARLIER, LATER], EndKind::Exit, "");
        let two = run.devices[0].clone();
        run.devices.push(two);
        let host = HostMemory::of(&run).unwrap();
        assert_eq!((host.last.reserved_bytes, host.reserved_bytes_peak, host.readings), (4, 12, 2));
        assert_eq!(
            host.at(Some(host.last)),
            "4 bytes in 1 block, 3 bytes in use, peak 12 bytes (not per block: PyTorch's statistics at marks)"
        );
        let records = &run.devices[0].records;
        let last_of = |count: usize| last_reading(&records[..count], &run.stacks);
        assert_eq!((last_of(1), last_of(2)), (None, HostReading::of_mark(EARLIER)));
        assert_eq!(HostMemory::of(&tape(&["epoch 1"], EndKind::Exit, "")), None);
    }

    #[test]
    fn an_end_is_of_host_memory_where_its_words_say_so() {
        let oom = |kind, detail: &str| {
            let run = tape(&[LATER], kind, detail);
            HostOutOfMemory::of(&run, HostMemory::of(&run).as_ref())
        };
        for detail in [
            "torch.AcceleratorError: CUDA error: out of memory; a.py:3: x = torch.empty(9, pin_memory=True)",
            "RuntimeError: Caught RuntimeError in pin memory thread for device 0. CUDA error: out of memory",
        ] {
            let found = oom(EndKind::Exception, detail).unwrap();
            let bytes: Vec<_> = found.arithmetic.iter().map(|step| step.bytes).collect();
            assert_eq!(bytes, [4, 3, 1, 12], "{detail}");
            assert!(
                found.why.contains("refused to pin") && found.why.contains(detail),
                "{}",
                found.why
            );
            assert!(found.try_first[0].contains("1 bytes are free"), "{:?}", found.try_first);
        }
        let cpu = "RuntimeError: [enforce fail at alloc_cpu.cpp:121] data. DefaultCPUAllocator: not enough memory: you \
                   tried to allocate 4000000000 bytes.";
        assert!(oom(EndKind::Exception, cpu).unwrap().arithmetic.is_empty());
        assert_eq!(oom(EndKind::Exception, ELSEWHERE), None);
        assert_eq!(oom(EndKind::Exception, "ValueError: pin_memory"), None);
        assert_eq!(oom(EndKind::Exit, "out of memory in pin_memory"), None);
    }

    #[test]
    fn code_holds_the_blocks_that_it_pinned_and_did_not_unpin() {
        let pinned = |addr, size_bytes| HostCall::Pinned { addr: Addr(addr), size_bytes };
        let names = [
            call(12, 2, pinned(1, 8)), // One of 4 bytes came before the records.
            call(14, 3, pinned(2, 2)),
            call(6, 2, HostCall::Unpinned { addr: Addr(1), size_bytes: 8 }),
        ];
        let run = tape(&names.each_ref().map(String::as_str), EndKind::Exit, "");
        let at = |time_ns| {
            let rows = HostHolder::at(&run, time_ns).into_iter();
            rows.map(|row| (row.label, row.size_bytes, row.blocks)).collect::<Vec<_>>()
        };
        let no_stack = "unattributed (no stack recorded)";
        let row = |label: &str, size_bytes, blocks| (label.to_owned(), size_bytes, blocks);
        let before = row(NOT_ON_TAPE, 4, 1);
        assert_eq!(at(0), []);
        assert_eq!(at(2), [row(no_stack, 10, 2), before.clone()]);
        assert_eq!(at(3), [row(no_stack, 2, 1), before]);
        assert_eq!(HostMemory::of(&run).unwrap().source, CALLS);
    }

    #[test]
    fn an_end_after_a_refused_call_is_of_host_memory_unless_something_was_served_later() {
        let pinned = call(8, 1, HostCall::Pinned { addr: Addr(1), size_bytes: 8 });
        let refused = call(8, 1, HostCall::Refused { size_bytes: 16 });
        let oom = |names: [&str; 2]| {
            let run = tape(&names, EndKind::Exception, ELSEWHERE);
            HostOutOfMemory::of(&run, HostMemory::of(&run).as_ref())
        };
        let found = oom([&pinned, &refused]).unwrap();
        let steps: Vec<_> = found.arithmetic.iter().map(|step| (step.name, step.bytes)).collect();
        assert_eq!(steps, [("requested", 16), ("pinned by PyTorch", 8), ("pinned at most", 8)]);
        assert!(found.why.contains("refused to pin more host memory: 16 bytes"), "{}", found.why);
        assert_eq!(oom([&refused, &pinned]), None);
    }
}
