//! Whether the pages of `stitch` are used as its invariants allow, by the events alone.
//!
//! [`State`](crate::State) follows addresses, and an allocator knows its own lists. This follows physical bytes: it
//! shares no code with either, so that it also judges what a tape from a GPU shows.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;

use crate::base::BaseState;
use crate::event::Event;
use crate::ids::{Addr, PageNumber, Stream};
use crate::segment::BlockStatus;

/// The most places in which the bytes of a page have their home: its two ends may be apart.
const HOMES_MAX: usize = 2;

/// A use of pages that no invariant of `stitch` allows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageViolation {
    /// Memory is in use where no page is mapped.
    #[error("no page is mapped at {addr}, which is in use")]
    NotMapped {
        /// Where.
        addr: Addr,
    },
    /// Another page is mapped there, or none.
    #[error("page {page} cannot be mapped or unmapped at {addr}: {found:?} is mapped there")]
    OtherPage {
        /// Where.
        addr: Addr,
        /// The event's page.
        page: PageNumber,
        /// The page that is mapped there.
        found: Option<PageNumber>,
    },
    /// A block has bytes that have their home at another address, so that another block may have them too.
    #[error("the block at {block} uses bytes of page {page} that have their home elsewhere")]
    NotHome {
        /// The block.
        block: Addr,
        /// The page.
        page: PageNumber,
    },
    /// Two live blocks overlap.
    #[error("the live blocks at {block} and {other} overlap")]
    Overlap {
        /// A block.
        block: Addr,
        /// One that overlaps it.
        other: Addr,
    },
    /// A home or a mapping ended under a live block.
    #[error("the memory at {addr} went away under the live block at {block}")]
    InUse {
        /// Where the range begins.
        addr: Addr,
        /// The block.
        block: Addr,
    },
    /// A page has a byte without a home, or one with two.
    #[error("page {page} has its homes at other bytes than its own, each once")]
    Homes {
        /// The page.
        page: PageNumber,
    },
    /// A page serves two streams at once.
    #[error("page {page} serves two streams at once")]
    Streams {
        /// The page.
        page: PageNumber,
    },
}

type Result<T = ()> = core::result::Result<T, PageViolation>;

/// Bytes of a page that are offered at one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Home {
    slot: Addr,
    bytes: Range<u64>,
    stream: Stream,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Page {
    mappings: u64,
    homes: Vec<Home>,
}

/// The pages of the default pool, and the live blocks in them.
#[derive(Clone, Debug, Default)]
pub struct PageAudit {
    /// The page at each address where one is mapped.
    mapped: BTreeMap<Addr, PageNumber>,
    pages: BTreeMap<PageNumber, Page>,
    /// Segments of `cudaMalloc`: their blocks have no pages.
    segments: BTreeMap<Addr, u64>,
    /// Live blocks with their sizes, until their free completes.
    blocks: BTreeMap<Addr, u64>,
    /// Pages whose homes changed: each call leaves them whole.
    changed: BTreeSet<PageNumber>,
    /// Whether records are missing.
    has_lost: bool,
}

impl PageAudit {
    /// The audit of a run that begins with this memory.
    ///
    /// # Errors
    /// Where it is not as the invariants demand.
    pub fn new(base: &BaseState) -> Result<Self> {
        let mut audit = Self::default();
        for &(addr, page) in &base.pages {
            audit.map(addr, page)?;
        }
        let segments = || base.segments.iter().filter(|segment| segment.pool.is_default());
        for segment in segments() {
            if segment.is_expandable {
                audit.add_home(segment.addr, segment.size_bytes, segment.stream)?;
            } else {
                audit.segments.insert(segment.addr, segment.size_bytes);
            }
        }
        let blocks = segments().flat_map(|segment| &segment.blocks);
        for block in blocks.filter(|block| block.status != BlockStatus::Inactive) {
            audit.take(block.addr, block.size_bytes)?;
        }
        audit.end_call()?;
        Ok(audit)
    }

    /// Follows one event. Nothing is judged once records are missing.
    ///
    /// # Errors
    /// Where it breaks an invariant, or where the call before it left one broken.
    pub fn follow(&mut self, event: &Event) -> Result {
        if self.has_lost {
            return Ok(());
        }
        match *event {
            Event::PageMap { addr, page } => self.map(addr, page),
            Event::PageUnmap { addr, page } => self.unmap(addr, page),
            Event::SegmentMap { addr, size_bytes, stream, pool, .. } if pool.is_default() => {
                self.add_home(addr, size_bytes, stream)
            }
            Event::SegmentUnmap { addr, size_bytes, pool, .. } if pool.is_default() => {
                self.end_home(addr, size_bytes)
            }
            Event::SegmentAlloc { addr, size_bytes, .. } => {
                self.segments.insert(addr, size_bytes);
                Ok(())
            }
            Event::SegmentFree { addr, .. } => {
                self.segments.remove(&addr);
                Ok(())
            }
            Event::SegmentMap { .. } | Event::SegmentUnmap { .. } | Event::DriverRefused { .. } => {
                Ok(())
            }
            Event::Alloc { addr, size_bytes, pool, .. } if pool.is_default() => {
                self.end_call()?;
                self.take(addr, size_bytes)
            }
            Event::Free { addr, pending: false, .. } | Event::FreeCompleted { addr, .. } => {
                self.end_call()?;
                self.blocks.remove(&addr);
                Ok(())
            }
            Event::Lost { .. } => {
                self.has_lost = true;
                Ok(())
            }
            _ => self.end_call(),
        }
    }

    /// Ends a call: the pages that it changed are whole.
    ///
    /// # Errors
    /// Where one is not.
    pub fn end_call(&mut self) -> Result {
        while let Some(page) = self.changed.pop_first() {
            let Some(Page { mappings, homes }) = self.pages.get_mut(&page) else { continue };
            homes.sort_unstable_by_key(|home| home.bytes.start);
            let ends = homes.iter().map(|home| home.bytes.end);
            let begins = homes.iter().map(|home| home.bytes.start);
            let is_whole = [0].into_iter().chain(ends).eq(begins.chain([PageNumber::PAGE_BYTES]));
            // Without a home: it waits until the driver takes it back.
            if !(is_whole && homes.len() <= HOMES_MAX || homes.is_empty()) {
                return Err(PageViolation::Homes { page });
            }
            if homes.iter().any(|home| home.stream != homes[0].stream) {
                return Err(PageViolation::Streams { page });
            }
            if *mappings == 0 {
                self.pages.remove(&page);
            }
        }
        Ok(())
    }

    /// The pages with a home: the memory that `stitch` reserves.
    pub fn homes(&self) -> usize {
        self.pages.values().filter(|page| !page.homes.is_empty()).count()
    }

    /// Pages that are mapped and have no home: the driver refused to take them back.
    pub fn homeless(&self) -> usize {
        self.pages.len() - self.homes()
    }

    fn map(&mut self, addr: Addr, page: PageNumber) -> Result {
        if let Some(found) = self.mapped.insert(addr, page) {
            return Err(PageViolation::OtherPage { addr, page, found: Some(found) });
        }
        self.pages.entry(page).or_default().mappings += 1;
        self.changed.insert(page);
        Ok(())
    }

    fn unmap(&mut self, addr: Addr, page: PageNumber) -> Result {
        let found = self.mapped.remove(&addr);
        let known = self.pages.get_mut(&page).filter(|_| found == Some(page));
        let Some(known) = known else { return Err(PageViolation::OtherPage { addr, page, found }) };
        known.mappings -= 1;
        self.changed.insert(page);
        if known.homes.iter().any(|home| home.slot == addr) {
            return Err(PageViolation::NotMapped { addr });
        }
        Ok(())
    }

    fn add_home(&mut self, addr: Addr, size_bytes: u64, stream: Stream) -> Result {
        for (slot, bytes) in slots_of(addr, size_bytes) {
            let page = self.page_at(slot)?;
            self.changed.insert(page);
            let homes = &mut self.pages.entry(page).or_default().homes;
            let mut beside = homes.iter_mut().filter(|home| home.slot == slot);
            match beside.find(|home| home.bytes.end == bytes.start || bytes.end == home.bytes.start)
            {
                Some(home) if home.stream == stream => {
                    home.bytes.start = home.bytes.start.min(bytes.start);
                    home.bytes.end = home.bytes.end.max(bytes.end);
                }
                _ => homes.push(Home { slot, bytes, stream }),
            }
        }
        Ok(())
    }

    fn end_home(&mut self, addr: Addr, size_bytes: u64) -> Result {
        if let Some(block) = self.block_in(addr, size_bytes) {
            return Err(PageViolation::InUse { addr, block });
        }
        for (slot, bytes) in slots_of(addr, size_bytes) {
            let page = self.page_at(slot)?;
            self.changed.insert(page);
            let homes = &mut self.pages.entry(page).or_default().homes;
            let is_around = |home: &Home| {
                home.slot == slot && home.bytes.start <= bytes.start && bytes.end <= home.bytes.end
            };
            let at = homes.iter().position(is_around).ok_or(PageViolation::Homes { page })?;
            let home = homes.swap_remove(at);
            for rest in [home.bytes.start..bytes.start, bytes.end..home.bytes.end] {
                if !rest.is_empty() {
                    homes.push(Home { bytes: rest, ..home.clone() });
                }
            }
        }
        Ok(())
    }

    /// A block begins to live: each of its bytes has its home there, and it overlaps no other block.
    fn take(&mut self, block: Addr, size_bytes: u64) -> Result {
        let segment = self.segments.range(..=block).next_back();
        if segment.is_some_and(|(addr, size_bytes)| block.0 - addr.0 < *size_bytes) {
            return Ok(());
        }
        if let Some(other) = self.block_in(block, size_bytes) {
            return Err(PageViolation::Overlap { block, other });
        }
        for (slot, bytes) in slots_of(block, size_bytes) {
            let page = self.page_at(slot)?;
            let is_around = |home: &Home| {
                home.slot == slot && home.bytes.start <= bytes.start && bytes.end <= home.bytes.end
            };
            if !self.pages.get(&page).is_some_and(|page| page.homes.iter().any(is_around)) {
                return Err(PageViolation::NotHome { block, page });
            }
        }
        self.blocks.insert(block, size_bytes);
        Ok(())
    }

    /// A live block that shares an address with this range.
    fn block_in(&self, addr: Addr, size_bytes: u64) -> Option<Addr> {
        let end = Addr(addr.0.saturating_add(size_bytes));
        let (block, bytes) = self.blocks.range(..end).next_back()?;
        (block.0.saturating_add(*bytes) > addr.0).then_some(*block)
    }

    fn page_at(&self, slot: Addr) -> Result<PageNumber> {
        self.mapped.get(&slot).copied().ok_or(PageViolation::NotMapped { addr: slot })
    }
}

/// The addresses of pages that a range touches, and which bytes of each.
fn slots_of(addr: Addr, size_bytes: u64) -> impl Iterator<Item = (Addr, Range<u64>)> {
    const PAGE_BYTES: u64 = PageNumber::PAGE_BYTES;
    let end = addr.0.saturating_add(size_bytes);
    (addr.0 / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).map(move |slot| {
        let start = slot * PAGE_BYTES;
        (Addr(start), addr.0.saturating_sub(start)..(end - start).min(PAGE_BYTES))
    })
}

#[cfg(test)]
mod tests {
    use crate::ids::{PoolId, StackId};
    use crate::segment::SegmentState;

    use super::*;

    const MIB: u64 = 1 << 20;
    const PAGE: PageNumber = PageNumber(7);

    fn map(mib: u64, page: PageNumber) -> Event {
        Event::PageMap { addr: Addr(mib * MIB), page }
    }

    fn unmap(mib: u64, page: PageNumber) -> Event {
        Event::PageUnmap { addr: Addr(mib * MIB), page }
    }

    fn home_on(stream: u64, mib: u64, size_mib: u64) -> Event {
        let (addr, size_bytes, stream) = (Addr(mib * MIB), size_mib * MIB, Stream(stream));
        Event::SegmentMap { addr, size_bytes, stream, pool: PoolId::DEFAULT, is_large: true }
    }

    fn home(mib: u64, size_mib: u64) -> Event {
        home_on(0, mib, size_mib)
    }

    fn end_home(mib: u64, size_mib: u64) -> Event {
        let (addr, size_bytes, stream) = (Addr(mib * MIB), size_mib * MIB, Stream(0));
        Event::SegmentUnmap { addr, size_bytes, stream, pool: PoolId::DEFAULT, is_large: true }
    }

    fn alloc(mib: u64, size_mib: u64) -> Event {
        let (addr, size_bytes, stream) = (Addr(mib * MIB), size_mib * MIB, Stream(0));
        let requested_bytes = size_bytes;
        Event::Alloc { addr, requested_bytes, size_bytes, stream, pool: PoolId::DEFAULT }
    }

    fn free(mib: u64, size_mib: u64) -> Event {
        let (addr, size_bytes) = (Addr(mib * MIB), size_mib * MIB);
        Event::Free { addr, requested_bytes: size_bytes, size_bytes, pending: false }
    }

    fn audited(events: &[Event]) -> Result<PageAudit> {
        let mut audit = PageAudit::default();
        events.iter().try_for_each(|event| audit.follow(event))?;
        audit.end_call()?;
        Ok(audit)
    }

    #[test]
    fn a_page_whose_home_moves_while_it_is_free_is_as_it_should_be() {
        let events = [
            map(2, PAGE),
            home(2, 2),
            alloc(2, 1),
            free(2, 1),
            map(8, PAGE),
            end_home(2, 2),
            home(8, 2),
            alloc(8, 2),
            unmap(2, PAGE),
        ];
        let audit = audited(&events).expect("no violation");
        assert_eq!((audit.homes(), audit.homeless()), (1, 0));
    }

    #[test]
    fn the_ends_of_a_page_may_have_their_homes_apart() {
        let two = [map(2, PAGE), home(2, 2), alloc(2, 1), map(8, PAGE), end_home(3, 1), home(9, 1)];
        let audit = audited(&[&two[..], &[alloc(9, 1)]].concat()).expect("no violation");
        assert_eq!(audit.homes(), 1);
        let of_another = [&two[..5], &[home_on(16, 9, 1), alloc(9, 1)]].concat();
        assert_eq!(audited(&of_another).unwrap_err(), PageViolation::Streams { page: PAGE });
    }

    #[test]
    fn bytes_have_one_home_and_it_does_not_move_in_use() {
        let two_homes = [map(2, PAGE), home(2, 2), map(8, PAGE), home(8, 2), alloc(8, 1)];
        assert_eq!(audited(&two_homes).unwrap_err(), PageViolation::Homes { page: PAGE });
        let a_part = [map(2, PAGE), home(2, 1), alloc(2, 1)];
        assert_eq!(audited(&a_part).unwrap_err(), PageViolation::Homes { page: PAGE });
        let in_use = [map(2, PAGE), home(2, 2), alloc(3, 1), end_home(2, 2)];
        let violation = PageViolation::InUse { addr: Addr(2 * MIB), block: Addr(3 * MIB) };
        assert_eq!(audited(&in_use).unwrap_err(), violation);
    }

    #[test]
    fn blocks_lie_in_homes_that_are_mapped_and_apart() {
        let in_ghost = [map(2, PAGE), home(2, 2), map(8, PAGE), alloc(8, 1)];
        let violation = PageViolation::NotHome { block: Addr(8 * MIB), page: PAGE };
        assert_eq!(audited(&in_ghost).unwrap_err(), violation);
        let beyond = [map(2, PAGE), home(2, 2), alloc(3, 2)];
        let violation = PageViolation::NotMapped { addr: Addr(4 * MIB) };
        assert_eq!(audited(&beyond).unwrap_err(), violation);
        let overlap = [map(2, PAGE), home(2, 2), alloc(3, 1), alloc(2, 2)];
        let violation = PageViolation::Overlap { block: Addr(2 * MIB), other: Addr(3 * MIB) };
        assert_eq!(audited(&overlap).unwrap_err(), violation);
        let gone = [map(2, PAGE), home(2, 2), unmap(2, PAGE)];
        let violation = PageViolation::NotMapped { addr: Addr(2 * MIB) };
        assert_eq!(audited(&gone).unwrap_err(), violation);
        let other = [map(2, PAGE), unmap(2, PageNumber(8))];
        assert!(matches!(audited(&other).unwrap_err(), PageViolation::OtherPage { .. }));
    }

    #[test]
    fn a_start_has_whole_pages() {
        let pages = Vec::from([(Addr(2 * MIB), PAGE)]);
        let start = |size_bytes| {
            let segment = SegmentState {
                addr: Addr(2 * MIB),
                size_bytes,
                stream: Stream(0),
                pool: PoolId::DEFAULT,
                is_large: true,
                is_expandable: true,
                stack: StackId::NONE,
                blocks: Vec::new(),
            };
            let segments = Vec::from([segment]);
            let base = BaseState { segments, pages: pages.clone(), ..BaseState::default() };
            PageAudit::new(&base).map(|audit| audit.homes())
        };
        assert_eq!(start(2 * MIB), Ok(1));
        assert_eq!(start(MIB), Err(PageViolation::Homes { page: PAGE }));
    }

    #[test]
    fn nothing_is_judged_after_a_loss() {
        assert!(audited(&[Event::Lost { count: 1 }, alloc(2, 1)]).is_ok());
    }
}
