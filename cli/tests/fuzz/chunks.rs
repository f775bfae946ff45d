//! The chunks of a tape taken apart and put together again, with right lengths and checksums over whatever they hold.
//!
//! Laid out here from the specification and not by the crate's own code, which would refuse to write such tapes.

use trace_format::{BaseState, BlockStatus, PoolId};

use crate::rng::Rng;

/// A chunk, unpacked.
#[derive(Clone)]
pub(crate) struct Chunk {
    pub(crate) kind: u8,
    pub(crate) device: u16,
    pub(crate) items: u32,
    pub(crate) payload: Vec<u8>,
}

pub(crate) const EVENTS: u8 = 4;
pub(crate) const BASE: u8 = 5;
const INDEX: u8 = 6;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The chunks of a whole tape, without its index.
pub(crate) fn take_apart(tape: &[u8]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut at = 16;
    while at < tape.len() {
        let header = &tape[at..at + 32];
        let stored = &tape[at + 32..at + 32 + u32_at(header, 12) as usize];
        let payload = match header[5] {
            0 => stored.to_vec(),
            _ => zstd::bulk::decompress(stored, u32_at(header, 16) as usize).expect("our own"),
        };
        let device = u16::from_le_bytes([header[6], header[7]]);
        chunks.push(Chunk { kind: header[4], device, items: u32_at(header, 20), payload });
        at += 32 + stored.len();
    }
    chunks.retain(|chunk| chunk.kind != INDEX);
    chunks
}

/// A tape of these chunks.
pub(crate) fn put_together(chunks: &[Chunk]) -> Vec<u8> {
    let mut tape = b"\x89VTP\r\n\x1a\n\x02\0\0\0".to_vec();
    tape.extend(crc32fast::hash(&tape).to_le_bytes());
    for (sequence, chunk) in (0u32..).zip(chunks) {
        let packed = zstd::bulk::compress(&chunk.payload, 1).expect("memory");
        let is_packed = packed.len() < chunk.payload.len();
        let stored = if is_packed { &packed } else { &chunk.payload };
        let start = tape.len();
        tape.extend(b"\xf5Chk");
        tape.extend([chunk.kind, u8::from(is_packed)]);
        tape.extend(chunk.device.to_le_bytes());
        let lengths = [sequence, stored.len() as u32, chunk.payload.len() as u32, chunk.items];
        for word in lengths.into_iter().chain([crc32fast::hash(stored)]) {
            tape.extend(word.to_le_bytes());
        }
        tape.extend(crc32fast::hash(&tape[start..]).to_le_bytes());
        tape.extend(stored);
    }
    tape
}

/// Changes what the chunks mean.
pub(crate) fn change(rng: &mut Rng, chunks: &mut Vec<Chunk>) {
    for _ in 0..=rng.roll(2) {
        let at = rng.roll(chunks.len());
        let other = rng.roll(chunks.len());
        match rng.roll(8) {
            0..=3 => rng.change(&mut chunks[at].payload),
            4 => chunks.swap(at, other),
            5 => chunks.insert(at, chunks[other].clone()),
            6 => chunks[at].device = rng.extreme() as u16,
            _ => chunks[at].items = rng.extreme() as u32,
        }
    }
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_pool(out: &mut Vec<u8>, pool: PoolId) {
    put(out, pool.0);
    put(out, pool.1);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend(text.as_bytes());
}

/// A base chunk of a state that need not be one.
pub(crate) fn base(device: u16, base: &BaseState) -> Chunk {
    let mut out = Vec::new();
    put(&mut out, base.time_ns);
    put_text(&mut out, &base.settings);
    out.push(base.memory_fraction.is_some().into());
    out.extend(base.memory_fraction.map(f64::to_le_bytes).into_iter().flatten());
    put_text(&mut out, "");
    put(&mut out, base.pools.len() as u64);
    for pool in &base.pools {
        put_pool(&mut out, pool.pool);
        put(&mut out, pool.use_count.into());
        out.push(
            u8::from(pool.own_source)
                | u8::from(pool.use_on_oom) << 1
                | u8::from(pool.no_split) << 2,
        );
    }
    put(&mut out, base.scopes.len() as u64);
    for scope in &base.scopes {
        put_pool(&mut out, scope.pool);
        out.push(1);
    }
    put(&mut out, base.captures.len() as u64);
    for pool in &base.captures {
        put_pool(&mut out, *pool);
    }
    put(&mut out, base.segments.len() as u64);
    let mut last = 0;
    for segment in &base.segments {
        let step = segment.addr.0.wrapping_sub(last);
        put(&mut out, step << 1 ^ (step as i64 >> 63) as u64);
        last = segment.addr.0;
        put(&mut out, segment.size_bytes);
        put(&mut out, segment.stream.0);
        put_pool(&mut out, segment.pool);
        out.push(u8::from(segment.is_large) | u8::from(segment.is_expandable) << 1);
        put(&mut out, 0);
        put(&mut out, segment.blocks.len() as u64);
        for block in &segment.blocks {
            put(&mut out, block.size_bytes);
            put(&mut out, block.requested_bytes);
            out.push(match block.status {
                BlockStatus::Inactive => 0,
                BlockStatus::Allocated => 1,
                BlockStatus::PendingFree => 2,
            });
            put(&mut out, 0);
        }
    }
    Chunk { kind: BASE, device, items: 1, payload: out }
}
