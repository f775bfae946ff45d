//! When private pools were created, opened, closed and released: a snapshot shows only which pool an event used.
//!
//! A scope is taken to be as short as its allocations allow: it opens before the first of a run of allocations from
//! the pool and closes after the last. A pool is released before the first segment of it is given back after its
//! last scope.

use hashbrown::{HashMap, HashSet};
use observer::{entry::MemoryKind, scopes};
use trace_format::{Event, PoolId, PoolState};

use super::flush::Flush;
use super::insert::Insert;
use super::walk_back::Walked;
use crate::snapshot::{TraceAction, TraceEntry};

/// The pool events of a trace.
pub(super) struct InferredPools {
    /// Private pools that exist before the first entry.
    pub(super) base: Vec<PoolState>,
    pub(super) inserts: Vec<Insert>,
    pub(super) notes: Option<String>,
}

pub(super) fn find(entries: &[TraceEntry], walked: &Walked, flushes: &[Flush]) -> InferredPools {
    let scopes = find_scopes(entries, &walked.kinds, flushes);
    let base = PoolState::of_segments(&walked.base.segments());
    let mut last_use: HashMap<PoolId, usize> = base.iter().map(|state| (state.pool, 0)).collect();
    let mut is_created: HashSet<PoolId> = last_use.keys().copied().collect();
    let mut turns = Vec::new();
    for scope in &scopes {
        if is_created.insert(scope.pool) {
            let event = Event::PoolCreate { pool: scope.pool, own_source: false };
            turns.push((Turn::Open, Insert::new(scope.from, event)));
        }
        turns.extend(scope.events());
        last_use.insert(scope.pool, scope.to);
    }
    for flush in flushes {
        for at in flush.window.clone().filter(|&at| entries[at].action.is_segment_loss()) {
            let pool = walked.kinds[at].pool;
            if last_use.get(&pool).is_some_and(|&last| last <= flush.window.start) {
                last_use.remove(&pool);
                let event = Event::PoolRelease { pool };
                turns.push((Turn::Release, Insert::new(flush.window.start, event)));
            }
        }
    }
    turns.sort_by_key(|(turn, insert)| (insert.before, *turn));
    let notes = (!scopes.is_empty()).then(|| {
        format!(
            "{} scopes of private pools are taken to be as short as their allocations allow: a pool \
             may be let go sooner than it was",
            scopes.len()
        )
    });
    InferredPools { base, inserts: turns.into_iter().map(|(_, insert)| insert).collect(), notes }
}

/// The order of events at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Close,
    Release,
    Open,
}

/// A run of allocations from one private pool: from the first entry of its first malloc to past its last.
struct Scope {
    pool: PoolId,
    from: usize,
    to: usize,
}

impl Scope {
    fn events(&self) -> impl Iterator<Item = (Turn, Insert)> {
        let Self { pool, from, to } = *self;
        let place = |turn, before| move |event| (turn, Insert::new(before, event));
        let begin = scopes::begin(pool).map(place(Turn::Open, from));
        begin.chain(scopes::end(pool).map(place(Turn::Close, to)))
    }
}

fn find_scopes(entries: &[TraceEntry], kinds: &[MemoryKind], flushes: &[Flush]) -> Vec<Scope> {
    let mut scopes: Vec<Scope> = Vec::new();
    let mut is_open = false;
    let mut flushes = flushes.iter().filter(|flush| flush.belongs_to_malloc()).peekable();
    for (at, entry) in entries.iter().enumerate() {
        if entry.action != TraceAction::Alloc {
            continue;
        }
        let mut from = at;
        while from > 0 && entries[from - 1].action.is_segment_gain() {
            from -= 1;
        }
        while flushes.next_if(|flush| flush.window.end < from).is_some() {}
        if let Some(flush) = flushes.next_if(|flush| flush.window.end == from) {
            from = flush.window.start;
        }
        let pool = kinds[at].pool;
        match scopes.last_mut() {
            Some(scope) if is_open && scope.pool == pool => scope.to = at + 1,
            _ if pool.is_default() => is_open = false,
            _ => {
                scopes.push(Scope { pool, from, to: at + 1 });
                is_open = true;
            }
        }
    }
    scopes
}

#[cfg(test)]
mod tests;
