//! The shape of a snapshot. Every key is one that PyTorch writes or that its viewer reads.

use std::io;

use hashbrown::HashMap;
use settings::{Config, UNLIMITED};
use trace_format::{
    Addr, BlockStatus, Category, DeviceId, Event, Frame, MarkKind, PoolId, Record, SegmentState,
    StackId, Stream,
};

use super::encode::{Encode, Shared};
use super::{SnapshotDevice, SnapshotSource};
use crate::categories::Categories;

pub(super) fn write(out: &mut impl Encode, source: &SnapshotSource<'_>) -> io::Result<()> {
    let mut document = Document { out, source };
    document.out.begin_dict()?;
    document.out.key("segments")?;
    document.out.begin_list()?;
    for device in &source.devices {
        for segment in device.segments {
            document.out.item()?;
            document.segment(device.device, segment)?;
        }
    }
    document.out.end_list()?;
    document.out.key("device_traces")?;
    document.traces()?;
    document.out.key("allocator_settings")?;
    document.settings(source.config)?;
    document.out.key("external_annotations")?;
    document.annotations()?;
    document.out.end_dict()
}

struct Document<'a, 's, E> {
    out: &'a mut E,
    source: &'a SnapshotSource<'s>,
}

/// The fields of every entry of a trace.
struct Line {
    action: &'static str,
    addr: u64,
    size: u64,
    stream: Stream,
    pool: PoolId,
    /// Of allocations, where the run has any categories. PyTorch's viewer opens no file in which none is `unknown`.
    category: Option<&'static str>,
}

impl<E: Encode> Document<'_, '_, E> {
    fn number(&mut self, key: &'static str, value: u64) -> io::Result<()> {
        self.out.key(key)?;
        self.out.integer(value.into())
    }

    fn flag(&mut self, key: &'static str, value: bool) -> io::Result<()> {
        self.out.key(key)?;
        self.out.boolean(value)
    }

    fn word(&mut self, key: &'static str, text: &str) -> io::Result<()> {
        self.out.key(key)?;
        self.out.text(text)
    }

    fn pool(&mut self, key: &'static str, pool: PoolId) -> io::Result<()> {
        self.out.key(key)?;
        if !self.out.recall(Shared::Pool(pool))? {
            self.out.pair(pool.0, pool.1)?;
            self.out.remember(Shared::Pool(pool))?;
        }
        Ok(())
    }

    fn frames(&mut self, stack: StackId) -> io::Result<()> {
        self.out.key("frames")?;
        if self.out.recall(Shared::Stack(stack))? {
            return Ok(());
        }
        self.out.begin_list()?;
        let stacks = self.source.stacks;
        for &frame in stacks.frame_ids_of(stack) {
            self.out.item()?;
            if self.out.recall(Shared::Frame(frame))? {
                continue;
            }
            let Frame { name, filename, line } = stacks.frame(frame);
            self.out.begin_dict()?;
            self.word("name", stacks.text(name))?;
            self.word("filename", stacks.text(filename))?;
            self.number("line", line.into())?;
            self.out.end_dict()?;
            self.out.remember(Shared::Frame(frame))?;
        }
        self.out.end_list()?;
        self.out.remember(Shared::Stack(stack))
    }

    fn segment(&mut self, device: DeviceId, segment: &SegmentState) -> io::Result<()> {
        let sum = |is: fn(BlockStatus) -> bool| {
            segment.blocks.iter().filter(move |block| is(block.status))
        };
        let active = || sum(|status| status != BlockStatus::Inactive);
        let allocated = sum(|status| status == BlockStatus::Allocated);
        self.out.begin_dict()?;
        self.number("device", device.0.into())?;
        self.number("address", segment.addr.0)?;
        self.number("total_size", segment.size_bytes)?;
        self.number("allocated_size", allocated.map(|block| block.size_bytes).sum())?;
        self.number("active_size", active().map(|block| block.size_bytes).sum())?;
        self.number("requested_size", active().map(|block| block.requested_bytes).sum())?;
        self.number("stream", segment.stream.0)?;
        self.word("segment_type", if segment.is_large { "large" } else { "small" })?;
        self.pool("segment_pool_id", segment.pool)?;
        self.flag("is_expandable", segment.is_expandable)?;
        self.frames(segment.stack)?;
        self.out.key("blocks")?;
        self.out.begin_list()?;
        for block in &segment.blocks {
            self.out.item()?;
            self.out.begin_dict()?;
            self.number("address", block.addr.0)?;
            self.number("size", block.size_bytes)?;
            self.number("requested_size", block.requested_bytes)?;
            let state = match block.status {
                BlockStatus::Allocated => "active_allocated",
                BlockStatus::PendingFree => "active_pending_free",
                BlockStatus::Inactive => "inactive",
            };
            self.word("state", state)?;
            self.frames(block.stack)?;
            self.out.end_dict()?;
        }
        self.out.end_list()?;
        self.out.end_dict()
    }

    /// One list per device number, empty for devices in between.
    fn traces(&mut self) -> io::Result<()> {
        let devices = self.source.devices.iter();
        let count = devices.map(|device| usize::from(device.device.0) + 1).max().unwrap_or(0);
        self.out.begin_list()?;
        for at in 0..count {
            self.out.item()?;
            self.out.begin_list()?;
            let mut devices = self.source.devices.iter();
            if let Some(device) = devices.find(|device| usize::from(device.device.0) == at) {
                self.trace(device)?;
            }
            self.out.end_list()?;
        }
        self.out.end_list()
    }

    fn trace(&mut self, device: &SnapshotDevice<'_>) -> io::Result<()> {
        // Frees on tape name the block only; entries name its stream and pool too.
        let mut owners: HashMap<Addr, (Stream, PoolId)> = HashMap::new();
        for segment in device.base {
            let owner = (segment.stream, segment.pool);
            owners.extend(segment.blocks.iter().map(|block| (block.addr, owner)));
        }
        let owner = |owners: &HashMap<_, _>, addr: Addr| {
            owners.get(&addr).copied().unwrap_or((Stream(0), PoolId::DEFAULT))
        };
        let categories = Categories::of(device.base, device.records);
        let is_alloc = |record: &Record| matches!(record.event, Event::Alloc { .. });
        let is_unknown = |(at, record)| is_alloc(record) && categories.of_alloc(at).is_none();
        let has_categories =
            !categories.is_empty() && device.records.iter().enumerate().any(is_unknown);
        for (at, record) in device.records.iter().enumerate() {
            let (action, addr, size, (stream, pool)) = match record.event {
                Event::Alloc { addr, requested_bytes, stream, pool, .. } => {
                    owners.insert(addr, (stream, pool));
                    ("alloc", addr, requested_bytes, (stream, pool))
                }
                Event::Free { addr, requested_bytes, pending, .. } => {
                    let (stream, pool) = owner(&owners, addr);
                    let action = "free_requested";
                    let (size, category) = (requested_bytes, None);
                    let line = Line { action, addr: addr.0, size, stream, pool, category };
                    self.entry(record, &line)?;
                    if pending {
                        continue;
                    }
                    ("free_completed", addr, requested_bytes, (stream, pool))
                }
                Event::FreeCompleted { addr, requested_bytes, .. } => {
                    ("free_completed", addr, requested_bytes, owner(&owners, addr))
                }
                Event::SegmentAlloc { addr, size_bytes, stream, pool, .. } => {
                    ("segment_alloc", addr, size_bytes, (stream, pool))
                }
                Event::SegmentFree { addr, size_bytes, stream, pool, .. } => {
                    ("segment_free", addr, size_bytes, (stream, pool))
                }
                Event::SegmentMap { addr, size_bytes, stream, pool, .. } => {
                    ("segment_map", addr, size_bytes, (stream, pool))
                }
                Event::SegmentUnmap { addr, size_bytes, stream, pool, .. } => {
                    ("segment_unmap", addr, size_bytes, (stream, pool))
                }
                Event::Oom { size_bytes, device_free_bytes, stream, pool, .. } => {
                    ("oom", Addr(device_free_bytes), size_bytes, (stream, pool))
                }
                Event::Snapshot { active_bytes } => {
                    ("snapshot", Addr(0), active_bytes, (Stream(0), PoolId::DEFAULT))
                }
                _ => continue,
            };
            let category = (has_categories && is_alloc(record))
                .then(|| categories.of_alloc(at).map_or("unknown", Category::name));
            self.entry(record, &Line { action, addr: addr.0, size, stream, pool, category })?;
        }
        Ok(())
    }

    fn entry(&mut self, record: &Record, line: &Line) -> io::Result<()> {
        self.out.item()?;
        self.out.begin_dict()?;
        self.word("action", line.action)?;
        self.number(if line.action == "oom" { "device_free" } else { "addr" }, line.addr)?;
        self.number("size", line.size)?;
        self.number("stream", line.stream.0)?;
        self.number("time_us", record.time_ns / 1000)?;
        // PyTorch writes the first name, its viewer reads the second.
        self.pool("pool_id", line.pool)?;
        self.pool("segment_pool_id", line.pool)?;
        if let Some(category) = line.category {
            self.word("category", category)?;
        }
        self.frames(record.stack)?;
        self.out.end_dict()
    }

    fn settings(&mut self, config: &Config) -> io::Result<()> {
        let Config { max_split_size_bytes, garbage_collection_threshold, .. } = *config;
        self.out.begin_dict()?;
        self.word("PYTORCH_CUDA_ALLOC_CONF", &config.text)?;
        self.out.key("max_split_size")?;
        let is_limited = max_split_size_bytes != UNLIMITED;
        self.out.integer(if is_limited { max_split_size_bytes.into() } else { -1 })?;
        self.out.key("garbage_collection_threshold")?;
        self.out.float(garbage_collection_threshold)?;
        self.flag("expandable_segments", config.expandable_segments)?;
        self.flag("release_lock_on_cudamalloc", config.release_lock_on_cudamalloc)?;
        let reuse = config.graph_capture_record_stream_reuse;
        self.flag("graph_capture_record_stream_reuse", reuse)?;
        // Ours: whose behaviour this is; PyTorch and its viewer ignore keys they do not know.
        self.word("vramtape_compat", config.compat.name())?;
        let devices = self.source.devices.iter();
        let mut records = devices.flat_map(|device| device.records);
        let is_lossy = records.any(|record| matches!(record.event, Event::Lost { .. }));
        self.flag("trace_alloc_overflowed", is_lossy)?;
        self.out.key("roundup_power2_divisions")?;
        self.out.begin_dict()?;
        for (interval, divisions) in ROUNDUP_MIB.into_iter().zip(config.roundup_power2_divisions) {
            self.number(interval, divisions)?;
        }
        self.out.end_dict()?;
        self.out.end_dict()
    }

    fn annotations(&mut self) -> io::Result<()> {
        self.out.begin_list()?;
        for device in &self.source.devices {
            for record in device.records {
                let Event::Mark { kind, name } = record.event else { continue };
                let stages: &[&str] = match kind {
                    MarkKind::RangeBegin | MarkKind::ModuleBegin => &["START"],
                    MarkKind::RangeEnd | MarkKind::ModuleEnd => &["END"],
                    // A moment is a range without length.
                    MarkKind::Step | MarkKind::Phase | MarkKind::Instant => &["START", "END"],
                    // A module's backward pass has no end of its own.
                    MarkKind::ModuleBackward | MarkKind::ModuleOwner => &[],
                };
                for stage in stages {
                    self.out.item()?;
                    self.out.begin_dict()?;
                    self.word("stage", stage)?;
                    self.word("name", self.source.stacks.text(name))?;
                    self.number("device", device.device.0.into())?;
                    self.number("time_us", record.time_ns / 1000)?;
                    self.out.end_dict()?;
                }
            }
        }
        self.out.end_list()
    }
}

/// The keys of `roundup_power2_divisions`.
const ROUNDUP_MIB: [&str; settings::ROUNDUP_INTERVALS] = [
    "1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048", "4096", "8192",
    "16384", "32768",
];
