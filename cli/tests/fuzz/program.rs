//! The events of a random program: most fit what came before, so that a replay goes on, and some contradict it.

use trace_format::{
    Addr, BlockState, BlockStatus, Category, Event, MarkKind, PageNumber, PoolId, ScopeFilter,
    SegmentState, StackId, Stream, StringId,
};

use crate::rng::Rng;

/// Settings texts, right and wrong.
pub(crate) const SETTINGS: [&str; 14] = [
    "",
    "expandable_segments:True",
    "expandable_segments:False",
    "max_split_size_mb:21",
    "max_split_size_mb:18446744073709551615",
    "garbage_collection_threshold:0.5",
    "garbage_collection_threshold:0.000001",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "max_non_split_rounding_mb:100,max_split_size_mb:40",
    "backend:cudaMallocAsync",
    "large_segment_size_mb:64",
    "nonsense:1",
    "per_process_memory_fraction:0.3",
];

#[derive(Clone, Copy)]
struct Live {
    addr: u64,
    requested: u64,
    size: u64,
}

/// What is mapped and live so far.
#[derive(Default)]
pub(crate) struct Program {
    /// Address, size, stream, pool, whether large, whether expandable, and how much of it is handed out.
    segments: Vec<(u64, u64, Stream, PoolId, bool, bool, u64)>,
    live: Vec<Live>,
    pending: Vec<Live>,
    next: u64,
    /// Wrong values come once in so many; never for 0.
    rarity: usize,
    pools: u64,
    streams: u64,
}

impl Program {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        Self {
            next: *rng.pick(&[2 << 20, 0x7f00_0000_0000, 0, 512, 1 << 60, u64::MAX - (1 << 30)]),
            rarity: *rng.pick(&[0, 0, 300, 60, 12]),
            pools: *rng.pick(&[1, 1, 2, 5]),
            streams: *rng.pick(&[1, 1, 2, 5]),
            ..Self::default()
        }
    }

    /// A value, or a wrong one.
    fn or(&self, rng: &mut Rng, value: u64) -> u64 {
        rng.or_wrong(value, self.rarity)
    }

    fn pool(&self, rng: &mut Rng) -> PoolId {
        let pool = rng.roll(self.pools as usize) as u64;
        PoolId(self.or(rng, 0), self.or(rng, pool))
    }

    fn stream(&self, rng: &mut Rng) -> Stream {
        let stream = rng.roll(self.streams as usize) as u64;
        Stream(self.or(rng, stream))
    }

    /// The next event; `strings` is how many the file has.
    pub(crate) fn event(&mut self, rng: &mut Rng, strings: u32) -> Event {
        let pool = self.pool(rng);
        let name = StringId(rng.roll(strings as usize + 1) as u32);
        match rng.roll(66) {
            0..=21 => self.alloc(rng),
            22..=35 => self.free(rng, false),
            36..=39 => self.free(rng, true),
            40..=43 => self.complete(rng),
            44 => Event::RecordStream { addr: self.some_addr(rng), stream: self.stream(rng) },
            45 => {
                Event::Category { addr: self.some_addr(rng), category: *rng.pick(&Category::ALL) }
            }
            46 => Event::EmptyCache { pool, inferred: rng.once_in(2) },
            47 => Event::PoolCreate { pool, own_source: rng.once_in(4) },
            48 => {
                let filters = [ScopeFilter::Capture, ScopeFilter::Thread, ScopeFilter::Unknown];
                Event::PoolBegin { pool, filter: *rng.pick(&filters) }
            }
            49 => Event::PoolEnd { pool },
            50 => Event::PoolRelease { pool },
            51 => Event::PoolUseOnOom { pool, enabled: rng.once_in(2) },
            52 => Event::PoolNoSplit { pool },
            53 => Event::CaptureBegin { pool },
            54 => Event::CaptureEnd { pool },
            55 => Event::Settings { text: name },
            56 => {
                let fractions = [1.0, 0.5, 0.0, 1e-300, -1.0, 2.0, f64::NAN, f64::INFINITY];
                let kinds = if self.rarity == 0 { 2 } else { fractions.len() };
                Event::MemoryFraction { fraction: fractions[rng.roll(kinds)] }
            }
            57 => [Event::ResetPeak, Event::ResetAccumulated][rng.roll(2)],
            58..=59 => self.end_of_segment(rng),
            60 => Event::DriverRefused { size_bytes: self.size(rng) },
            61 => {
                let (requested_bytes, stream) = (self.size(rng), self.stream(rng));
                let size_bytes = self.or(rng, requested_bytes.next_multiple_of(512));
                let device_free_bytes = self.or(rng, 0);
                Event::Oom { requested_bytes, size_bytes, device_free_bytes, stream, pool }
            }
            62 => Event::Mark { kind: *rng.pick(&MarkKind::ALL), name },
            63 => {
                let (stream, frees) = (self.stream(rng), self.or(rng, 40));
                Event::StreamPassed { stream, frees }
            }
            64..=65 => {
                let addr = self.some_addr(rng);
                let page = PageNumber(self.or(rng, 5) as u32);
                if rng.once_in(2) {
                    Event::PageUnmap { addr, page }
                } else {
                    Event::PageMap { addr, page }
                }
            }
            _ if rng.once_in(8) => Event::Lost { count: self.or(rng, 3) },
            _ => Event::Snapshot { active_bytes: self.size(rng) },
        }
    }

    fn size(&self, rng: &mut Rng) -> u64 {
        let size = rng.size();
        self.or(rng, size).min(u64::MAX - 512)
    }

    fn some_addr(&self, rng: &mut Rng) -> Addr {
        let addr = if self.live.is_empty() { 0 } else { rng.pick(&self.live).addr };
        Addr(self.or(rng, addr))
    }

    fn alloc(&mut self, rng: &mut Rng) -> Event {
        let (requested_bytes, stream, pool) = (self.size(rng), self.stream(rng), self.pool(rng));
        let size_bytes = self.or(rng, requested_bytes.next_multiple_of(512));
        let room = self.segments.iter_mut().find(|segment| {
            segment.2 == stream && segment.3 == pool && segment.1 - segment.6 >= size_bytes
        });
        let addr = if let Some(segment) = room {
            let addr = segment.0 + segment.6;
            segment.6 += size_bytes;
            addr
        } else if !rng.once_in(8) {
            return self.segment(rng, size_bytes, stream, pool);
        } else {
            self.next
        };
        let addr = Addr(self.or(rng, addr));
        self.live.push(Live { addr: addr.0, requested: requested_bytes, size: size_bytes });
        Event::Alloc { addr, requested_bytes, size_bytes, stream, pool }
    }

    fn segment(&mut self, rng: &mut Rng, least: u64, stream: Stream, pool: PoolId) -> Event {
        let is_large = least > 1 << 20;
        let page = if is_large { 20 << 20 } else { 2 << 20 };
        let size_bytes = least.checked_next_multiple_of(page).unwrap_or(least);
        let addr = Addr(self.next);
        self.next = self.next.saturating_add(size_bytes).saturating_add(page);
        let is_expandable = rng.once_in(4);
        let end = addr.0.checked_add(size_bytes).is_some();
        if end {
            self.segments.push((addr.0, size_bytes, stream, pool, is_large, is_expandable, 0));
        }
        let size_bytes = self.or(rng, size_bytes);
        if is_expandable {
            Event::SegmentMap { addr, size_bytes, stream, pool, is_large }
        } else {
            Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large }
        }
    }

    fn end_of_segment(&mut self, rng: &mut Rng) -> Event {
        if self.segments.is_empty() {
            return Event::ResetPeak;
        }
        let at = rng.roll(self.segments.len());
        let (addr, size_bytes, stream, pool, is_large, is_expandable, _) =
            self.segments.swap_remove(at);
        let live = |live: &Live| live.addr < addr || live.addr - addr >= size_bytes;
        if !self.live.iter().chain(&self.pending).all(live) && !rng.once_in(8) {
            self.segments.push((
                addr,
                size_bytes,
                stream,
                pool,
                is_large,
                is_expandable,
                size_bytes,
            ));
            return Event::ResetPeak;
        }
        let (addr, size_bytes) = (Addr(self.or(rng, addr)), self.or(rng, size_bytes));
        if is_expandable {
            Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large }
        } else {
            Event::SegmentFree { addr, size_bytes, stream, pool, is_large }
        }
    }

    fn free(&mut self, rng: &mut Rng, pending: bool) -> Event {
        if self.live.is_empty() {
            return self.alloc(rng);
        }
        let at = rng.roll(self.live.len());
        let block = self.live.swap_remove(at);
        if pending {
            self.pending.push(block);
        }
        let addr = Addr(self.or(rng, block.addr));
        let (requested_bytes, size_bytes) =
            (self.or(rng, block.requested), self.or(rng, block.size));
        Event::Free { addr, requested_bytes, size_bytes, pending }
    }

    fn complete(&mut self, rng: &mut Rng) -> Event {
        if self.pending.is_empty() {
            return self.alloc(rng);
        }
        let at = rng.roll(self.pending.len());
        let block = self.pending.swap_remove(at);
        let (requested_bytes, size_bytes) =
            (self.or(rng, block.requested), self.or(rng, block.size));
        Event::FreeCompleted { addr: Addr(block.addr), requested_bytes, size_bytes }
    }

    /// The segments as they are, tiled but for what is wrong with them.
    pub(crate) fn state(&self, rng: &mut Rng) -> Vec<SegmentState> {
        let mut segments = self.segments.clone();
        if !rng.once_in(8) {
            segments.sort_unstable_by_key(|segment| segment.0);
        }
        let rarity = self.rarity;
        let of = |(addr, size_bytes, stream, pool, is_large, is_expandable, used): (
            u64,
            u64,
            Stream,
            PoolId,
            bool,
            bool,
            u64,
        ),
                  rng: &mut Rng| {
            let mut blocks = Vec::new();
            let mut held: Vec<_> = self
                .live
                .iter()
                .filter(|live| live.addr >= addr && live.addr - addr < used)
                .collect();
            held.sort_by_key(|live| live.addr);
            let mut at = addr;
            let block = |at, size, requested_bytes, status| BlockState {
                addr: Addr(at),
                size_bytes: size,
                requested_bytes,
                status,
                stack: StackId::NONE,
            };
            for live in held {
                if live.addr < at || live.size == 0 || live.addr - addr + live.size > size_bytes {
                    continue;
                }
                if live.addr > at {
                    blocks.push(block(at, live.addr - at, 0, BlockStatus::Inactive));
                }
                let states =
                    [BlockStatus::Allocated, BlockStatus::Allocated, BlockStatus::PendingFree];
                let requested = rng.or_wrong(live.requested, rarity);
                blocks.push(block(live.addr, live.size, requested, *rng.pick(&states)));
                at = live.addr + live.size;
            }
            if at - addr < size_bytes {
                let rest = size_bytes - (at - addr);
                blocks.push(block(at, rng.or_wrong(rest, rarity), 0, BlockStatus::Inactive));
            }
            let size_bytes = rng.or_wrong(size_bytes, rarity);
            let (addr, stack) = (Addr(rng.or_wrong(addr, rarity)), StackId::NONE);
            SegmentState { addr, size_bytes, stream, pool, is_large, is_expandable, stack, blocks }
        };
        segments.into_iter().map(|segment| of(segment, rng)).collect()
    }
}
