//! The tables of segments and of pages, of one moment.

use events::{MappedPages, MappedRanges};

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
