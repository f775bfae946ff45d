//! That the sizes of a run add up: what is counted of them later fits 64 bits, whatever a file claims.

use trace_format::{Addr, BaseState, Event};

/// All bytes that one device's events may name together: far more than any run, and so little that sums of two such
/// numbers and their signs fit 64 bits.
const NAMED_BYTES_MAX: u64 = 1 << 62;

/// An event or a state with sizes that no run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// It names a range that no address space holds.
    #[error(
        "{event} of {size_bytes} bytes at {addr} reaches past the end of all addresses; is the file damaged?"
    )]
    PastTheEnd {
        /// The event's name.
        event: &'static str,
        /// Where it begins.
        addr: Addr,
        /// Its size.
        size_bytes: u64,
    },
    /// All sizes so far are more than any run has.
    #[error(
        "{event} of {size_bytes} bytes: together with those before it that is more than 4 EiB; is the file damaged?"
    )]
    TooMuch {
        /// The event's name.
        event: &'static str,
        /// Its size.
        size_bytes: u64,
    },
}

/// The sum of the sizes in a device's events so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    named_bytes: u64,
}

impl Sizes {
    /// Adds a state.
    pub(crate) fn base(&mut self, base: &BaseState) -> Result<(), SizeError> {
        base.segments.iter().try_for_each(|segment| self.add("segment", segment.size_bytes))
    }

    /// Adds an event.
    #[inline]
    pub(crate) fn event(&mut self, event: &Event) -> Result<(), SizeError> {
        let (addr, size_bytes) = match *event {
            Event::Alloc { addr, requested_bytes, size_bytes, .. }
            | Event::Free { addr, requested_bytes, size_bytes, .. }
            | Event::FreeCompleted { addr, requested_bytes, size_bytes } => {
                (addr, size_bytes.max(requested_bytes))
            }
            Event::SegmentAlloc { addr, size_bytes, .. }
            | Event::SegmentFree { addr, size_bytes, .. }
            | Event::SegmentMap { addr, size_bytes, .. }
            | Event::SegmentUnmap { addr, size_bytes, .. } => (addr, size_bytes),
            Event::Oom { requested_bytes, size_bytes, .. } => {
                (Addr(0), size_bytes.max(requested_bytes))
            }
            Event::DriverRefused { size_bytes } => (Addr(0), size_bytes),
            _ => return Ok(()),
        };
        if addr.0.checked_add(size_bytes).is_none() {
            return Err(SizeError::PastTheEnd { event: event.name(), addr, size_bytes });
        }
        self.add(event.name(), size_bytes)
    }

    fn add(&mut self, event: &'static str, size_bytes: u64) -> Result<(), SizeError> {
        self.named_bytes = self.named_bytes.saturating_add(size_bytes);
        if self.named_bytes > NAMED_BYTES_MAX {
            return Err(SizeError::TooMuch { event, size_bytes });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_do_not_add_up_are_refused() {
        let free = |addr: u64, size_bytes| Event::Free {
            addr: Addr(addr),
            requested_bytes: 1,
            size_bytes,
            pending: false,
        };
        let mut sizes = Sizes::default();
        assert_eq!(sizes.event(&free(512, 1 << 61)), Ok(()));
        assert_eq!(sizes.event(&free(u64::MAX - 512, 512)), Ok(()));
        let past = sizes.event(&free(u64::MAX - 512, 513)).unwrap_err();
        assert!(past.to_string().starts_with("free of 513 bytes at 0x"), "{past}");
        assert!(matches!(sizes.event(&free(512, 1 << 61)), Err(SizeError::TooMuch { .. })));
    }
}
