//! What must be equal after every call, and empty at the end.

use proptest::prelude::*;
use trace_format::{PoolId, Record, ThreadId};

use super::ops::{Op, POOLS, STREAMS};
use super::pair::Pair;

impl Pair {
    pub(super) fn compare(&mut self) -> Result<(), TestCaseError> {
        self.heap.check().map_err(TestCaseError::fail)?;
        prop_assert_eq!(self.heap.stats().flat(), self.reference.stats());
        prop_assert_eq!(self.heap.segments(PoolId::DEFAULT), self.reference.snapshot());
        prop_assert_eq!(self.heap.allocations(), self.reference.live());
        for pool in POOLS {
            prop_assert_eq!(self.heap.pool_use_count(pool).ok(), self.reference.users(pool));
        }
        let used = self.heap.device_mut().used_bytes();
        prop_assert_eq!(used, self.reference.device.used_bytes());
        self.follow_tape()
    }

    /// The recorded events tell the same story.
    fn follow_tape(&mut self) -> Result<(), TestCaseError> {
        let events = &self.heap.recorder_mut().events;
        for (stack, event) in &events[self.taped..] {
            let record = Record { time_ns: 0, thread: ThreadId(0), stack: *stack, event: *event };
            self.tape.apply(&record).map_err(|error| TestCaseError::fail(error.to_string()))?;
        }
        self.taped = events.len();
        let stats = self.heap.stats();
        prop_assert_eq!(self.tape.reserved_bytes() as i64, stats.reserved_bytes.all.current);
        prop_assert_eq!(self.tape.allocated_bytes() as i64, stats.allocated_bytes.all.current);
        prop_assert_eq!(self.tape.active_bytes() as i64, stats.active_bytes.all.current);
        Ok(())
    }

    /// Everything given back, nothing is left on the device.
    pub(super) fn wind_up(mut self) -> Result<(), TestCaseError> {
        for pool in POOLS {
            prop_assert!(self.end(pool)?);
        }
        for addr in std::mem::take(&mut self.live) {
            prop_assert!(self.free(addr)?);
        }
        for pool in POOLS {
            while self.heap.pool_use_count(pool).is_ok_and(|users| users > 0) {
                prop_assert!(self.pool_step(Op::ReleasePool(pool))?);
            }
        }
        for stream in STREAMS {
            prop_assert!(self.step(&Op::StreamDone(stream))?);
        }
        prop_assert!(self.step(&Op::EmptyCache(PoolId::DEFAULT))?);
        self.compare()?;
        prop_assert_eq!(self.heap.device_mut().check_empty(), Ok(()));
        prop_assert!(self.tape.is_empty());
        for source in &self.sources {
            prop_assert_eq!(&source.lock().live, &vec![]);
        }
        Ok(())
    }
}
