//! Superblocks and shelves of them: the data structures of `rmm-arena` (rmm `detail/arena.hpp`).

/// A contiguous range in which blocks are handed out (`superblock`).
#[derive(Clone, Debug)]
pub(crate) struct Superblock {
    addr: u64,
    size_bytes: u64,
    /// Free blocks and their sizes by address; no two of them touch.
    free: Vec<(u64, u64)>,
}

impl Superblock {
    /// All of it free.
    pub(crate) fn new(addr: u64, size_bytes: u64) -> Self {
        Self { addr, size_bytes, free: vec![(addr, size_bytes)] }
    }

    /// Its size.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Whether all of it is free.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.first().is_some_and(|(_, size_bytes)| *size_bytes == self.size_bytes)
    }

    /// Cuts an empty one in two.
    pub(crate) fn split(self, head_bytes: u64) -> (Self, Self) {
        let rest_bytes = self.size_bytes - head_bytes;
        (Self::new(self.addr, head_bytes), Self::new(self.addr + head_bytes, rest_bytes))
    }

    /// The lowest free block that fits, cut to size; there is one.
    pub(crate) fn first_fit(&mut self, size_bytes: u64) -> u64 {
        let fits = self.free.iter().position(|(_, free_bytes)| *free_bytes >= size_bytes);
        let at = fits.expect("the superblock was chosen because it has a block that fits");
        let (addr, free_bytes) = self.free[at];
        if free_bytes > size_bytes {
            self.free[at] = (addr + size_bytes, free_bytes - size_bytes);
        } else {
            self.free.remove(at);
        }
        addr
    }

    /// Takes a block back, joined with its free neighbours.
    pub(crate) fn coalesce(&mut self, addr: u64, size_bytes: u64) {
        let at = self.free.partition_point(|(free, _)| *free < addr);
        let touches_next = self.free.get(at).is_some_and(|(next, _)| addr + size_bytes == *next);
        let touches_prev = at > 0 && self.free[at - 1].0 + self.free[at - 1].1 == addr;
        match (touches_prev, touches_next) {
            (true, true) => {
                let (_, next_bytes) = self.free.remove(at);
                self.free[at - 1].1 += size_bytes + next_bytes;
            }
            (true, false) => self.free[at - 1].1 += size_bytes,
            (false, true) => self.free[at] = (addr, size_bytes + self.free[at].1),
            (false, false) => self.free.insert(at, (addr, size_bytes)),
        }
    }

    fn largest_free_bytes(&self) -> u64 {
        self.free.iter().map(|(_, size_bytes)| *size_bytes).max().unwrap_or(0)
    }
}

/// The superblocks of an arena by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelf {
    /// The largest free block of each, side by side: this is what is searched.
    largest: Vec<u64>,
    superblocks: Vec<Superblock>,
}

impl Shelf {
    /// Takes out the lowest superblock with a free block that fits.
    pub(crate) fn take_first_fit(&mut self, size_bytes: u64) -> Option<Superblock> {
        let at = self.largest.iter().position(|largest| *largest >= size_bytes)?;
        Some(self.remove(at))
    }

    /// A block in the lowest superblock that has one that fits.
    pub(crate) fn first_fit(&mut self, size_bytes: u64) -> Option<u64> {
        let at = self.largest.iter().position(|largest| *largest >= size_bytes)?;
        let addr = self.superblocks[at].first_fit(size_bytes);
        self.largest[at] = self.superblocks[at].largest_free_bytes();
        Some(addr)
    }

    /// Takes a block back, if it lies in one of these superblocks.
    pub(crate) fn free(&mut self, addr: u64, size_bytes: u64) -> bool {
        let Some(at) = self.holding(addr) else { return false };
        self.superblocks[at].coalesce(addr, size_bytes);
        self.largest[at] = self.superblocks[at].largest_free_bytes();
        true
    }

    /// Takes out the superblock that holds an address.
    pub(crate) fn take_holding(&mut self, addr: u64) -> Option<Superblock> {
        let at = self.holding(addr)?;
        Some(self.remove(at))
    }

    /// Puts a superblock in its place.
    pub(crate) fn insert(&mut self, superblock: Superblock) {
        let at = self.superblocks.partition_point(|other| other.addr < superblock.addr);
        self.largest.insert(at, superblock.largest_free_bytes());
        self.superblocks.insert(at, superblock);
    }

    /// The same; if it is empty, joined with empty neighbours (`global_arena::coalesce`).
    pub(crate) fn insert_joined(&mut self, mut superblock: Superblock) {
        if superblock.is_empty() {
            let at = self.superblocks.partition_point(|other| other.addr < superblock.addr);
            let end = superblock.addr + superblock.size_bytes;
            let next = self.superblocks.get(at).filter(|next| next.is_empty() && next.addr == end);
            if let Some(next_bytes) = next.map(|next| next.size_bytes) {
                self.remove(at);
                superblock = Superblock::new(superblock.addr, superblock.size_bytes + next_bytes);
            }
            let prev = at.checked_sub(1).map(|prev| &self.superblocks[prev]);
            let prev = prev.filter(|prev| prev.is_empty());
            let prev = prev.filter(|prev| prev.addr + prev.size_bytes == superblock.addr);
            if let Some((addr, prev_bytes)) = prev.map(|prev| (prev.addr, prev.size_bytes)) {
                self.remove(at - 1);
                superblock = Superblock::new(addr, prev_bytes + superblock.size_bytes);
            }
        }
        self.insert(superblock);
    }

    /// All of them.
    pub(crate) fn take_all(&mut self) -> Vec<Superblock> {
        self.largest.clear();
        std::mem::take(&mut self.superblocks)
    }

    fn holding(&self, addr: u64) -> Option<usize> {
        let at = self.superblocks.partition_point(|other| other.addr <= addr).checked_sub(1)?;
        let superblock = &self.superblocks[at];
        (addr < superblock.addr + superblock.size_bytes).then_some(at)
    }

    fn remove(&mut self, at: usize) -> Superblock {
        self.largest.remove(at);
        self.superblocks.remove(at)
    }
}
