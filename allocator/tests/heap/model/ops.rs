//! What can happen to a heap, and how often.

use proptest::prelude::*;
use settings::{Compat, Config};
use trace_format::{PoolId, ScopeFilter, Stream};

use crate::support::{KIB, MIB};

pub(super) const STREAMS: [Stream; 3] = [Stream(0), Stream(16), Stream(32)];
pub(super) const POOLS: [PoolId; 3] = [PoolId(1, 0), PoolId(0, 1), PoolId(0, 2)];

/// One call. Allocations are named by their place among the live ones, counted around.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Malloc { bytes: u64, stream: Stream },
    MallocIn { bytes: u64, stream: Stream, pool: PoolId },
    Free(usize),
    FreeUnknown,
    RecordStream(usize, Stream),
    StreamDone(Stream),
    EmptyCache(PoolId),
    CreatePool { pool: PoolId, own_source: bool },
    BeginPool { pool: PoolId, kind: ScopeFilter, streams: Vec<Stream> },
    EndPool(PoolId),
    MarkCapture(PoolId, bool),
    ReleasePool(PoolId),
    UseOnOom(PoolId, bool),
    NoSplit(PoolId),
    Launch(Stream),
    Join { from: Stream, to: Stream },
    Settings(Change),
    Fraction(f64),
    AddPeer,
    ResetPeaks,
    ResetAccumulated,
}

/// A change of settings at run time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Expandable(bool),
    MaxSplit(u64),
    SearchAfterFlush(bool),
    Collect(f64),
}

impl Change {
    pub(super) fn apply(self, config: &mut Config) {
        match self {
            Self::Expandable(on) => config.expandable_segments = on,
            Self::MaxSplit(bytes) => config.max_split_size_bytes = bytes,
            Self::SearchAfterFlush(on) => config.search_after_flush = on,
            Self::Collect(threshold) => config.garbage_collection_threshold = threshold,
        }
    }
}

/// How often each family of calls is drawn, and from which settings a run starts.
#[derive(Clone, Debug)]
pub(super) struct Mix {
    pub(super) capacity_bytes: u64,
    pub(super) config: Config,
    pub(super) pools: u32,
    pub(super) streams: u32,
    pub(super) settings: u32,
    pub(super) fraction: u32,
}

impl Mix {
    pub(super) fn new(capacity_bytes: u64, config: Config) -> Self {
        Self { capacity_bytes, config, pools: 0, streams: 2, settings: 0, fraction: 0 }
    }

    pub(super) fn ops(&self) -> impl Strategy<Value = Vec<Op>> + use<> {
        let op = prop_oneof![
            60 => memory(),
            self.streams * 4 => waiting(),
            self.pools * 4 => pools(),
            self.settings * 2 => settings(),
            self.fraction => prop_oneof![Just(1.0), 0.05..1.0].prop_map(Op::Fraction),
            1 => prop_oneof![
                Just(Op::AddPeer),
                Just(Op::ResetPeaks),
                Just(Op::ResetAccumulated),
                Just(Op::FreeUnknown),
            ],
        ];
        prop::collection::vec(op, 1..160)
    }
}

pub(super) fn compat() -> impl Strategy<Value = Compat> {
    prop_oneof![Just(Compat::V2_11), Just(Compat::V2_15)]
}

fn stream() -> impl Strategy<Value = Stream> {
    prop_oneof![3 => Just(STREAMS[0]), 1 => Just(STREAMS[1]), 1 => Just(STREAMS[2])]
}

fn pool() -> impl Strategy<Value = PoolId> {
    prop::sample::select(&POOLS[..])
}

/// Sizes from every class, the borders among them.
fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => 1..=4096_u64,
        2 => 1..=MIB,
        1 => prop::sample::select(&[512, 513, 512 * KIB, MIB, MIB + 1][..]),
        3 => MIB..=10 * MIB,
        1 => prop::sample::select(&[10 * MIB - 512, 10 * MIB, 19 * MIB, 20 * MIB, 24 * MIB][..]),
        2 => 10 * MIB..=60 * MIB,
        1 => 60 * MIB..=300 * MIB,
    ]
}

fn memory() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (bytes(), stream()).prop_map(|(bytes, stream)| Op::Malloc { bytes, stream }),
        9 => any::<usize>().prop_map(Op::Free),
        1 => Just(Op::EmptyCache(PoolId::DEFAULT)),
    ]
}

fn waiting() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (any::<usize>(), stream()).prop_map(|(at, stream)| Op::RecordStream(at, stream)),
        1 => stream().prop_map(Op::StreamDone),
    ]
}

fn pools() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![
        Just(ScopeFilter::Capture),
        Just(ScopeFilter::Thread),
        Just(ScopeFilter::Unknown),
    ];
    let streams = prop::sample::subsequence(&STREAMS[..], 1..=3);
    prop_oneof![
        2 => (pool(), prop::bool::weighted(0.3))
            .prop_map(|(pool, own_source)| Op::CreatePool { pool, own_source }),
        4 => (pool(), kind, streams)
            .prop_map(|(pool, kind, streams)| Op::BeginPool { pool, kind, streams }),
        4 => pool().prop_map(Op::EndPool),
        2 => (bytes(), stream(), pool())
            .prop_map(|(bytes, stream, pool)| Op::MallocIn { bytes, stream, pool }),
        4 => pool().prop_map(Op::ReleasePool),
        1 => pool().prop_map(Op::EmptyCache),
        1 => (pool(), any::<bool>()).prop_map(|(pool, on)| Op::UseOnOom(pool, on)),
        1 => (pool(), any::<bool>()).prop_map(|(pool, on)| Op::MarkCapture(pool, on)),
        1 => pool().prop_map(Op::NoSplit),
        3 => stream().prop_map(Op::Launch),
        2 => (stream(), stream()).prop_map(|(from, to)| Op::Join { from, to }),
    ]
}

fn settings() -> impl Strategy<Value = Op> {
    let limit = prop::sample::select(&[u64::MAX, 20 * MIB, 32 * MIB, 64 * MIB][..]);
    prop_oneof![
        4 => any::<bool>().prop_map(Change::Expandable),
        1 => limit.prop_map(Change::MaxSplit),
        1 => any::<bool>().prop_map(Change::SearchAfterFlush),
        1 => prop::sample::select(&[0.0, 0.3, 0.8][..]).prop_map(Change::Collect),
    ]
    .prop_map(Op::Settings)
}
