//! The tables of segments and of pages: both of one moment, and the rows of their entries.

use events::{MappedPages, MappedRanges};
use rustc_hash::FxHashMap;
use trace_format::Addr;

use super::layout::HeaderField;
use super::look::Look;
use super::protocol::seq_lock::SeqLock;
use super::{pages, segments};

/// Around all rows of both.
pub(super) const LOCK: SeqLock = SeqLock { version_at: HeaderField::MappingsVersion as usize };

/// The content of both; `None` while they change. Of a dead process `may_be_unfinished`: the last change may be done
/// in part then, and has to be done again.
pub(super) fn read(
    look: &impl Look,
    may_be_unfinished: bool,
) -> Option<(MappedRanges, MappedPages)> {
    let rows = LOCK.read(look, may_be_unfinished, || (segments::rows(look), pages::rows(look)));
    rows.map(|(segments, pages)| (segments::ranges_of(segments), pages.into_iter().collect()))
}

/// The writer's side of a table: the row of the entry at each address. Rows beyond the table have no place in the ring.
#[derive(Debug, Default)]
pub(super) struct Rows {
    by_addr: FxHashMap<Addr, usize>,
    vacant: Vec<usize>,
    used: usize,
}

impl Rows {
    pub(super) fn get(&self, addr: Addr) -> Option<usize> {
        self.by_addr.get(&addr).copied()
    }

    /// A row for a new entry.
    pub(super) fn begin(&mut self, addr: Addr) -> usize {
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        });
        self.by_addr.insert(addr, at);
        at
    }

    /// The row of an entry that ends.
    pub(super) fn end(&mut self, addr: Addr) -> Option<usize> {
        let at = self.by_addr.remove(&addr)?;
        self.vacant.push(at);
        Some(at)
    }
}
