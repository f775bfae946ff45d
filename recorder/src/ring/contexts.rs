//! Who and where, by number: thread, stream and pool of a record, kept in the ring's memory for its readers.
//!
//! A hash table that only grows. A context's number is its place. When the table is full, or full around that place,
//! a new context gets no number and its records become wide: twice as many slots and more, but no loss.

use std::sync::atomic::{AtomicU64, Ordering};

use trace_format::{PoolId, Stream, ThreadId};

use super::layout::{CONTEXT_WORDS, Part};
use super::look::Look;
use super::protocol::store_all;
use super::region::Region;

/// Who recorded, and for where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) thread: ThreadId,
    pub(super) stream: Stream,
    pub(super) pool: PoolId,
}

/// Places that are looked at for one context.
const PROBES: usize = 16;
/// Bit of the first word: the place is taken.
const TAKEN: u64 = 1 << 32;

type Row = [AtomicU64; CONTEXT_WORDS];

/// The number of `wanted`, which gets one if there is room. One writer at a time.
pub(super) fn number_of(region: &Region, wanted: Context) -> Option<u16> {
    let rows = region.rows::<CONTEXT_WORDS>(Part::Contexts);
    let words = words(wanted);
    let first = hash(&words);
    for probe in 0..PROBES {
        let at = first.wrapping_add(probe) & (rows.len() - 1);
        let row = &rows[at];
        let taken = load(row);
        if taken == words {
            return u16::try_from(at).ok();
        }
        if taken[0] & TAKEN == 0 {
            // Readers come here through a record that is published later.
            store_all(row, &words);
            return u16::try_from(at).ok();
        }
    }
    None
}

/// The context behind a number that a record has; `None` in a damaged ring.
pub(super) fn get(look: &impl Look, number: u16) -> Option<Context> {
    let row = look.row::<CONTEXT_WORDS>(Part::Contexts, usize::from(number))?;
    let [thread, stream, major, minor] = row;
    let thread = ThreadId(u32::try_from(thread ^ TAKEN).ok()?);
    Some(Context { thread, stream: Stream(stream), pool: PoolId(major, minor) })
}

fn load(row: &Row) -> [u64; CONTEXT_WORDS] {
    std::array::from_fn(|word| row[word].load(Ordering::Relaxed))
}

fn words(context: Context) -> [u64; CONTEXT_WORDS] {
    let Context { thread, stream, pool } = context;
    [u64::from(thread.0) | TAKEN, stream.0, pool.0, pool.1]
}

fn hash(words: &[u64; CONTEXT_WORDS]) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed =
        words.iter().fold(0_u64, |hash, word| (hash.rotate_left(23) ^ word).wrapping_mul(ODD));
    (mixed >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::super::layout::Shape;
    use super::*;
    use crate::cast;

    fn context(n: u64) -> Context {
        Context {
            thread: ThreadId(cast::low_half(n)),
            stream: Stream(n << 40),
            pool: PoolId(n % 3, n / 3),
        }
    }

    #[test]
    fn a_context_keeps_its_number_and_a_full_table_gives_none() {
        let region = Region::anonymous(Shape::new(64, 0)).unwrap();
        let numbers: Vec<_> = (0..1_000).map(|n| number_of(&region, context(n))).collect();
        let known = numbers.iter().flatten().count();
        assert!((200..=256).contains(&known), "{known} of 256 places are taken");
        for (n, number) in (0..).zip(&numbers) {
            assert_eq!(number_of(&region, context(n)), *number);
            assert!(number.is_none_or(|number| get(&region, number) == Some(context(n))));
        }
        assert_eq!(get(&region, u16::MAX), None);
    }

    #[test]
    fn the_context_of_zeros_is_one_too() {
        let region = Region::anonymous(Shape::new(64, 0)).unwrap();
        let number = number_of(&region, Context::default()).unwrap();
        assert_eq!(get(&region, number), Some(Context::default()));
        assert_eq!(get(&region, number ^ 1), None);
    }
}
