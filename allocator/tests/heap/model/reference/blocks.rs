//! Handing a block out, and making it free again.

use trace_format::Addr;

use super::{Block, MIB, Reference, Want};

impl Reference {
    /// `should_split` and `alloc_found_block`.
    pub(super) fn hand_out(&mut self, addr: u64, want: &Want) -> Addr {
        let at = self.at(addr);
        let rest = self.blocks[at].size - want.size;
        let splits = if self.no_split.contains(&want.pool) {
            false
        } else if want.small || want.expandable {
            rest >= 512
        } else {
            want.size < self.config.max_split_size_bytes && rest > MIB
        };
        if splits {
            let front = Block { size: want.size, ..self.blocks[at].clone() };
            self.blocks[at].addr += want.size;
            self.blocks[at].size = rest;
            self.blocks[at].born = self.searches_of(want.pool, want.small);
            self.blocks.push(front);
        }
        let at = self.at(addr);
        self.blocks[at].allocated = true;
        self.blocks[at].requested = want.requested;
        let size = self.blocks[at].size;
        self.recount_inactive();
        for (name, amount) in [
            ("allocation", 1),
            ("allocated_bytes", size),
            ("active", 1),
            ("active_bytes", size),
            ("requested_bytes", want.requested),
        ] {
            self.books.increase(name, want.small, amount);
        }
        if self.oversize(size) {
            self.books.increase_plain("oversize_allocations", 1);
        }
        Addr(addr)
    }

    /// `free_block`.
    pub(super) fn free_completed(&mut self, addr: u64) {
        let at = self.at(addr);
        let Block { size, requested, small, .. } = self.blocks[at];
        self.become_free(at);
        self.recount_inactive();
        self.books.decrease("active", small, 1);
        self.books.decrease("active_bytes", small, size);
        self.books.decrease("requested_bytes", small, requested);
    }

    /// Merges a block with its idle neighbours of the same kind; its age starts anew.
    pub(super) fn become_free(&mut self, at: usize) {
        let mut me = self.blocks[at].clone();
        let neighbours: Vec<usize> = [self.prev(at), self.next(at)]
            .into_iter()
            .flatten()
            .filter(|&other| self.idle(other) && self.blocks[other].mapped == me.mapped)
            .collect();
        for &other in &neighbours {
            me.addr = me.addr.min(self.blocks[other].addr);
            me.size += self.blocks[other].size;
        }
        me.born = self.searches_of(me.pool, me.small);
        self.blocks[at] = me;
        let mut gone = neighbours;
        gone.sort_unstable();
        for other in gone.into_iter().rev() {
            self.blocks.remove(other);
        }
    }
}
