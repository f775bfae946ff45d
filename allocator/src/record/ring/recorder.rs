//! The writing end of a ring.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use trace_format::{Event, PoolId, StackId, StringId};

use super::pack::{self, POOL_IS_WIDE, Packed, WIDE_POOL};
use super::{Ring, RingOptions};
use crate::record::Recorder;
use crate::record::clock::{Clock, SystemClock};

/// Records into a ring: no lock, no system call, no allocation.
///
/// There is one per ring and it needs `&mut`, so the ring has one writer at a time and its order is the heap's.
#[derive(Debug)]
pub struct RingRecorder<C: Clock = SystemClock> {
    ring: Arc<Ring>,
    clock: C,
    next: u64,
}

impl<C: Clock> RingRecorder<C> {
    /// Makes the ring, in memory of this process alone (with one warning) where its file cannot be had.
    ///
    /// # Errors
    /// Where there is no memory either.
    pub fn new(options: &RingOptions, clock: C) -> io::Result<Self> {
        let ring = Arc::new(Ring::create(options, clock.calibration())?);
        Ok(Self { ring, clock, next: 0 })
    }

    /// The ring, for readers of this process.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    #[cold]
    fn put_wide_pool(&mut self, ticks: u64, pool: PoolId) -> u64 {
        self.put(&[ticks, 0, WIDE_POOL, pool.0, pool.1, 0, 0]);
        POOL_IS_WIDE
    }

    #[inline]
    fn put(&mut self, payload: &super::region::Payload) {
        self.ring.region.publish(self.next, payload);
        self.next += 1;
    }
}

impl<C: Clock> Recorder for RingRecorder<C> {
    #[inline]
    fn record(&mut self, stack: StackId, event: Event) {
        if self.ring.is_muted() {
            return;
        }
        let ticks = self.clock.ticks();
        let Packed { tag, pool, args: [a, b, c, d] } = pack::pack(&event);
        let pool_bits = match pack::pool_bits(pool) {
            Some(bits) => bits,
            None => self.put_wide_pool(ticks, pool),
        };
        let who = u64::from(thread_id()) | u64::from(stack.0) << 32;
        self.put(&[ticks, who, tag | pool_bits, a, b, c, d]);
    }

    fn intern(&mut self, text: &str) -> StringId {
        self.ring.intern(text)
    }
}

/// The operating system's id of this thread, asked for once.
#[inline]
fn thread_id() -> u32 {
    thread_local! {
        static ID: Cell<u32> = const { Cell::new(0) };
    }
    match ID.get() {
        0 => {
            let id = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            ID.set(id);
            id
        }
        id => id,
    }
}
