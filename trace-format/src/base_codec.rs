//! The payload of a base chunk.

use crate::{
    Addr, BaseState, BlockState, BlockStatus, PoolId, PoolState, ScopeState, SegmentState, StackId,
    Stream,
    event_codec::{filter_code, filter_of},
    layout::JSON_MAX_BYTES,
    varint::{Cursor, Malformed, put, put_bytes, unzigzag, zigzag},
};

/// Flag bits of a segment.
const LARGE: u8 = 1;
const EXPANDABLE: u8 = 2;
/// Flag bits of a pool.
const OWN_SOURCE: u8 = 1;
const USE_ON_OOM: u8 = 2;
const NO_SPLIT: u8 = 4;

/// Statistics are JSON, or empty.
pub(crate) fn check_stats(stats: &str) -> Result<(), serde_json::Error> {
    if stats.is_empty() {
        return Ok(());
    }
    serde_json::from_str::<serde::de::IgnoredAny>(stats).map(|_| ())
}

/// Appends the payload to `out`. A block's address is not written, as
/// blocks tile their segment.
pub(crate) fn encode(base: &BaseState, out: &mut Vec<u8>) {
    put(out, base.time_ns);
    put_bytes(out, base.settings.as_bytes());
    match base.memory_fraction {
        None => out.push(0),
        Some(fraction) => {
            out.push(1);
            out.extend_from_slice(&fraction.to_le_bytes());
        }
    }
    put_bytes(out, base.stats.as_bytes());
    put(out, base.pools.len() as u64);
    for pool in &base.pools {
        put_pool(out, pool.pool);
        put(out, pool.use_count.into());
        let own_source = if pool.own_source { OWN_SOURCE } else { 0 };
        let use_on_oom = if pool.use_on_oom { USE_ON_OOM } else { 0 };
        let no_split = if pool.no_split { NO_SPLIT } else { 0 };
        out.push(own_source | use_on_oom | no_split);
    }
    put(out, base.scopes.len() as u64);
    for scope in &base.scopes {
        put_pool(out, scope.pool);
        out.push(filter_code(scope.filter));
    }
    put(out, base.captures.len() as u64);
    for pool in &base.captures {
        put_pool(out, *pool);
    }
    put(out, base.segments.len() as u64);
    let mut last = 0;
    for segment in &base.segments {
        put(out, zigzag(segment.addr.0.wrapping_sub(last)));
        last = segment.addr.0;
        encode_segment(segment, out);
    }
}

fn encode_segment(segment: &SegmentState, out: &mut Vec<u8>) {
    put(out, segment.size_bytes);
    put(out, segment.stream.0);
    put_pool(out, segment.pool);
    let large = if segment.is_large { LARGE } else { 0 };
    out.push(large | if segment.is_expandable { EXPANDABLE } else { 0 });
    put(out, segment.stack.0.into());
    put(out, segment.blocks.len() as u64);
    for block in &segment.blocks {
        put(out, block.size_bytes);
        put(out, block.requested_bytes);
        out.push(match block.status {
            BlockStatus::Inactive => 0,
            BlockStatus::Allocated => 1,
            BlockStatus::PendingFree => 2,
        });
        put(out, block.stack.0.into());
    }
}

fn put_pool(out: &mut Vec<u8>, pool: PoolId) {
    put(out, pool.0);
    put(out, pool.1);
}

/// The state in a payload; stacks may be at most `stacks`.
pub(crate) fn decode(payload: &[u8], stacks: u32) -> Result<BaseState, Malformed> {
    let mut cursor = Cursor::new(payload);
    let mut base = BaseState { time_ns: cursor.u64()?, ..BaseState::default() };
    cursor.str()?.clone_into(&mut base.settings);
    if cursor.bool()? {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(cursor.take(8)?);
        base.memory_fraction = Some(f64::from_le_bytes(bytes));
    }
    let stats = cursor.str()?;
    if stats.len() > JSON_MAX_BYTES {
        return Err(Malformed::Range);
    }
    check_stats(stats).map_err(|_| Malformed::Text)?;
    stats.clone_into(&mut base.stats);
    for _ in 0..cursor.count()? {
        base.pools.push(pool_state(&mut cursor)?);
    }
    for _ in 0..cursor.count()? {
        let pool = pool(&mut cursor)?;
        base.scopes.push(ScopeState { pool, filter: filter_of(cursor.byte()?)? });
    }
    for _ in 0..cursor.count()? {
        base.captures.push(pool(&mut cursor)?);
    }
    let mut last = 0u64;
    for _ in 0..cursor.count()? {
        last = last.wrapping_add(unzigzag(cursor.u64()?));
        base.segments.push(decode_segment(&mut cursor, Addr(last), stacks)?);
    }
    cursor.end()?;
    Ok(base)
}

fn pool_state(cursor: &mut Cursor) -> Result<PoolState, Malformed> {
    let pool = pool(cursor)?;
    let use_count = cursor.u32()?;
    let flags = cursor.byte()?;
    if flags > (OWN_SOURCE | USE_ON_OOM | NO_SPLIT) {
        return Err(Malformed::Code);
    }
    Ok(PoolState {
        pool,
        use_count,
        own_source: flags & OWN_SOURCE != 0,
        use_on_oom: flags & USE_ON_OOM != 0,
        no_split: flags & NO_SPLIT != 0,
    })
}

fn decode_segment(cursor: &mut Cursor, addr: Addr, stacks: u32) -> Result<SegmentState, Malformed> {
    let size_bytes = cursor.u64()?;
    let stream = Stream(cursor.u64()?);
    let pool = pool(cursor)?;
    let flags = cursor.byte()?;
    if flags > (LARGE | EXPANDABLE) {
        return Err(Malformed::Code);
    }
    let stack = stack(cursor, stacks)?;
    let mut blocks = Vec::new();
    let mut at = addr;
    for _ in 0..cursor.count()? {
        let block = decode_block(cursor, at, stacks)?;
        at = Addr(at.0.checked_add(block.size_bytes).ok_or(Malformed::Range)?);
        blocks.push(block);
    }
    Ok(SegmentState {
        addr,
        size_bytes,
        stream,
        pool,
        is_large: flags & LARGE != 0,
        is_expandable: flags & EXPANDABLE != 0,
        stack,
        blocks,
    })
}

fn decode_block(cursor: &mut Cursor, addr: Addr, stacks: u32) -> Result<BlockState, Malformed> {
    let size_bytes = cursor.u64()?;
    let requested_bytes = cursor.u64()?;
    let status = match cursor.byte()? {
        0 => BlockStatus::Inactive,
        1 => BlockStatus::Allocated,
        2 => BlockStatus::PendingFree,
        _ => return Err(Malformed::Code),
    };
    Ok(BlockState { addr, size_bytes, requested_bytes, status, stack: stack(cursor, stacks)? })
}

fn pool(cursor: &mut Cursor) -> Result<PoolId, Malformed> {
    Ok(PoolId(cursor.u64()?, cursor.u64()?))
}

fn stack(cursor: &mut Cursor, stacks: u32) -> Result<StackId, Malformed> {
    let id = cursor.u32()?;
    if id > stacks { Err(Malformed::Reference) } else { Ok(StackId(id)) }
}
