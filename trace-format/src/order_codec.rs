//! The payload of an order chunk.

use crate::{
    Addr, BaseOrder, PoolId, RangeState, Stream,
    varint::{Cursor, Malformed, put, unzigzag, zigzag},
};

/// Appends the payload to `out`. Addresses are differences to the one before in the same list.
pub(crate) fn encode(order: &BaseOrder, out: &mut Vec<u8>) {
    put_addrs(out, &order.begun);
    put(out, order.ranges.len() as u64);
    let mut last = 0;
    for range in &order.ranges {
        put_addr(out, range.addr, &mut last);
        put(out, range.page_bytes);
        put(out, range.stream.0);
        put_pool(out, range.pool);
        out.push(u8::from(range.is_large));
    }
    put(out, order.ages.len() as u64);
    last = 0;
    for (addr, age) in &order.ages {
        put_addr(out, *addr, &mut last);
        put(out, (*age).into());
    }
    put_addrs(out, &order.pending);
    for pools in [&order.released_pools, &order.lending_pools, &order.unsplit_pools] {
        put(out, pools.len() as u64);
        for pool in pools {
            put_pool(out, *pool);
        }
    }
}

fn put_addrs(out: &mut Vec<u8>, addrs: &[Addr]) {
    put(out, addrs.len() as u64);
    let mut last = 0;
    for addr in addrs {
        put_addr(out, *addr, &mut last);
    }
}

fn put_addr(out: &mut Vec<u8>, addr: Addr, last: &mut u64) {
    put(out, zigzag(addr.0.wrapping_sub(*last)));
    *last = addr.0;
}

fn put_pool(out: &mut Vec<u8>, pool: PoolId) {
    put(out, pool.0);
    put(out, pool.1);
}

/// The order in a payload. Fields that a later version appends are ignored.
pub(crate) fn decode(payload: &[u8]) -> Result<BaseOrder, Malformed> {
    let mut cursor = Cursor::new(payload);
    let mut order = BaseOrder { begun: addrs(&mut cursor)?, ..BaseOrder::default() };
    let mut last = 0;
    for _ in 0..cursor.count()? {
        order.ranges.push(RangeState {
            addr: addr(&mut cursor, &mut last)?,
            page_bytes: cursor.u64()?,
            stream: Stream(cursor.u64()?),
            pool: pool(&mut cursor)?,
            is_large: cursor.bool()?,
        });
    }
    last = 0;
    for _ in 0..cursor.count()? {
        let addr = addr(&mut cursor, &mut last)?;
        order.ages.push((addr, cursor.u32()?));
    }
    order.pending = addrs(&mut cursor)?;
    let BaseOrder { released_pools, lending_pools, unsplit_pools, .. } = &mut order;
    for pools in [released_pools, lending_pools, unsplit_pools] {
        for _ in 0..cursor.count()? {
            pools.push(pool(&mut cursor)?);
        }
    }
    Ok(order)
}

fn addrs(cursor: &mut Cursor) -> Result<Vec<Addr>, Malformed> {
    let mut last = 0;
    (0..cursor.count()?).map(|_| addr(cursor, &mut last)).collect()
}

fn addr(cursor: &mut Cursor, last: &mut u64) -> Result<Addr, Malformed> {
    *last = last.wrapping_add(unzigzag(cursor.u64()?));
    Ok(Addr(*last))
}

fn pool(cursor: &mut Cursor) -> Result<PoolId, Malformed> {
    Ok(PoolId(cursor.u64()?, cursor.u64()?))
}
