//! The heap's whole state, as a tape carries it to start from; `restore.rs` is the way back.

use alloc::string::String;

use alloc::vec::Vec;

use events::{BaseState, BlockState, PoolId, PoolState, ScopeFilter, ScopeState};

use super::Heap;
use crate::arena::Block;
use device::Device;
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// What all records so far have led to. The time is left to the caller, who has a clock.
    pub fn base_state(&self) -> BaseState {
        BaseState { segments: self.segments(PoolId::DEFAULT), ..self.base_without_memory() }
    }

    /// The same without segments and blocks, but with the pages of `stitch`.
    pub fn base_without_memory(&self) -> BaseState {
        let scope = |scope: &super::Scope| ScopeState { pool: scope.pool, filter: scope.kind };
        let captures = self.scopes.iter().filter(|scope| scope.kind == ScopeFilter::Capture);
        BaseState {
            time_ns: 0,
            segments: Vec::new(),
            pages: self.mapped_pages(),
            pools: self.pools.all().map(|pool| self.pool_state(pool)).collect(),
            scopes: self.scopes.iter().map(scope).collect(),
            captures: captures.map(|scope| scope.pool).collect(),
            settings: self.config.text.clone(),
            memory_fraction: self.allowed_bytes.map(|allowed| self.fraction_of(allowed)),
            stats: String::new(),
            order: self.order(),
        }
    }

    /// Appends the blocks that are not free, of at most `max` places of the arena from `place` on, and returns the
    /// place to go on from; `None` at the end. Between two calls blocks may come and go, but none changes its place.
    pub fn live_blocks_from(
        &self,
        place: usize,
        max: usize,
        into: &mut Vec<BlockState>,
    ) -> Option<usize> {
        let (blocks, next) = self.blocks.arena.part(place, max);
        let live = blocks.iter().filter(|block| block.size_bytes > 0 && !block.is_idle());
        into.extend(live.map(Block::state));
        next
    }

    /// A fraction that means as many bytes: that of division may mean one less.
    fn fraction_of(&self, allowed_bytes: u64) -> f64 {
        let fraction = self.memory_fraction();
        let candidates = [fraction, fraction.next_up(), fraction.next_down()];
        let same = |fraction: &f64| self.share_bytes(*fraction) == allowed_bytes;
        candidates.into_iter().find(same).unwrap_or(fraction)
    }

    fn pool_state(&self, pool: &crate::pool::PrivatePool) -> PoolState {
        PoolState {
            pool: pool.id,
            use_count: pool.use_count,
            own_source: pool.source.is_some(),
            use_on_oom: self.pools.use_on_oom.contains(pool.id),
            no_split: self.pools.no_split.contains(pool.id),
        }
    }
}
