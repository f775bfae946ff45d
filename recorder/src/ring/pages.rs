//! The table of pages: a row for each address where `stitch` has a page mapped.

use std::sync::atomic::{AtomicU64, Ordering};

use events::PageChange;
use trace_format::{Addr, PageNumber};

use super::layout::{HeaderField, PAGE_WORDS, Part};
use super::look::Look;
use super::mappings::{LOCK, Rows};
use super::region::Region;

const TAKEN: u64 = 1;

/// The writer's side.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Rows,
}

impl Table {
    /// Enters a change whose record was published.
    pub(super) fn apply(&mut self, region: &Region, change: PageChange) {
        LOCK.write(region.words(), || match change {
            PageChange::Map(addr, page) => self.set(region, addr, page),
            PageChange::Unmap(addr, _) => self.remove(region, addr),
        });
    }

    fn set(&mut self, region: &Region, addr: Addr, page: PageNumber) {
        match row(region, self.rows.begin(addr)) {
            Some([head, place]) => {
                place.store(addr.0, Ordering::Relaxed);
                head.store(TAKEN | u64::from(page.0) << 32, Ordering::Release);
            }
            None => region.count_missing(HeaderField::PagesMissing, 1),
        }
    }

    fn remove(&mut self, region: &Region, addr: Addr) {
        let Some(at) = self.rows.end(addr) else { return };
        match row(region, at) {
            Some([head, _]) => head.store(0, Ordering::Relaxed),
            None => region.count_missing(HeaderField::PagesMissing, -1),
        }
    }
}

fn row(region: &Region, at: usize) -> Option<&[AtomicU64; PAGE_WORDS]> {
    region.rows::<PAGE_WORDS>(Part::Pages).get(at)
}

/// The rows in use, to be read under the lock.
pub(super) fn rows(look: &impl Look) -> Vec<(Addr, PageNumber)> {
    let mut rows = Vec::new();
    look.each_row(Part::Pages, |[head, addr]: [u64; PAGE_WORDS]| {
        if head & TAKEN != 0 {
            rows.push((Addr(addr), PageNumber((head >> 32) as u32)));
        }
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::super::layout::Shape;
    use super::super::mappings;
    use super::*;

    const PAGE: u64 = 2 << 20;

    fn seen(region: &Region, may_be_unfinished: bool) -> Option<Vec<(u64, u32)>> {
        let (_, pages) = mappings::read(region, may_be_unfinished)?;
        Some(pages.iter().map(|(addr, page)| (addr.0 / PAGE, page.0)).collect())
    }

    fn map(slot: u64, page: u32) -> PageChange {
        PageChange::Map(Addr(slot * PAGE), PageNumber(page))
    }

    fn unmap(slot: u64, page: u32) -> PageChange {
        PageChange::Unmap(Addr(slot * PAGE), PageNumber(page))
    }

    #[test]
    fn the_table_has_every_address_of_a_page() {
        let region = Region::anonymous(Shape::new(64, 0).with_pages()).unwrap();
        let mut table = Table::default();
        for change in [map(7, 0), map(3, 0), map(5, 9), unmap(3, 0), map(4, 9), map(3, 70_000)] {
            table.apply(&region, change);
        }
        assert_eq!(seen(&region, false), Some(vec![(3, 70_000), (4, 9), (5, 9), (7, 0)]));
        region.set(HeaderField::MappingsVersion, 13);
        assert_eq!(seen(&region, false), None, "it changes");
        assert_eq!(seen(&region, true).map(|seen| seen.len()), Some(4), "its writer is dead");
    }

    #[test]
    fn mappings_beyond_the_table_are_counted_as_missing() {
        let region = Region::anonymous(Shape::new(64, 0)).unwrap();
        let mut table = Table::default();
        table.apply(&region, map(1, 1));
        table.apply(&region, map(2, 1));
        assert_eq!(region.get(HeaderField::PagesMissing), 2);
        table.apply(&region, unmap(1, 1));
        assert_eq!(region.get(HeaderField::PagesMissing), 1);
        assert_eq!(seen(&region, false), Some(vec![]));
    }
}
