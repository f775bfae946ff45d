//! Cutting and joining the idle blocks of a run, with the free lists and the run's index kept.

use events::Addr;

use super::Run;
use crate::arena::{Block, BlockId};
use crate::blocks::Blocks;

impl Blocks {
    /// Cuts an idle block so that one block is exactly the given part, in no list. The rest goes back to its list.
    pub(crate) fn isolate(
        &mut self,
        run: &mut Run,
        id: BlockId,
        start: Addr,
        end: Addr,
    ) -> BlockId {
        let block = self[id];
        assert!(
            block.is_idle() && block.addr <= start && end <= block.end(),
            "a part of an idle block"
        );
        self.take_idle(id);
        if block.addr < start {
            let before = Block {
                prev: block.prev,
                next: Some(id),
                ..piece_of(&block, block.addr, start.0 - block.addr.0)
            };
            // The front takes the links of the whole; the block begins behind it.
            let before = self.arena.insert(before);
            if let Some(prev) = block.prev {
                self.arena[prev].next = Some(before);
            }
            run.begin(block.addr, before);
            let rest = &mut self.arena[id];
            rest.prev = Some(before);
            rest.addr = start;
            rest.size_bytes = block.end().0 - start.0;
            run.begin(start, id);
            self.put_idle(before);
        }
        if end < block.end() {
            let rest_bytes = block.end().0 - end.0;
            let after = Block {
                prev: Some(id),
                next: block.next,
                segment_stack: events::StackId::NONE,
                ..piece_of(&block, end, rest_bytes)
            };
            self.arena[id].size_bytes -= rest_bytes;
            let after = self.arena.insert(after);
            self.arena[id].next = Some(after);
            if let Some(next) = block.next {
                self.arena[next].prev = Some(after);
            }
            run.begin(end, after);
            self.put_idle(after);
        }
        debug_assert!(self.arena.is_linked(id), "a cut leaves neighbours");
        id
    }

    /// Merges an idle block, which is in no list, with its idle neighbours of its kind, and enters it into its list.
    pub(crate) fn settle_idle(&mut self, run: &mut Run, id: BlockId) -> BlockId {
        let is_alike = |blocks: &Self, other: BlockId| {
            blocks[other].is_idle() && blocks[other].mapped == blocks[id].mapped
        };
        if let Some(next) = self[id].next.filter(|next| is_alike(self, *next)) {
            let start = self[next].addr;
            self.take_idle(next);
            self.arena.join(id, next);
            run.end(start, &self.arena, self[id].next);
        }
        if let Some(prev) = self[id].prev.filter(|prev| is_alike(self, *prev)) {
            let start = self[id].addr;
            self.take_idle(prev);
            self.arena.join_ahead(prev, id);
            run.end(start, &self.arena, self[id].next);
            run.begin(self[id].addr, id);
        }
        self.put_idle(id);
        id
    }

    /// The run's index finds its unmapped blocks: they are in no list.
    fn take_idle(&mut self, id: BlockId) {
        if self[id].mapped {
            self.take_free(id);
        }
    }

    fn put_idle(&mut self, id: BlockId) {
        if self[id].mapped {
            self.put_free(id);
        }
    }
}

/// A free piece of a block's segment, without links.
fn piece_of(block: &Block, addr: Addr, size_bytes: u64) -> Block {
    Block {
        range: block.range,
        segment_rank: block.segment_rank,
        segment_stack: block.segment_stack,
        mapped: block.mapped,
        ..Block::new(addr, size_bytes, block.list)
    }
}
