//! The ring's content at the end of a run: it must have no gaps and end with nothing allocated.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use trace_format::{Event, Item, Reader, Record, State};

/// Fails unless the saved ring is whole, and returns the number of its allocations.
pub(crate) fn check(path: &Path) -> Result<u64> {
    let what = || format!("the saved ring {}", path.display());
    let mut state = State::new();
    let (mut allocations, mut frees) = (0_u64, 0_u64);
    let mut is_first = true;
    for item in Reader::open(path).with_context(what)? {
        match item.with_context(what)? {
            Item::Meta(_) => {}
            Item::Base(_, base) => {
                ensure!(is_first, "{} starts anew in the middle", what());
                state = State::from_base(&base).with_context(what)?;
            }
            // Events that the ring had overwritten. Lost events at any later place are a gap.
            Item::Event(_, Record { event: Event::Lost { .. }, .. }) if is_first => {}
            Item::Event(_, record) => {
                is_first = false;
                match record.event {
                    Event::Lost { count } => bail!("{} lost {count} events", what()),
                    Event::Alloc { .. } => allocations += 1,
                    Event::Free { .. } => frees += 1,
                    _ => {}
                }
                state.apply(&record).with_context(what)?;
            }
        }
    }
    ensure!(
        allocations > 0 && frees > 0,
        "{} has {allocations} allocations, {frees} frees",
        what()
    );
    ensure!(state.allocated_bytes() == 0, "{} ends with memory allocated", what());
    Ok(allocations)
}
