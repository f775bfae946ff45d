//! Where the physical pages of `stitch` are mapped.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;

use super::{Problem, StateError};
use crate::event::Event;
use crate::ids::{Addr, PageNumber};

/// The effect of an event on the mappings of pages.
#[derive(Clone, Copy, Debug)]
pub enum PageChange {
    /// The page is mapped there from here on.
    Map(Addr, PageNumber),
    /// The page is no longer mapped there.
    Unmap(Addr, PageNumber),
}

impl PageChange {
    /// `None` for events that are not about pages.
    pub const fn of(event: &Event) -> Option<Self> {
        match *event {
            Event::PageMap { addr, page } => Some(Self::Map(addr, page)),
            Event::PageUnmap { addr, page } => Some(Self::Unmap(addr, page)),
            _ => None,
        }
    }

    /// The change that takes this one back.
    pub(super) const fn reversed(self) -> Self {
        match self {
            Self::Map(addr, page) => Self::Unmap(addr, page),
            Self::Unmap(addr, page) => Self::Map(addr, page),
        }
    }
}

/// Checks that the mappings of a base state ascend by address.
///
/// # Errors
/// The first that does not.
pub fn check_pages(pages: &[(Addr, PageNumber)]) -> Result<(), StateError> {
    let found = pages.windows(2).find(|pair| pair[0].0 >= pair[1].0);
    found.map_or(Ok(()), |pair| {
        let [(_, mapped), (addr, page)] = [pair[0], pair[1]];
        let problem = Problem::PageMapped { addr, page, mapped };
        Err(StateError { event: "snapshot", undoing: false, problem })
    })
}

/// The page at each address where one is mapped; an address has one page, a page any number of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MappedPages {
    by_addr: BTreeMap<Addr, PageNumber>,
}

impl MappedPages {
    /// The mappings, ascending by address.
    pub fn iter(&self) -> impl Iterator<Item = (Addr, PageNumber)> {
        self.by_addr.iter().map(|(addr, page)| (*addr, *page))
    }

    /// Bytes of the addresses with a page: a page that is mapped twice counts twice.
    pub fn size_bytes(&self) -> u64 {
        self.by_addr.len() as u64 * PageNumber::PAGE_BYTES
    }

    /// Makes a change, whatever is mapped there.
    pub fn overwrite(&mut self, change: PageChange) {
        match change {
            PageChange::Map(addr, page) => _ = self.by_addr.insert(addr, page),
            PageChange::Unmap(addr, _) => _ = self.by_addr.remove(&addr),
        }
    }

    /// Makes a change.
    ///
    /// # Errors
    /// Where a page is mapped there already, or not the page that is unmapped.
    pub(super) fn apply(&mut self, change: PageChange) -> Result<(), Problem> {
        match change {
            PageChange::Map(addr, page) => match self.by_addr.entry(addr) {
                Entry::Vacant(entry) => _ = entry.insert(page),
                Entry::Occupied(entry) => {
                    return Err(Problem::PageMapped { addr, page, mapped: *entry.get() });
                }
            },
            PageChange::Unmap(addr, page) => match self.by_addr.entry(addr) {
                Entry::Occupied(entry) if *entry.get() == page => _ = entry.remove(),
                _ => return Err(Problem::PageNotMapped { addr, page }),
            },
        }
        Ok(())
    }
}

impl FromIterator<(Addr, PageNumber)> for MappedPages {
    fn from_iter<I: IntoIterator<Item = (Addr, PageNumber)>>(pages: I) -> Self {
        Self { by_addr: pages.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_a_base_state_ascend() {
        let page = |addr| (Addr(addr), PageNumber(7));
        assert_eq!(check_pages(&[page(1), page(2), page(5)]), Ok(()));
        assert!(check_pages(&[page(1), page(5), page(5)]).is_err());
        assert!(check_pages(&[page(5), page(1)]).is_err());
    }

    #[test]
    fn a_mapping_begins_where_there_is_none_and_ends_with_its_own_page() {
        let (addr, [one, other]) = (Addr(2 << 20), [PageNumber(1), PageNumber(2)]);
        let mut pages = MappedPages::default();
        assert_eq!(pages.apply(PageChange::Map(addr, one)), Ok(()));
        let taken = Problem::PageMapped { addr, page: other, mapped: one };
        assert_eq!(pages.apply(PageChange::Map(addr, other)), Err(taken));
        let absent = Problem::PageNotMapped { addr, page: other };
        assert_eq!(pages.apply(PageChange::Unmap(addr, other)), Err(absent));
        assert!(pages.iter().eq([(addr, one)]));
        assert_eq!(pages.apply(PageChange::Map(addr, one).reversed()), Ok(()));
        assert_eq!(pages, MappedPages::default());
    }
}
