//! The blocks that a log's rows leave live, and what its rows leave open.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use rustc_hash::FxBuildHasher;
use sim_device::SimConfig;
use trace_format::{Addr, DeviceId, Event, PoolId, Record, StackId, Stream, ThreadId};

use super::super::csv::CsvError;
use super::super::requests::{alloc, free, record};

/// All devices of a log.
#[derive(Debug, Default)]
pub(super) struct Live {
    devices: BTreeMap<DeviceId, Device>,
    counts: Counts,
}

/// Counts of rows that leave something open.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    empty: u64,
    failed: u64,
    unknown_frees: u64,
    lost_frees: u64,
    other_streams: u64,
    other_sizes: u64,
    before_blocks: u64,
    before_bytes: u64,
}

/// One device, with where to count.
pub(super) struct At<'l> {
    device: &'l mut Device,
    counts: &'l mut Counts,
}

#[derive(Debug, Default)]
struct Device {
    /// Blocks by the pointer that names them; one that was freed stays, so that a second free is known as such.
    blocks: HashMap<u64, Block, FxBuildHasher>,
    live_bytes: u64,
    /// Blocks that were allocated before the log began.
    before: Vec<Record>,
    records: Vec<Record>,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    size_bytes: u64,
    stream: Stream,
    is_live: bool,
}

impl Live {
    pub(super) fn device(&mut self, device: DeviceId) -> At<'_> {
        At { device: self.devices.entry(device).or_default(), counts: &mut self.counts }
    }

    /// The records of each device, and the inferred facts.
    pub(super) fn finish(self) -> (BTreeMap<DeviceId, Vec<Record>>, Vec<String>) {
        let notes = self.counts.notes();
        let devices = self.devices.into_iter().map(|(id, device)| {
            let Device { mut before, records, .. } = device;
            let time_ns = records.first().map_or(0, |record| record.time_ns);
            for record in &mut before {
                record.time_ns = time_ns;
            }
            before.extend(records);
            (id, before)
        });
        (devices.collect(), notes)
    }
}

impl At<'_> {
    pub(super) fn allocate(
        self,
        pointer: u64,
        size_bytes: u64,
        stream: Stream,
        at: impl Fn(Event) -> Record,
        line: u64,
    ) -> Result<(), CsvError> {
        if size_bytes == 0 || pointer == 0 {
            self.counts.empty += 1;
            return Ok(());
        }
        let Device { blocks, live_bytes, records, .. } = self.device;
        let block = Block { size_bytes, stream, is_live: true };
        if let Some(before) = blocks.insert(pointer, block)
            && before.is_live
        {
            self.counts.lost_frees += 1;
            *live_bytes -= before.size_bytes;
            records.push(at(free(Addr(pointer), before.size_bytes)));
        }
        *live_bytes += size_bytes;
        if *live_bytes > SimConfig::UNLIMITED_CAPACITY_BYTES {
            let problem = "with this allocation more than 2 TiB are live at once".to_owned();
            return Err(CsvError { line, problem });
        }
        records.push(at(alloc(Addr(pointer), size_bytes, stream)));
        Ok(())
    }

    pub(super) fn free(
        self,
        pointer: u64,
        size_bytes: u64,
        stream: Stream,
        at: impl Fn(Event) -> Record,
    ) {
        let Device { blocks, live_bytes, before, records } = self.device;
        let counts = self.counts;
        if pointer == 0 {
            counts.empty += 1;
            return;
        }
        match blocks.entry(pointer) {
            Entry::Occupied(mut entry) if entry.get().is_live => {
                let block = entry.get_mut();
                block.is_live = false;
                *live_bytes -= block.size_bytes;
                // The oldest logs give no size with a free.
                counts.other_sizes += u64::from(![0, block.size_bytes].contains(&size_bytes));
                counts.other_streams += u64::from(size_bytes > 0 && block.stream != stream);
                records.push(at(free(Addr(pointer), block.size_bytes)));
            }
            Entry::Vacant(entry)
                if (1..=SimConfig::UNLIMITED_CAPACITY_BYTES).contains(&size_bytes) =>
            {
                entry.insert(Block { size_bytes, stream, is_live: false });
                counts.before_blocks += 1;
                counts.before_bytes = counts.before_bytes.saturating_add(size_bytes);
                let event = alloc(Addr(pointer), size_bytes, stream);
                before.push(record(0, ThreadId(0), StackId::NONE, event));
                records.push(at(free(Addr(pointer), size_bytes)));
            }
            _ => counts.unknown_frees += 1,
        }
    }

    pub(super) fn fail(self, size_bytes: u64, stream: Stream, at: impl Fn(Event) -> Record) {
        if size_bytes == 0 {
            self.counts.empty += 1;
            return;
        }
        self.counts.failed += 1;
        self.device.records.push(at(Event::Oom {
            requested_bytes: size_bytes,
            size_bytes,
            device_free_bytes: 0,
            stream,
            pool: PoolId::DEFAULT,
        }));
    }
}

impl Counts {
    fn notes(self) -> Vec<String> {
        let counted = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let before = (self.before_blocks > 0).then(|| {
            format!(
                "{} frees name blocks that were allocated before the log began: taken as live \
                 from its first row ({} bytes), so peaks may be too high",
                self.before_blocks, self.before_bytes
            )
        });
        let rest = [
            counted(
                self.failed,
                "allocations failed in the run: a replay retries them, and frees the ones that succeed",
            ),
            counted(
                self.lost_frees,
                "allocations return the address of a live block, whose free is not in the log: \
                 taken as freed just before",
            ),
            counted(
                self.unknown_frees,
                "frees name no block that the log has and are left out: peaks may be too low",
            ),
            counted(
                self.other_streams,
                "frees are on another stream than their allocation: reusable at once by the \
                 allocation's stream, as if the streams were synchronised",
            ),
            counted(
                self.other_sizes,
                "frees give another size than their allocation, which counts",
            ),
            counted(self.empty, "rows without a size or an address are left out"),
        ];
        before.into_iter().chain(rest.into_iter().flatten()).collect()
    }
}
