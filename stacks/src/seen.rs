//! Which stacks were seen before, found without a lock.
//!
//! Tables of growing size; the newest holds everything. One thread at a time adds, with the lock; readers look into the
//! newest table and at worst miss what is just being added, which the adder then finds.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use trace_format::StackId;

use crate::fingerprint::Fingerprint;

/// Slots of the first table, as a power of two.
const FIRST_BITS: u32 = 10;
/// The largest has 2^20 slots, 16 MiB: half a million stacks.
const TABLES: usize = 11;

/// Fingerprint to number.
#[derive(Debug)]
pub(crate) struct Seen {
    tables: [OnceLock<Box<[Slot]>>; TABLES],
    newest: AtomicUsize,
    len: Mutex<usize>,
}

/// Empty while the hash is 0. The hash is written last.
#[derive(Debug, Default)]
struct Slot {
    hash: AtomicU64,
    /// The fingerprint's other bits, and the number.
    check_and_id: AtomicU64,
}

impl Seen {
    pub(crate) fn new() -> Self {
        let seen = Self {
            tables: [const { OnceLock::new() }; TABLES],
            newest: AtomicUsize::new(0),
            len: Mutex::new(0),
        };
        let _ = seen.table(0);
        seen
    }

    /// The stack's number, if it was seen before.
    #[inline]
    pub(crate) fn get(&self, print: Fingerprint) -> Option<StackId> {
        let table = self.tables[self.newest.load(Ordering::Acquire)].get()?;
        find(table, print).ok().map(StackId)
    }

    /// Remembers the stack's number; false if there is no room for it.
    pub(crate) fn insert(&self, print: Fingerprint, id: StackId) -> bool {
        let mut len = self.len.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = self.newest.load(Ordering::Relaxed);
        let mut table = self.table(newest);
        if *len >= table.len() / 2 {
            if newest + 1 == TABLES {
                return false;
            }
            let larger = self.table(newest + 1);
            for slot in table {
                let hash = slot.hash.load(Ordering::Relaxed);
                if hash != 0 {
                    put(larger, hash, slot.check_and_id.load(Ordering::Relaxed));
                }
            }
            self.newest.store(newest + 1, Ordering::Release);
            table = larger;
        }
        if find(table, print).is_err() {
            put(table, key(print), u64::from(print.check()) << 32 | u64::from(id.0));
            *len += 1;
        }
        true
    }

    fn table(&self, index: usize) -> &[Slot] {
        let make =
            || (0..1_usize << (FIRST_BITS as usize + index)).map(|_| Slot::default()).collect();
        self.tables[index].get_or_init(make)
    }

    /// Bytes in use.
    pub(crate) fn size_bytes(&self) -> usize {
        let tables = self.tables.iter().filter_map(OnceLock::get);
        tables.map(|table| size_of_val::<[Slot]>(table)).sum()
    }
}

/// The hash as a slot holds it: never 0.
#[inline]
fn key(print: Fingerprint) -> u64 {
    print.hash.max(1)
}

/// The number of a fingerprint, or the empty slot where the search ended. There always is one.
#[inline]
fn find(table: &[Slot], print: Fingerprint) -> Result<u32, usize> {
    let mask = table.len() - 1;
    let mut at = key(print) as usize & mask;
    loop {
        let slot = &table[at & mask];
        let hash = slot.hash.load(Ordering::Acquire);
        if hash == 0 {
            return Err(at & mask);
        }
        let found = slot.check_and_id.load(Ordering::Relaxed);
        if hash == key(print) && (found >> 32) as u32 == print.check() {
            return Ok(found as u32);
        }
        at += 1;
    }
}

fn put(table: &[Slot], hash: u64, check_and_id: u64) {
    let mask = table.len() - 1;
    let mut at = hash as usize & mask;
    while table[at].hash.load(Ordering::Relaxed) != 0 {
        at = (at + 1) & mask;
    }
    table[at].check_and_id.store(check_and_id, Ordering::Relaxed);
    table[at].hash.store(hash, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::CodePosition;

    fn print(n: usize) -> Fingerprint {
        let mut print = Fingerprint::EMPTY;
        print.add(CodePosition { code: n, at: 0 });
        print
    }

    #[test]
    fn entries_are_found_after_growth() {
        let seen = Seen::new();
        for n in 0..100_000 {
            assert_eq!(seen.get(print(n)), None);
            assert!(seen.insert(print(n), StackId(n as u32)));
        }
        assert!((0..100_000).all(|n| seen.get(print(n)) == Some(StackId(n as u32))));
        assert_eq!(seen.get(print(100_000)), None);
        println!("100,000 fingerprints: {} bytes", seen.size_bytes());
        assert!(seen.size_bytes() <= 8 << 20);
    }

    #[test]
    fn a_full_table_takes_no_more_and_still_answers() {
        let seen = Seen::new();
        let most = 1 << (FIRST_BITS as usize + TABLES - 2);
        assert!((0..most).all(|n| seen.insert(print(n), StackId(n as u32))));
        assert!(!seen.insert(print(most), StackId(7)));
        assert_eq!(seen.get(print(most)), None);
        assert_eq!(seen.get(print(most - 1)), Some(StackId(most as u32 - 1)));
    }

    #[test]
    fn readers_see_whole_entries_while_others_add() {
        let seen = Seen::new();
        let added = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..50_000 {
                    seen.insert(print(n), StackId(n as u32));
                    added.store(n + 1, Ordering::Release);
                }
            });
            scope.spawn(|| {
                while added.load(Ordering::Acquire) < 50_000 {
                    let until = added.load(Ordering::Acquire);
                    for n in (0..until).rev().take(100) {
                        assert_eq!(seen.get(print(n)), Some(StackId(n as u32)));
                    }
                }
            });
        });
    }
}
