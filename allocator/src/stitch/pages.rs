//! The physical pages of a heap: their handles, their homes, and where else they are mapped.

use alloc::vec::Vec;

use core::num::NonZeroU32;
use core::ops::Range;

use events::{Addr, PageNumber};

use super::PAGE_BYTES;
use crate::ids::RangeId;
use device::{PhysicalHandle, ShareableHandle};

/// A page's place in the table. Not zero, so that `Option<PageId>` is as small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageId(NonZeroU32);

impl PageId {
    /// Its number on a tape.
    pub(crate) const fn number(self) -> PageNumber {
        PageNumber(self.0.get() - 1)
    }

    fn new(at: usize) -> Self {
        let id = u32::try_from(at + 1).ok().and_then(NonZeroU32::new);
        Self(id.expect("fewer than 2^32 pages"))
    }

    #[inline]
    const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A slot of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SlotRef {
    pub(crate) run: RangeId,
    pub(crate) slot: usize,
}

impl SlotRef {
    /// Whether another slot is the next of the same run.
    #[inline]
    pub(crate) fn is_before(&self, next: &Self) -> bool {
        self.plus(1) == *next
    }

    /// The slot so many further on.
    #[inline]
    pub(crate) const fn plus(&self, count: usize) -> Self {
        Self { run: self.run, slot: self.slot + count }
    }
}

/// Addresses that may serve a request: a free block, or the ghost of a wholly free page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) run: RangeId,
    pub(crate) addr: Addr,
    pub(crate) end: Addr,
    /// The page, where it is a ghost.
    pub(crate) ghost: Option<PageId>,
}

impl Span {
    pub(crate) const fn home(run: RangeId, addr: Addr, end: Addr) -> Self {
        Self { run, addr, end, ghost: None }
    }

    pub(crate) const fn ghost(run: RangeId, addr: Addr, page: PageId) -> Self {
        Self { run, addr, end: Addr(addr.0 + PAGE_BYTES), ghost: Some(page) }
    }
}

/// The home of the last bytes of a page whose first bytes have another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) at: SlotRef,
    /// Where they begin in the page.
    pub(crate) cut: u64,
}

/// One physical page.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) handle: PhysicalHandle,
    /// The slot whose bytes are in the heap's blocks; `None` while the page is being mapped, or given back.
    pub(crate) home: Option<SlotRef>,
    /// The home of its last bytes, where that is another one.
    pub(crate) tail: Option<Tail>,
    /// Every slot where it is mapped, its home included.
    pub(crate) slots: Vec<SlotRef>,
    /// The handle that other processes were given of it.
    pub(crate) shared: Option<ShareableHandle>,
}

/// All pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    table: Vec<Option<Page>>,
    vacant: Vec<PageId>,
    /// Pages without a mapping that the device did not take back: the next that are needed.
    pub(crate) spare: Vec<PageId>,
    /// Slots at which a page is mapped.
    pub(crate) mapped_slots: usize,
    /// Pages with two homes.
    pub(crate) parted: Vec<PageId>,
    /// Whether a page had two homes at any time: places that were remembered may need edges.
    pub(crate) takes_edges: bool,
}

impl Page {
    /// Whether some bytes of the page have their home at a slot, and others elsewhere.
    #[inline]
    pub(crate) fn has_part_at(&self, at: SlotRef) -> bool {
        self.tail.is_some_and(|tail| tail.at == at || self.home == Some(at))
    }

    /// The bytes of the page that have their home at a slot.
    pub(crate) fn bytes_at(&self, at: SlotRef) -> Range<u64> {
        match self.tail {
            Some(tail) if tail.at == at => tail.cut..PAGE_BYTES,
            tail if self.home == Some(at) => 0..tail.map_or(PAGE_BYTES, |tail| tail.cut),
            _ => 0..0,
        }
    }
}

impl Pages {
    /// Pages that exist.
    pub(crate) fn len(&self) -> usize {
        self.table.len() - self.vacant.len()
    }

    pub(crate) fn insert(&mut self, handle: PhysicalHandle) -> PageId {
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.table.push(None);
            PageId::new(self.table.len() - 1)
        });
        let (slots, shared) = (Vec::new(), None);
        self.table[id.index()] = Some(Page { handle, home: None, tail: None, slots, shared });
        id
    }

    /// Forgets a page that the device took back.
    pub(crate) fn remove(&mut self, id: PageId) {
        let page = self.table[id.index()].take().expect("a page ends once");
        assert!(page.slots.is_empty(), "a page that ends is mapped nowhere");
        self.vacant.push(id);
    }

    /// Gives the first or the last bytes of a page a home of their own. Returns the one that they had.
    pub(crate) fn part(&mut self, id: PageId, to: SlotRef, bytes: &Range<u64>) -> SlotRef {
        let page = &mut self[id];
        let from = page.home.expect("a page in use has a home");
        page.tail = if bytes.start > 0 {
            Some(Tail { at: to, cut: bytes.start })
        } else {
            page.home = Some(to);
            Some(Tail { at: from, cut: bytes.end })
        };
        self.parted.push(id);
        self.takes_edges = true;
        from
    }

    /// Notes that a page is mapped at one more slot.
    pub(crate) fn add_mapping(&mut self, id: PageId, at: SlotRef) {
        self[id].slots.push(at);
        self.mapped_slots += 1;
    }

    /// Notes that a page is no longer mapped at a slot.
    pub(crate) fn remove_mapping(&mut self, id: PageId, at: SlotRef) {
        let slots = &mut self[id].slots;
        let place = slots.iter().position(|slot| *slot == at).expect("a mapping ends once");
        slots.swap_remove(place);
        self.mapped_slots -= 1;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PageId, &Page)> {
        let pages = self.table.iter().enumerate();
        pages.filter_map(|(at, page)| Some((PageId::new(at), page.as_ref()?)))
    }
}

/// Bytes at an end of a page that get a home of their own.
#[derive(Clone, Debug)]
pub(crate) struct EdgeMove {
    pub(crate) page: PageId,
    pub(crate) to: SlotRef,
    /// In the page: its first bytes or its last.
    pub(crate) bytes: Range<u64>,
}

/// Ghosts that become homes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    /// Of wholly free pages.
    pub(crate) pages: Vec<(PageId, SlotRef)>,
    /// Of free bytes of pages in use.
    pub(crate) edges: Vec<EdgeMove>,
}

impl Moves {
    pub(crate) fn clear(&mut self) {
        self.pages.clear();
        self.edges.clear();
    }
}

/// A set of pages that is emptied at no cost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    marks: Vec<u64>,
    now: u64,
}

impl Marks {
    /// Empties the set.
    pub(crate) fn clear(&mut self) {
        self.now += 1;
    }

    /// Enters a page; false if it was in the set.
    #[inline]
    pub(crate) fn insert(&mut self, page: PageId) -> bool {
        if self.marks.len() <= page.index() {
            self.marks.resize(page.index() + 1, 0);
        }
        core::mem::replace(&mut self.marks[page.index()], self.now) != self.now
    }

    /// Whether a page is in the set.
    #[inline]
    pub(crate) fn contains(&self, page: PageId) -> bool {
        self.marks.get(page.index()) == Some(&self.now)
    }
}

impl core::ops::Index<PageId> for Pages {
    type Output = Page;

    #[inline]
    fn index(&self, id: PageId) -> &Page {
        self.table[id.index()].as_ref().expect("a page exists")
    }
}

impl core::ops::IndexMut<PageId> for Pages {
    #[inline]
    fn index_mut(&mut self, id: PageId) -> &mut Page {
        self.table[id.index()].as_mut().expect("a page exists")
    }
}
