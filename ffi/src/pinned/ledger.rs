//! The pinned host memory of the process, block by block.

use std::collections::HashMap;

use trace_format::{Addr, HostCall, HostReading};

/// Calls on the tape. A program that pins and unpins all the time would fill the ring's room for names; steps and
/// moments still have the sums.
const CALLS_ON_TAPE_MAX: u32 = 2000;

/// The blocks that are pinned, and their sums.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    blocks: HashMap<u64, u64>,
    reserved_bytes: u64,
    reserved_bytes_peak: u64,
    calls: u32,
}

impl Ledger {
    /// Counts a call. Returns the reading for the tape, unless the call is of memory that is not known here, or the
    /// tape has enough calls.
    pub(super) fn take(&mut self, call: HostCall) -> Option<HostReading> {
        let call = match call {
            HostCall::Pinned { addr, size_bytes } => {
                self.forget(addr); // An unpinning that was not seen.
                self.blocks.insert(addr.0, size_bytes);
                self.reserved_bytes += size_bytes;
                self.reserved_bytes_peak = self.reserved_bytes_peak.max(self.reserved_bytes);
                call
            }
            HostCall::Unpinned { addr, .. } => {
                HostCall::Unpinned { addr, size_bytes: self.forget(addr)? }
            }
            HostCall::Refused { .. } => call,
        };
        self.calls = self.calls.saturating_add(1);
        (self.calls <= CALLS_ON_TAPE_MAX)
            .then(|| HostReading { call: Some(call), ..self.reading() })
    }

    /// The sums now.
    pub(super) fn reading(&self) -> HostReading {
        HostReading {
            reserved_bytes: self.reserved_bytes,
            reserved_bytes_peak: self.reserved_bytes_peak,
            blocks: self.blocks.len() as u64,
            is_per_block: true,
            is_by_calls: true,
            ..HostReading::default()
        }
    }

    /// Removes a block and returns its bytes.
    fn forget(&mut self, addr: Addr) -> Option<u64> {
        let size_bytes = self.blocks.remove(&addr.0)?;
        self.reserved_bytes -= size_bytes;
        Some(size_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn pin(addr: u64, size_bytes: u64) -> HostCall {
        HostCall::Pinned { addr: Addr(addr), size_bytes }
    }

    const fn unpin(addr: u64) -> HostCall {
        HostCall::Unpinned { addr: Addr(addr), size_bytes: 0 }
    }

    #[test]
    fn a_reading_has_the_blocks_after_the_call_and_the_peak() {
        let mut ledger = Ledger::default();
        let sums = |reading: HostReading| {
            (reading.reserved_bytes, reading.reserved_bytes_peak, reading.blocks, reading.call)
        };
        let mut take = |call| ledger.take(call).map(sums);
        assert_eq!(take(pin(1, 8)), Some((8, 8, 1, Some(pin(1, 8)))));
        assert_eq!(take(pin(2, 4)), Some((12, 12, 2, Some(pin(2, 4)))));
        let unpinned = HostCall::Unpinned { addr: Addr(1), size_bytes: 8 };
        assert_eq!(take(unpin(1)), Some((4, 12, 1, Some(unpinned))));
        assert_eq!(take(unpin(1)), None, "memory that is not pinned");
        let refused = HostCall::Refused { size_bytes: 99 };
        assert_eq!(take(refused), Some((4, 12, 1, Some(refused))));
        assert_eq!(take(pin(2, 16)), Some((16, 16, 1, Some(pin(2, 16)))), "pinned anew");
    }

    #[test]
    fn a_program_that_pins_all_the_time_has_its_sums_and_no_more_calls_on_the_tape() {
        let mut ledger = Ledger::default();
        let on_tape = (0..3000).filter(|addr| ledger.take(pin(*addr, 1)).is_some()).count();
        assert_eq!(on_tape, CALLS_ON_TAPE_MAX as usize);
        assert_eq!(ledger.reading().reserved_bytes, 3000);
    }
}
