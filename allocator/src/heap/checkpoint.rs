//! A private pool's blocks at one moment, and the way back to them (`getCheckpointState`, `setCheckpointPoolState`).
//!
//! A tree of CUDA graphs replays one graph and then records another into the same pool. A replay allocates nothing, so
//! before the recording the pool is put into the state that it had when the replayed graph had been recorded: its live
//! tensors are allocations again, at the same addresses, and the new graph's find other places.

use alloc::vec::Vec;

use hashbrown::HashMap;

use events::{Addr, PoolId, StackId, Stream};

use super::hot_path::{AllocParams, Candidate};
use super::{AllocError, Heap, HeapError};
use crate::arena::BlockId;
use crate::ids::PoolIndex;
use device::Device;
use events::Recorder;

/// The blocks of a private pool's segments ([`Heap::checkpoint`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolCheckpoint {
    pool: PoolId,
    segments: Vec<Vec<Piece>>,
}

/// One block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    addr: Addr,
    size_bytes: u64,
    stream: Stream,
    half: PoolIndex,
    allocated: bool,
    mapped: bool,
}

/// What going back to a checkpoint changed. An address may be in both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointDelta {
    /// Allocations that are none any more; their holders must not free them.
    pub freed: Vec<Addr>,
    /// Allocations that are the caller's to free from now on.
    pub created: Vec<Addr>,
}

impl<D: Device, R: Recorder> Heap<D, R> {
    /// The blocks of a private pool, to go back to later.
    ///
    /// # Errors
    /// When the pool does not exist or was released, or one of its frees waits for a stream.
    pub fn checkpoint(&mut self, pool: PoolId) -> Result<PoolCheckpoint, AllocError> {
        self.insert_held_events()?;
        self.require_users(pool)?;
        let heads = self.heads_of(pool)?;
        let segments = heads.into_iter().map(|head| self.pieces_from(head));
        Ok(PoolCheckpoint { pool, segments: segments.collect::<Result<_, _>>()? })
    }

    /// Frees every allocation of the pool and hands out those of the checkpoint, where they were. What the pool got
    /// since stays cached in it. `stack` is that of the caller.
    ///
    /// # Errors
    /// When the pool does not exist or was released, when a free of it waits for a stream, or when one of its segments
    /// of then is gone. The pool may be half way then, as in PyTorch; the heap is consistent.
    pub fn restore_checkpoint(
        &mut self,
        checkpoint: &PoolCheckpoint,
        stack: StackId,
    ) -> Result<CheckpointDelta, AllocError> {
        self.require_users(checkpoint.pool)?;
        let freed = self.allocations_of(checkpoint.pool)?;
        for addr in &freed {
            self.give_back(*addr, stack)?;
        }
        let heads = self.heads_of(checkpoint.pool)?;
        let heads: HashMap<Addr, BlockId> =
            heads.into_iter().map(|id| (self.blocks[id].addr, id)).collect();
        let mut created = Vec::new();
        for pieces in &checkpoint.segments {
            let head = pieces.first().and_then(|first| heads.get(&first.addr)).copied();
            let addr = pieces.first().map_or(Addr(0), |first| first.addr);
            let head = head.ok_or(HeapError::CheckpointLost { pool: checkpoint.pool, addr })?;
            self.restore_segment(checkpoint.pool, head, pieces, stack)?;
            for piece in pieces.iter().filter(|piece| piece.mapped) {
                if piece.allocated {
                    created.push(piece.addr);
                } else {
                    self.give_back(piece.addr, stack)?;
                }
            }
        }
        Ok(CheckpointDelta { freed, created })
    }

    /// The addresses of a private pool that are handed out, segment by segment.
    ///
    /// # Errors
    /// When the pool does not exist.
    pub fn allocations_of(&self, pool: PoolId) -> Result<Vec<Addr>, HeapError> {
        let heads = self.heads_of(pool)?;
        let blocks = heads.into_iter().flat_map(|head| self.segment_of(head));
        let held = blocks.filter(|id| self.blocks[*id].allocated);
        Ok(held.map(|id| self.blocks[id].addr).collect())
    }

    /// Hands out every piece of a segment in which nothing is allocated. Those that were free then are given back once
    /// all stand: so statistics and the record are what PyTorch's would be.
    fn restore_segment(
        &mut self,
        pool: PoolId,
        head: BlockId,
        pieces: &[Piece],
        stack: StackId,
    ) -> Result<(), HeapError> {
        self.stack = stack;
        let mut at = Some(head);
        for piece in pieces {
            let lost = HeapError::CheckpointLost { pool, addr: piece.addr };
            if !piece.mapped {
                // Pages mapped since are cached; those that were behind the segment's end do not matter.
                while let Some(id) = at.filter(|id| self.blocks[*id].addr < piece.end()) {
                    at = self.blocks[id].next;
                }
                continue;
            }
            let id = at.ok_or_else(|| lost.clone())?;
            let block = &self.blocks[id];
            let fits = block.addr == piece.addr && block.size_bytes >= piece.size_bytes;
            if !(fits && block.is_idle() && block.mapped) {
                return Err(lost);
            }
            let size_bytes = block.size_bytes;
            let has_rest = size_bytes > piece.size_bytes;
            self.blocks.take_free(id);
            let params = AllocParams {
                requested_bytes: piece.size_bytes,
                size_bytes: piece.size_bytes,
                stream: piece.stream,
                pool: piece.half,
                expandable: false,
                stitched: false,
                in_capture: false,
            };
            self.serve(Candidate { id, size_bytes, place: None }, &params, Some(has_rest));
            at = if has_rest { Some(id) } else { self.blocks[id].next };
        }
        Ok(())
    }

    /// The first blocks of a pool's segments, in the order of their addresses.
    fn heads_of(&self, pool: PoolId) -> Result<Vec<BlockId>, HeapError> {
        let slot = self.pools.find(pool).ok_or(HeapError::UnknownPool { pool })?;
        let heads = self.blocks.arena.iter().filter(|(_, block)| block.prev.is_none());
        let mut heads: Vec<_> = heads
            .map(|(id, _)| id)
            .filter(|id| self.blocks.pool_of(*id).private() == Some(slot))
            .collect();
        heads.sort_unstable_by_key(|id| self.blocks[*id].addr);
        Ok(heads)
    }

    /// A pool that lost its last user may end any time.
    fn require_users(&self, pool: PoolId) -> Result<(), HeapError> {
        match self.pool_use_count(pool)? {
            0 => Err(HeapError::Released { pool }),
            _ => Ok(()),
        }
    }

    fn segment_of(&self, head: BlockId) -> impl Iterator<Item = BlockId> {
        core::iter::successors(Some(head), |id| self.blocks[*id].next)
    }

    fn pieces_from(&self, head: BlockId) -> Result<Vec<Piece>, HeapError> {
        let piece = |id: BlockId| {
            let block = &self.blocks[id];
            if !block.allocated && !block.is_idle() {
                return Err(HeapError::CheckpointPending { addr: block.addr });
            }
            Ok(Piece {
                addr: block.addr,
                size_bytes: block.size_bytes,
                stream: self.blocks.stream_of(id),
                half: self.blocks.pool_of(id),
                allocated: block.allocated,
                mapped: block.mapped,
            })
        };
        self.segment_of(head).map(piece).collect()
    }
}

impl Piece {
    const fn end(&self) -> Addr {
        Addr(self.addr.0 + self.size_bytes)
    }
}
