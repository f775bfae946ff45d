//! Files that try to cost as much as they can for their size, which is up to 1 MB.

use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::{Value, json};
use trace_format::{
    Addr, BlockState, BlockStatus, Category, DeviceId, Event, Frame, MarkKind, Meta, PoolId,
    Record, ScopeFilter, SegmentState, StackId, Stream, ThreadId, Writer,
};

use crate::chunks;
use crate::rng::Rng;
use crate::snapshot::pickle;

/// Bytes that a file may have here.
const MOST_BYTES: usize = 1 << 20;

/// What a costly tape repeats.
const TAPES: usize = 16;

/// One of them: of some size, so that the costs of its like show.
pub(crate) fn costly(rng: &mut Rng) -> Vec<u8> {
    let count = 1 << (8 + rng.roll(16)); // Up to eight million.
    let mut bytes = match rng.roll(5) {
        0 => snapshot(rng, count.min(1 << 17)),
        1 => bomb(rng, count),
        2 => log(rng, count.min(1 << 17)),
        _ => tape(rng.roll(TAPES), count),
    };
    bytes.truncate(MOST_BYTES);
    bytes
}

const MIB: u64 = 1 << 20;
const POOL: PoolId = PoolId::DEFAULT;

/// A tape that repeats something.
fn tape(what: usize, count: usize) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "in memory", &Meta::default()).expect("memory");
    let settings =
        ["", "expandable_segments:True", "max_split_size_mb:21", "roundup_power2_divisions:4"]
            .map(|text| writer.string(text).expect("memory"));
    let mut push = |device: usize, stack: StackId, event: Event| {
        let record = Record { time_ns: 1, thread: ThreadId(1), stack, event };
        writer.push(DeviceId(device as u16), &record).is_ok()
            && writer.size_at_most_bytes() < MOST_BYTES as u64 - 4096
    };
    for at in 0..count {
        let n = at as u64;
        let alloc = |n: u64, requested_bytes: u64, stream: u64, pool: u64| Event::Alloc {
            addr: Addr((n + 1) << 26),
            requested_bytes,
            size_bytes: requested_bytes.next_multiple_of(512),
            stream: Stream(stream),
            pool: PoolId(0, pool),
        };
        let free = |n: u64, requested_bytes: u64, pending| Event::Free {
            addr: Addr((n + 1) << 26),
            requested_bytes,
            size_bytes: requested_bytes.next_multiple_of(512),
            pending,
        };
        let pool = PoolId(0, n + 1);
        let events: Vec<Event> = match what {
            0 => vec![alloc(n, 1, 0, 0)],
            1 => vec![alloc(n, 1, 0, 0), free(n, 1, true)],
            2 => vec![
                alloc(n, 30 * MIB, 0, 0),
                free(n, 30 * MIB, false),
                Event::EmptyCache { pool: POOL, inferred: false },
            ],
            3 => vec![
                alloc(n, 1 + n % 700 * 4096, 0, 0),
                free(n.wrapping_sub(50), 1 + n.wrapping_sub(50) % 700 * 4096, false),
            ],
            4 => vec![Event::Settings { text: settings[at % 4] }, alloc(n, MIB * 2, 0, 0)],
            5 => vec![Event::Mark { kind: MarkKind::Step, name: settings[at % 4] }],
            6 => vec![
                alloc(0, 1, 0, 0),
                Event::RecordStream { addr: Addr(1 << 26), stream: Stream(n % 50) },
            ],
            7 => vec![
                alloc(n, 1, 0, 0),
                Event::Category { addr: Addr((n / 2 + 1) << 26), category: Category::Gradient },
            ],
            8 => vec![Event::Oom {
                requested_bytes: 1 << 50,
                size_bytes: 1 << 50,
                device_free_bytes: 0,
                stream: Stream(0),
                pool: POOL,
            }],
            9 => vec![Event::Lost { count: u64::MAX }],
            10 => vec![Event::SegmentAlloc {
                addr: Addr((n + 1) << 26),
                size_bytes: 2 * MIB,
                stream: Stream(0),
                pool: POOL,
                is_large: false,
            }],
            11 => vec![
                Event::PoolBegin { pool: PoolId(0, 1), filter: ScopeFilter::Thread },
                Event::CaptureBegin { pool: PoolId(0, 1) },
            ],
            12 => vec![
                Event::MemoryFraction { fraction: 1.0 / (at + 1) as f64 },
                alloc(n, MIB * 2, 0, 0),
            ],
            13 => {
                vec![alloc(n, 3 << 30, 0, 0), Event::ResetPeak, Event::Snapshot { active_bytes: n }]
            }
            // Streams and pools without end: the allocator's part of the work.
            14 if at < 30_000 => vec![alloc(n, 1, n, 0)],
            15 if at < 30_000 => vec![
                Event::PoolCreate { pool, own_source: false },
                alloc(n, 1, 0, n + 1),
                Event::PoolRelease { pool },
            ],
            _ => vec![Event::DriverRefused { size_bytes: n }],
        };
        // Now and then of another device.
        let device = if what == 5 { at % 2000 } else { 0 };
        if !events.into_iter().all(|event| push(device, StackId::NONE, event)) {
            break;
        }
    }
    if what == 13 {
        let frame = Frame { name: settings[1], filename: settings[2], line: 1 };
        for depth in 1..2000 {
            let _ = writer.stack(&vec![frame; depth]);
        }
    }
    let tape = writer.finish().expect("memory");
    if what == 10 { with_states(&tape, count) } else { tape }
}

/// The tape behind states of many segments and blocks.
fn with_states(tape: &[u8], count: usize) -> Vec<u8> {
    let block = |addr: u64| BlockState {
        addr: Addr(addr),
        size_bytes: 512,
        requested_bytes: 1,
        status: BlockStatus::Allocated,
        stack: StackId::NONE,
    };
    let segment = |n: u64| SegmentState {
        addr: Addr((n + 1) << 40),
        size_bytes: 512 * 64,
        stream: Stream(0),
        pool: POOL,
        is_large: false,
        is_expandable: n % 2 == 1,
        stack: StackId::NONE,
        blocks: (0..64).map(|at| block(((n + 1) << 40) + 512 * at)).collect(),
    };
    let segments = (0..(count as u64 / 64).min(1 << 13)).map(segment).collect();
    let base = trace_format::BaseState { segments, ..Default::default() };
    let mut all = chunks::take_apart(tape);
    let base = chunks::base(0, &base);
    for device in 0..3 {
        all.insert(1, chunks::Chunk { device, ..base.clone() });
    }
    chunks::put_together(&all)
}

/// A snapshot that repeats something.
fn snapshot(rng: &mut Rng, count: usize) -> Vec<u8> {
    let what = rng.roll(6);
    let mut events = Vec::new();
    let mut segments = Vec::new();
    for at in 0..count {
        let addr = (at as u64 + 1) << 21;
        let event = |action: &str, addr: u64, size: u64| -> Value {
            json!({"action": action, "addr": addr, "size": size, "stream": 0})
        };
        match what {
            0 => events.push(event("alloc", addr, 512)),
            1 => {
                events
                    .extend([event("alloc", 1 << 21, 512), event("free_requested", 1 << 21, 512)]);
            }
            2 => events.push(event("segment_map", addr, 2 << 20)),
            3 => {
                let segment = event("segment_alloc", addr, 2 << 20);
                events.extend([segment, event("alloc", addr, 512), event("oom", 0, 1 << 40)]);
            }
            4 => segments.push(json!({
                "device": at % 1024,
                "address": addr,
                "total_size": 2 << 20,
                "stream": at,
                "is_expandable": at % 2 == 0,
                "segment_pool_id": [0, 0],
                "blocks": [{"size": 2 << 20, "state": "active_allocated"}]
            })),
            _ => events.extend([
                event("segment_alloc", addr, 20 << 20),
                event("segment_free", addr, 20 << 20),
            ]),
        }
    }
    let value = json!({"segments": segments, "device_traces": [events]});
    let bytes = if rng.once_in(2) { pickle(&value) } else { value.to_string().into_bytes() };
    zst(&bytes)
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 3).expect("memory")
}

/// Little that unpacks to much.
fn bomb(rng: &mut Rng, count: usize) -> Vec<u8> {
    let count = count * 64; // Up to 128 MiB and more.
    let head = b"{\"segments\":[".to_vec();
    let bytes = match rng.roll(9) {
        0 => [head, b" ".repeat(count)].concat(),
        1 => [head, b"[],".repeat(count / 3)].concat(),
        2 => [head, b"{},".repeat(count / 3)].concat(),
        3 => [b"\x80\x04]".to_vec(), b"]".repeat(count), b".".to_vec()].concat(),
        4 => [b"\x80\x04]\x94(".to_vec(), b"h\0".repeat(count / 2), b"e.".to_vec()].concat(),
        5 => [b"\x80\x04".to_vec(), b"(".repeat(count), b".".to_vec()].concat(),
        6 => [b"id,lower,upper,size\n".to_vec(), b"a,0,1,1\n".repeat(count / 8)].concat(),
        7 => [
            b"Thread,Time,Action,Pointer,Size,Stream\n".to_vec(),
            b"0,,allocate,0x1,1,0\n".repeat(count / 20),
        ]
        .concat(),
        _ => [b"\x89VTP\r\n\x1a\n\x02\0\0\0".to_vec(), vec![0; count]].concat(),
    };
    if rng.once_in(2) {
        return zst(&bytes);
    }
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&bytes).expect("memory");
    packer.finish().expect("memory")
}

/// A log that repeats something.
fn log(rng: &mut Rng, count: usize) -> Vec<u8> {
    let mut text = String::new();
    if rng.once_in(2) {
        text.push_str("id,lower,upper,size\n");
        for at in 0..count {
            let upper = if rng.once_in(2) { at + 1 } else { count + 1 };
            let _ = writeln!(text, "{at},{at},{upper},4096");
        }
    } else {
        text.push_str("Thread,Time,Action,Pointer,Size,Stream\n");
        for at in 0..count {
            let _ = writeln!(text, "1,10:00:00.1,allocate,{:#x},512,{}", at + 1, at % 3);
        }
    }
    zst(text.as_bytes())
}
