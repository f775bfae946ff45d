//! Pinned host memory: PyTorch's statistics of it, as a tape has them, and the end of a program that ran out of it.
//!
//! PyTorch has no hook for single blocks of it, so a tape has a moment with the statistics at steps, at moments and at
//! the program's end (`python/vramtape/_host_memory.py` writes them).

use std::fmt::Write;

use allocator::stats::ByteSize;
use oom::{OomVerdict, Step};
use serde::Serialize;
use trace_format::{Event, MarkKind, Record, StringId};

use crate::ending::{Ending, Kind};
use crate::message;
use crate::snapshot::Stacks;
use crate::tape::Tape;

/// What the name of such a moment begins with.
const PREFIX: &str = "pinned host memory: ";
/// Where numbers come from, in words.
const STATISTICS: &str = "not per block: PyTorch's statistics at marks";
const HISTORY: &str = "per block: PyTorch's history";

/// PyTorch's statistics of pinned host memory at one moment. Blocks have rounded sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostReading {
    /// Bytes that PyTorch holds: in use, or free and kept for reuse.
    pub reserved_bytes: u64,
    /// The most of them so far.
    pub reserved_bytes_peak: u64,
    /// Blocks that PyTorch holds.
    pub blocks: u64,
    /// Bytes in use; `None` where PyTorch counts them wrongly, which it does before 2.15.
    pub active_bytes: Option<u64>,
    /// The most of them so far. PyTorch's statistics add the peaks of each block size, which is too much.
    pub active_bytes_peak: Option<u64>,
    /// Blocks in use.
    pub active_blocks: Option<u64>,
    /// Whether each block was counted, and not PyTorch's statistics read.
    pub is_per_block: bool,
}

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

impl HostReading {
    /// Reads the name of a mark; `None` if it is another mark's.
    pub fn of_mark(name: &str) -> Option<Self> {
        let mut reading = Self::default();
        let mut held = 0;
        for field in name.strip_prefix(PREFIX)?.split(' ') {
            let (key, value) = field.split_once('=')?;
            let value = || value.parse().ok();
            match key {
                "reserved_bytes" => reading.reserved_bytes = value()?,
                "reserved_bytes_peak" => reading.reserved_bytes_peak = value()?,
                "blocks" => reading.blocks = value()?,
                "active_bytes" => reading.active_bytes = Some(value()?),
                "active_bytes_peak" => reading.active_bytes_peak = Some(value()?),
                "active_blocks" => reading.active_blocks = Some(value()?),
                "per_block" => reading.is_per_block = value()? != 0,
                _ => {} // Of a later version.
            }
            held += u32::from(matches!(key, "reserved_bytes" | "reserved_bytes_peak" | "blocks"));
        }
        (held == 3).then_some(reading)
    }

    /// The name of a mark that has it.
    pub(crate) fn mark(&self) -> String {
        let Self { reserved_bytes, reserved_bytes_peak, blocks, .. } = self;
        let mut name = format!(
            "{PREFIX}reserved_bytes={reserved_bytes} reserved_bytes_peak={reserved_bytes_peak} blocks={blocks}"
        );
        let others = [
            ("active_bytes", self.active_bytes),
            ("active_bytes_peak", self.active_bytes_peak),
            ("active_blocks", self.active_blocks),
            ("per_block", self.is_per_block.then_some(1)),
        ];
        for (field, value) in others.into_iter().filter_map(|(field, value)| Some((field, value?)))
        {
            let _ = write!(name, " {field}={value}");
        }
        name
    }

    /// Where the numbers come from.
    fn source(&self) -> &'static str {
        if self.is_per_block { HISTORY } else { STATISTICS }
    }

    /// Bytes that PyTorch keeps for reuse, if it counts those in use.
    fn free_bytes(&self) -> Option<u64> {
        self.active_bytes.map(|active_bytes| self.reserved_bytes.saturating_sub(active_bytes))
    }

    /// The last reading among these records.
    pub fn last_of(records: &[Record], stacks: &Stacks) -> Option<Self> {
        records.iter().rev().find_map(|record| Self::of_mark(stacks.text(moment(record)?)))
    }
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
        for device in &tape.devices {
            let mut readings = 0;
            for record in &device.records {
                let reading = moment(record).and_then(|name| *by_name.get(name.0 as usize)?);
                let Some(last) = reading else { continue };
                readings += 1;
                let (time_ns, all) = found.get_or_insert((
                    0,
                    Self {
                        last,
                        reserved_bytes_peak: 0,
                        active_bytes_peak: None,
                        readings: 0,
                        source: last.source(),
                    },
                ));
                all.reserved_bytes_peak = all.reserved_bytes_peak.max(last.reserved_bytes_peak);
                all.active_bytes_peak = all.active_bytes_peak.max(last.active_bytes_peak);
                if record.time_ns >= *time_ns {
                    (*time_ns, all.last) = (record.time_ns, last);
                }
                // A mark is on every device.
                all.readings = all.readings.max(readings);
            }
        }
        found.map(|(_, all)| all)
    }
}

impl HostOutOfMemory {
    /// Whether the exception that ended the program says that host memory was out.
    pub fn of(tape: &Tape, host: Option<&HostMemory>) -> Option<Self> {
        let ending = Ending::of(tape);
        if ending.kind != Kind::Exception {
            return None;
        }
        let report = message::explain(ending.detail.as_bytes());
        let message = report.messages.into_iter().find(|it| it.verdict == OomVerdict::Host)?;
        let is_pinned = message.framework == "cuda-error";
        let what = if is_pinned {
            "the driver refused to pin more host memory; the device's memory was not out"
        } else {
            "the request was for host memory, not for a device's"
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
    const LAST: &str = "the last statistics of the run";
    let last = host.last;
    let step = |name, how, bytes| Step { name, how, bytes };
    let mut steps = vec![step("pinned by PyTorch", LAST, last.reserved_bytes)];
    steps.extend(last.active_bytes.map(|bytes| step("in use", LAST, bytes)));
    steps.extend(
        last.free_bytes().map(|bytes| step("free, kept for reuse", "pinned - in use", bytes)),
    );
    steps.push(step("pinned at most", "the statistics' peak", host.reserved_bytes_peak));
    steps
}

fn pinned_advice(host: &HostMemory) -> Vec<String> {
    let cached = match host.last.free_bytes() {
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
    use trace_format::{EndKind, Meta, ProgramEnd, Recovery, StackId, ThreadId};

    use super::*;
    use crate::tape::Device;

    const EARLIER: &str = "pinned host memory: reserved_bytes=8 reserved_bytes_peak=12 blocks=1";
    const LATER: &str = "pinned host memory: reserved_bytes=4 reserved_bytes_peak=12 blocks=1 active_bytes=3 \
                         active_bytes_peak=9 active_blocks=1 of_a_later_version=x";

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
    fn the_statistics_of_a_mark_are_read_and_no_other_name_is() {
        let earlier = HostReading::of_mark(EARLIER).unwrap();
        assert_eq!(
            (earlier.reserved_bytes, earlier.active_bytes, earlier.free_bytes()),
            (8, None, None)
        );
        assert_eq!(earlier.mark(), EARLIER);
        let later = HostReading::of_mark(LATER).unwrap();
        assert_eq!(HostReading::of_mark(&later.mark()), Some(later));
        assert_eq!(
            (later.active_bytes, later.active_blocks, later.free_bytes()),
            (Some(3), Some(1), Some(1))
        );
        for name in [
            "",
            "epoch 2",
            "pinned host memory: ",
            "pinned host memory: of the loader",
            "pinned host memory: reserved_bytes=8 blocks=1",
            "pinned host memory: reserved_bytes=-8 reserved_bytes_peak=12 blocks=1",
            "pinned host memory: reserved_bytes=99999999999999999999 reserved_bytes_peak=12 blocks=1",
        ] {
            assert_eq!(HostReading::of_mark(name), None, "{name}");
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
        let last_of = |count: usize| HostReading::last_of(&records[..count], &run.stacks);
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
        let elsewhere = "torch.AcceleratorError: CUDA error: out of memory; a.py:3: graph.replay()";
        assert_eq!(oom(EndKind::Exception, elsewhere), None);
        assert_eq!(oom(EndKind::Exception, "ValueError: pin_memory"), None);
        assert_eq!(oom(EndKind::Exit, "out of memory in pin_memory"), None);
    }
}
