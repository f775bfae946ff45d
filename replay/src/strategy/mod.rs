//! The strategy seam: how requests become placements.
//!
//! A [`Driver`](crate::driver::Driver) reads a tape's inputs and calls a [`Strategy`]. It sees sizes, streams, pools
//! and times, never a recorded block address. There are two kinds:
//!
//! - [`Native`]: the allocator that runs live, on a simulated device;
//! - [`models`] of other allocators, for comparison: a [`Model`](models::model::Model) is the policy of one pool, and
//!   [`Hosted`] around it is everything that is the same for all.
//!
//! [`table`] has their names. Which one it is, is chosen once for a replay; no call goes through a `dyn`.

pub mod hosted;
pub mod native;
pub mod table;
#[cfg(test)]
mod tests;

use crate::drive_error::{DriveError, Result};
use std::fmt;
use std::ops::RangeInclusive;

use allocator::heap::{AllocError, HeapError, PoolChoice, Request};
use settings::ConfigError;
use trace_format::{
    Addr, BaseState, BlockStatus, Category, Event, PoolId, Record, StackId, Stream,
};

pub use hosted::Hosted;
pub use native::Native;
pub use table::{Choice, Row, StrategyError, TABLE};

/// How a block that was live or pending at the start was restored.
#[derive(Clone, Copy, Debug)]
pub enum Start<B, T> {
    /// Handed out.
    Held(B),
    /// Given back and awaited; [`Strategy::complete_free`] of the ticket completes it.
    Waiting(T),
}

/// Recorded addresses of the start, and what stands for them.
pub type Starts<S> = Vec<(Addr, Start<<S as Strategy>::Block, <S as Strategy>::Ticket>)>;

/// How requests become placements.
///
/// All strategies keep the replay rule: the memory of a deferred free is not used again before it completes, or before
/// the strategy waited for the device (out of memory, or an emptied cache), which completes all deferred frees. A
/// request that finds no memory is out of memory after one such wait; nothing else fails.
pub trait Strategy {
    /// The smallest unit it hands out: live bytes are counted in it.
    const GRANULE_BYTES: u64;
    /// A block handed out.
    type Block: Copy + fmt::Debug;
    /// A free that completes when the tape says so.
    type Ticket: Copy + fmt::Debug;

    /// Takes over what was there at the start; called once, first.
    ///
    /// # Errors
    /// When the device has no room for it.
    fn restore(&mut self, base: &BaseState) -> Result<Starts<Self>>
    where
        Self: Sized;

    /// What follows is caused by `record`, at its time.
    fn at(&mut self, record: &Record);

    /// Memory for a request whose pool is given as [`Exactly`](allocator::heap::PoolChoice::Exactly); `None` when
    /// memory is out.
    ///
    /// # Errors
    /// When the device fails other than by being full, or the pool cannot be used.
    fn malloc(&mut self, request: &Request) -> Result<Option<Self::Block>, AllocError>;

    /// Takes back a block that only earlier work of its own stream still uses.
    ///
    /// # Errors
    /// When it is not handed out.
    fn free(&mut self, block: Self::Block, stack: StackId) -> Result<(), AllocError>;

    /// Takes back a block that other streams use until the free completes.
    ///
    /// # Errors
    /// When it is not handed out.
    fn free_deferred(
        &mut self,
        block: Self::Block,
        stack: StackId,
    ) -> Result<Self::Ticket, AllocError>;

    /// Completes a deferred free; does nothing if a wait of the strategy's own completed it.
    fn complete_free(&mut self, ticket: Self::Ticket);

    /// The recording's flush completed this free after all others that are deferred.
    fn flush_last(&mut self, ticket: Self::Ticket) {
        let _ = ticket;
    }

    /// Another stream uses the block. The tape says when its free completes, so this changes no placement: it is for
    /// who keeps a record.
    fn record_stream(&mut self, block: Self::Block, stream: Stream, stack: StackId) {
        let _ = (block, stream, stack);
    }

    /// The program said what it keeps in the block, for who keeps a record.
    fn categorize(&mut self, block: Self::Block, category: Category, stack: StackId) {
        let _ = (block, category, stack);
    }

    /// Whether a wait of the strategy's own completed deferred frees since this was asked last.
    fn has_waited(&mut self) -> bool;

    /// Cached memory goes back to the device, as far as the strategy can return any (`torch.cuda.empty_cache`).
    ///
    /// # Errors
    /// When the device fails.
    fn empty_cache(&mut self, pool: PoolId, stack: StackId) -> Result<(), AllocError>;

    /// Any other input of the tape: pools, captures, the memory fraction, resets of statistics.
    ///
    /// # Errors
    /// When it contradicts the ones before it.
    fn input(&mut self, event: &Event) -> Result<(), HeapError>;

    /// PyTorch's settings changed at run time.
    ///
    /// # Errors
    /// When they do not parse.
    fn settings(&mut self, text: &str) -> Result<(), ConfigError>;

    /// The device capacities, first and last, with which everything so far would have been the same, where no memory
    /// fraction is set; `None` where the strategy looked at the capacity itself.
    fn same_with(&mut self) -> Option<RangeInclusive<u64>>;

    /// Bytes held from the device now.
    fn reserved_bytes(&self) -> u64;

    /// Those of them that private pools hold.
    fn private_reserved_bytes(&self) -> u64;

    /// Calls of the simulated device so far.
    fn driver_calls(&mut self) -> u64;

    /// What was reserved and called so far.
    fn totals(&mut self) -> ReplayTotals;
}

/// Requests everything that was handed out or awaited at the start, in order of address: for strategies that have
/// memory of their own, of which nothing was there before.
fn request_anew<S: Strategy>(strategy: &mut S, base: &BaseState) -> Result<Starts<S>> {
    let mut starts = Vec::new();
    for segment in &base.segments {
        for block in segment.blocks.iter().filter(|b| b.status != BlockStatus::Inactive) {
            let request = Request {
                requested_bytes: block.requested_bytes.clamp(1, block.size_bytes.max(1)),
                stream: segment.stream,
                pool: PoolChoice::Exactly(segment.pool),
                stack: block.stack,
            };
            let Some(held) = strategy.malloc(&request).map_err(DriveError::Base)? else {
                return Err(DriveError::NoRoom { size_bytes: block.size_bytes });
            };
            let start = match block.status {
                BlockStatus::PendingFree => Start::Waiting(
                    strategy.free_deferred(held, block.stack).map_err(DriveError::Base)?,
                ),
                _ => Start::Held(held),
            };
            starts.push((block.addr, start));
        }
    }
    Ok(starts)
}

/// Peaks and sums of a replay, whatever the tape resets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayTotals {
    /// The most bytes handed out at once, after rounding and splitting.
    pub peak_allocated_bytes: u64,
    /// The most bytes held from the device at once.
    pub peak_reserved_bytes: u64,
    /// The most bytes of addresses at which memory was mapped at once.
    pub peak_mapped_bytes: u64,
    /// Calls that obtained device memory.
    pub device_allocs: i64,
    /// Calls that returned it.
    pub device_frees: i64,
    /// All driver calls.
    pub driver_calls: u64,
    /// Those of them that map physical memory.
    pub driver_maps: u64,
    /// Their estimated time, by the simulated device's [`PriceList`](sim_device::PriceList).
    pub driver_time_ns: u64,
    /// Times everything was waited for because memory was out.
    pub retries: i64,
    /// Times memory could not be had.
    pub ooms: i64,
    /// Blocks handed out.
    pub allocs: i64,
    /// Blocks taken back.
    pub frees: i64,
}
