//! One pass over a device's records: the lives of its blocks, and its memory column by column.

use replay::modules::{ModuleOfAlloc, ModuleUse, OpenModules};
use replay::snapshot::Stacks;
use replay::tape::Device;
use rustc_hash::FxHashMap;
use thiserror::Error;
use trace_format::{
    Addr, BlockStatus, Category, Event, MarkKind, PoolId, Record, Stream, StringId,
};

use crate::columns::{Counters, Level};
use crate::envelopes::Envelopes;
use crate::kinds::{Kind, Numbered, lifetime_class};
use crate::names::CodeOf;

/// The end of a life that does not end on the tape.
pub(crate) const NO_END: u32 = u32::MAX;

/// An allocation: in the stack at the moments `start..end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) addr: u64,
    pub(crate) kind: u32,
}

/// A change of a group's bytes that shows from a moment on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) moment: u32,
    pub(crate) group: u32,
    pub(crate) bytes: i64,
}

/// A device's records, followed to their end.
#[derive(Debug)]
pub(crate) struct Followed {
    /// In order of their starts.
    pub(crate) lives: Vec<Life>,
    /// How many of the first lives began before the first record.
    pub(crate) lives_before: usize,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) pools: Vec<PoolId>,
    /// Names of phases; the first is that of records before any phase.
    pub(crate) phases: Vec<StringId>,
    /// Paths of modules; the first is that of memory outside any.
    pub(crate) modules: Vec<StringId>,
    /// Pools with their streams: the groups of reserved memory.
    pub(crate) pool_streams: Vec<(PoolId, Stream)>,
    pub(crate) reserved: Vec<Change>,
    /// How much each envelope of a private pool grows.
    pub(crate) envelopes: Vec<Change>,
    /// Out-of-memory errors.
    pub(crate) ooms: u64,
    /// The most allocated bytes of default pools and envelopes of private ones.
    pub(crate) peak_enveloped_bytes: u64,
    pub(crate) moments: u32,
    /// Places of the records that are not of single blocks: few, so passes over them are short.
    others: Vec<u32>,
    /// The finest level.
    pub(crate) level: Level,
    /// The first moments with the most, and how much.
    pub(crate) peak: Counters,
    /// The most live bytes: requested bytes in units of 512, until other streams are done with them. No policy can
    /// reserve less.
    pub(crate) peak_live_bytes: u64,
    pub(crate) peak_allocated_moment: u32,
    pub(crate) peak_reserved_moment: u32,
}

impl Followed {
    /// The records of `records` that are not of single blocks (marks, segments, errors), with their moments.
    pub(crate) fn others<'r>(
        &self,
        records: &'r [Record],
    ) -> impl Iterator<Item = (u32, &'r Record)> + use<'_, 'r> {
        self.others.iter().map(|at| (at + 1, &records[*at as usize]))
    }
}

/// Whether a record is of a single block.
#[inline]
fn is_of_block(event: &Event) -> bool {
    use Event::{Alloc, Category, Free, FreeCompleted, RecordStream};
    matches!(
        event,
        Alloc { .. } | Free { .. } | FreeCompleted { .. } | Category { .. } | RecordStream { .. }
    )
}

/// A record that does not fit those before it.
#[derive(Debug, Error)]
#[error(
    "device {device}: record {record} ({event} at {addr}) contradicts the records before it; record the run again"
)]
pub struct Contradiction {
    device: u16,
    record: usize,
    event: &'static str,
    addr: Addr,
}

/// A live or pending block.
struct Block {
    life: u32,
    kind: Kind,
    pool_stream: u32,
    of_alloc: ModuleOfAlloc,
}

impl Block {
    /// Whether it was given back, and another stream still uses it.
    fn is_pending(&self) -> bool {
        self.life == NO_END
    }
}

struct Follower<'c> {
    code: &'c CodeOf,
    blocks: FxHashMap<Addr, Block>,
    lives: Vec<Life>,
    kinds: Numbered<Kind>,
    streams: Numbered<Stream>,
    pools: Numbered<PoolId>,
    phases: Numbered<StringId>,
    phase: u32,
    open: OpenModules,
    modules: Numbered<StringId>,
    pool_streams: Numbered<(PoolId, Stream)>,
    reserved: Vec<Change>,
    envelopes: Envelopes,
    ooms: u64,
    now: Counters,
    live_bytes: u64,
    peak_live_bytes: u64,
}

/// PyTorch's least unit of a block.
const UNIT_BYTES: u64 = 512;

fn live_bytes(kind: &Kind) -> u64 {
    kind.requested_bytes.max(1).next_multiple_of(UNIT_BYTES)
}

/// Follows the records of a device; the finest level has columns of `column_moments`.
pub(crate) fn follow(
    device: &Device,
    stacks: &Stacks,
    code: &CodeOf,
    column_moments: u32,
    progress: &mut dyn FnMut(u64),
) -> Result<Followed, Contradiction> {
    const PROGRESS_RECORDS: usize = 1 << 16;
    let mut follower = Follower::new(stacks, code, device.records.len());
    let contradiction = |record: usize, event: &'static str, addr: Addr| Contradiction {
        device: device.id.0,
        record,
        event,
        addr,
    };
    follower.begin(device).map_err(|addr| contradiction(0, "start", addr))?;
    let lives_before = follower.lives.len();
    let moments = device.records.len() as u32 + 1;
    let mut level = Level::finest(moments, column_moments);
    level.add(0, follower.now);
    let (mut peak, mut peak_allocated_moment, mut peak_reserved_moment) = (follower.now, 0, 0);
    let mut others = Vec::new();
    for (at, record) in device.records.iter().enumerate() {
        if !is_of_block(&record.event) {
            others.push(at as u32);
        }
        let moment = at as u32 + 1;
        let step = follower.step(moment, record);
        step.map_err(|addr| contradiction(at, record.event.name(), addr))?;
        let now = follower.now;
        level.add(moment, now);
        if now.allocated_bytes > peak.allocated_bytes {
            (peak.allocated_bytes, peak_allocated_moment) = (now.allocated_bytes, moment);
        }
        if now.reserved_bytes > peak.reserved_bytes {
            (peak.reserved_bytes, peak_reserved_moment) = (now.reserved_bytes, moment);
        }
        peak.active_bytes = peak.active_bytes.max(now.active_bytes);
        peak.requested_bytes = peak.requested_bytes.max(now.requested_bytes);
        if at % PROGRESS_RECORDS == 0 {
            progress(at as u64);
        }
    }
    follower.finish();
    let Follower {
        lives,
        kinds,
        streams,
        pools,
        phases,
        modules,
        pool_streams,
        reserved,
        envelopes,
        ooms,
        peak_live_bytes,
        ..
    } = follower;
    Ok(Followed {
        lives,
        lives_before,
        kinds: kinds.keys,
        streams: streams.keys,
        pools: pools.keys,
        phases: phases.keys,
        modules: modules.keys,
        pool_streams: pool_streams.keys,
        reserved,
        envelopes: envelopes.changes,
        ooms,
        peak_enveloped_bytes: envelopes.peak_bytes,
        moments,
        others,
        level,
        peak,
        peak_live_bytes,
        peak_allocated_moment,
        peak_reserved_moment,
    })
}

impl<'c> Follower<'c> {
    fn new(stacks: &Stacks, code: &'c CodeOf, records: usize) -> Self {
        let (mut phases, mut modules) = (Numbered::default(), Numbered::default());
        let phase = phases.number(StringId::default());
        modules.number(StringId::default());
        Self {
            code,
            blocks: FxHashMap::default(),
            lives: Vec::with_capacity(records / 2),
            kinds: Numbered::default(),
            streams: Numbered::default(),
            pools: Numbered::default(),
            phases,
            phase,
            open: OpenModules::new(stacks),
            modules,
            pool_streams: Numbered::default(),
            reserved: Vec::new(),
            envelopes: Envelopes::default(),
            ooms: 0,
            now: Counters::default(),
            live_bytes: 0,
            peak_live_bytes: 0,
        }
    }

    /// The memory before the first record.
    fn begin(&mut self, device: &Device) -> Result<(), Addr> {
        for segment in &device.base.segments {
            self.reserve(0, segment.pool, segment.stream, segment.size_bytes);
            for block in &segment.blocks {
                let kind = Kind {
                    size_bytes: block.size_bytes,
                    requested_bytes: block.requested_bytes,
                    stack: block.stack.0,
                    code: self.code.before(block.stack),
                    ..self.kind(segment.stream, segment.pool)
                };
                let (pool, stream) = (segment.pool, segment.stream);
                match block.status {
                    BlockStatus::Allocated => {
                        self.allocate(0, block.addr, kind, pool, stream)?;
                    }
                    BlockStatus::PendingFree => {
                        self.allocate(0, block.addr, kind, pool, stream)?;
                        self.lives.pop();
                        self.end_allocated(&kind);
                        self.blocks.entry(block.addr).and_modify(|block| block.life = NO_END);
                    }
                    BlockStatus::Inactive => {}
                }
            }
        }
        Ok(())
    }

    /// Does to the memory what a record did; `Err` names the address that contradicts.
    #[inline]
    fn step(&mut self, moment: u32, record: &Record) -> Result<(), Addr> {
        match record.event {
            Event::Alloc { addr, requested_bytes, size_bytes, stream, pool } => {
                let kind = Kind {
                    size_bytes,
                    requested_bytes,
                    stack: record.stack.0,
                    code: self.code.recorded(record.stack),
                    ..self.kind(stream, pool)
                };
                let of_alloc = self.open.of_alloc(record.thread);
                self.allocate(moment, addr, kind, pool, stream)?;
                if of_alloc != ModuleOfAlloc::default() {
                    self.blocks.entry(addr).and_modify(|block| block.of_alloc = of_alloc);
                }
            }
            Event::Free { addr, pending, .. } => {
                let block = self.blocks.remove(&addr).filter(|it| !it.is_pending()).ok_or(addr)?;
                let module_use = self.open.use_of_freed(&block.of_alloc);
                self.end_life(&block, moment, module_use);
                self.end_allocated(&block.kind);
                if pending {
                    self.blocks.insert(addr, Block { life: NO_END, ..block });
                } else {
                    self.end_active(moment, &block);
                }
            }
            Event::FreeCompleted { addr, .. } => {
                let block = self.blocks.remove(&addr).filter(Block::is_pending).ok_or(addr)?;
                self.end_active(moment, &block);
            }
            Event::Category { addr, category } => {
                let block = self.blocks.get_mut(&addr).ok_or(addr)?;
                block.kind.category = Some(category);
                if let Some(module) = self.open.owner(record.thread) {
                    block.of_alloc.module = module;
                }
            }
            Event::SegmentAlloc { size_bytes, stream, pool, .. }
            | Event::SegmentMap { size_bytes, stream, pool, .. } => {
                self.reserve(moment, pool, stream, size_bytes);
            }
            Event::SegmentFree { addr, size_bytes, stream, pool, .. }
            | Event::SegmentUnmap { addr, size_bytes, stream, pool, .. } => {
                self.release(moment, pool, stream, size_bytes).ok_or(addr)?;
            }
            Event::Mark { kind, name } => {
                if kind == MarkKind::Phase {
                    self.phase = self.phases.number(name);
                }
                self.open.follow(record);
            }
            Event::Lost { .. } => self.open.follow(record),
            Event::Oom { .. } => self.ooms += 1,
            _ => {}
        }
        Ok(())
    }

    fn kind(&mut self, stream: Stream, pool: PoolId) -> Kind {
        Kind {
            size_bytes: 0,
            requested_bytes: 0,
            stack: 0,
            code: 0,
            stream: self.streams.number(stream),
            pool: self.pools.number(pool),
            phase: self.phase,
            module: 0,
            module_use: None,
            category: None::<Category>,
            lifetime: 0,
        }
    }

    fn allocate(
        &mut self,
        moment: u32,
        addr: Addr,
        kind: Kind,
        pool: PoolId,
        stream: Stream,
    ) -> Result<(), Addr> {
        let pool_stream = self.pool_stream(pool, stream);
        let life = self.lives.len() as u32;
        self.lives.push(Life { start: moment, end: NO_END, addr: addr.0, kind: 0 });
        if self
            .blocks
            .insert(addr, Block { life, kind, pool_stream, of_alloc: ModuleOfAlloc::default() })
            .is_some()
        {
            return Err(addr);
        }
        self.now.allocated_bytes += kind.size_bytes;
        self.now.active_bytes += kind.size_bytes;
        self.now.requested_bytes += kind.requested_bytes;
        self.live_bytes += live_bytes(&kind);
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
        self.envelopes.change_allocated(pool, kind.size_bytes.cast_signed());
        self.envelopes.change_active(moment, pool_stream, pool, kind.size_bytes.cast_signed());
        Ok(())
    }

    fn end_life(&mut self, block: &Block, end: u32, module_use: Option<ModuleUse>) {
        let Some(life) = self.lives.get_mut(block.life as usize) else { return };
        let records = (end != NO_END).then(|| end - life.start);
        life.end = end;
        let lifetime = lifetime_class(records);
        let module = self.modules.number(block.of_alloc.module);
        life.kind = self.kinds.number(Kind { module, module_use, lifetime, ..block.kind });
    }

    fn end_allocated(&mut self, kind: &Kind) {
        let pool = self.pools.keys[kind.pool as usize];
        self.envelopes.change_allocated(pool, -kind.size_bytes.cast_signed());
        self.now.allocated_bytes -= kind.size_bytes;
        self.now.requested_bytes -= kind.requested_bytes;
    }

    fn end_active(&mut self, moment: u32, block: &Block) {
        let size_bytes = block.kind.size_bytes;
        self.now.active_bytes -= size_bytes;
        self.live_bytes -= live_bytes(&block.kind);
        let pool = self.pools.keys[block.kind.pool as usize];
        self.envelopes.change_active(moment, block.pool_stream, pool, -size_bytes.cast_signed());
    }

    fn reserve(&mut self, moment: u32, pool: PoolId, stream: Stream, size_bytes: u64) {
        let group = self.pool_stream(pool, stream);
        self.reserved.push(Change { moment, group, bytes: size_bytes.cast_signed() });
        self.now.reserved_bytes += size_bytes;
        self.envelopes.reserve(moment, group, pool, size_bytes);
    }

    /// `None` where the pool has less on that stream.
    fn release(
        &mut self,
        moment: u32,
        pool: PoolId,
        stream: Stream,
        size_bytes: u64,
    ) -> Option<()> {
        let group = self.pool_stream(pool, stream);
        self.envelopes.release(group, size_bytes)?;
        self.now.reserved_bytes -= size_bytes;
        self.reserved.push(Change { moment, group, bytes: -size_bytes.cast_signed() });
        Some(())
    }

    fn pool_stream(&mut self, pool: PoolId, stream: Stream) -> u32 {
        let number = self.pool_streams.number((pool, stream));
        self.envelopes.see(self.pool_streams.keys.len());
        number
    }

    /// Ends the pass: the lives that go on get their kinds.
    fn finish(&mut self) {
        for block in std::mem::take(&mut self.blocks).into_values() {
            let module_use = self.open.use_of_live(&block.of_alloc);
            self.end_life(&block, NO_END, module_use);
        }
    }
}
