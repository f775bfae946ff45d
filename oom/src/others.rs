//! Memory of the device that the allocator does not hold.

/// Memory of a CUDA context, which every process has beside its allocations.
pub const CONTEXT_BYTES: u64 = 512 << 20;

/// What the name of the mark begins with that states the memory of the recording process at an out of memory.
const MARK: &str = "memory of this process: used_bytes=";

/// The name of a mark that follows an out of memory on a tape: what this process uses of the device in all.
pub fn mark_of_process(used_bytes: u64) -> String {
    format!("{MARK}{used_bytes}")
}

/// The bytes in such a name; `None` if it is another mark's.
pub fn process_of_mark(name: &str) -> Option<u64> {
    name.strip_prefix(MARK)?.parse().ok()
}

/// Memory of the device that the allocator does not hold and that is not free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// All of it.
    pub bytes: u64,
    /// The part that counts as the CUDA context of this process, which no program can do without. 0 where what the
    /// process holds is not known.
    pub context_bytes: u64,
    /// What this process holds besides: libraries, and other allocators.
    pub outside_bytes: u64,
}

impl Others {
    /// These bytes, of a device of which this process holds `process_bytes` in all and `reserved_bytes` in the
    /// allocator.
    pub fn new(bytes: u64, process_bytes: Option<u64>, reserved_bytes: u64) -> Self {
        let own_bytes = process_bytes.map_or(0, |bytes| bytes.saturating_sub(reserved_bytes));
        let own_bytes = own_bytes.min(bytes);
        let context_bytes = own_bytes.min(CONTEXT_BYTES);
        Self { bytes, context_bytes, outside_bytes: own_bytes - context_bytes }
    }

    /// The part that other processes hold, their contexts included.
    pub fn of_processes_bytes(&self) -> u64 {
        self.bytes - self.context_bytes - self.outside_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_context_and_the_allocators_own_are_not_outside() {
        let others = Others::new(3000 * MIB, Some(2800 * MIB), 1000 * MIB);
        assert_eq!(others.outside_bytes, 1288 * MIB);
        assert_eq!(others.context_bytes, 512 * MIB);
        assert_eq!(others.of_processes_bytes(), 1200 * MIB);
    }

    #[test]
    fn a_mark_is_read_as_it_is_written() {
        assert_eq!(process_of_mark(&mark_of_process(u64::MAX)), Some(u64::MAX));
        for other in ["", "memory of this process", "memory of this process: used_bytes=-1"] {
            assert_eq!(process_of_mark(other), None);
        }
    }

    #[test]
    fn without_a_number_for_the_process_all_is_of_others() {
        let others = Others::new(700 * MIB, None, 1000 * MIB);
        assert_eq!((others.outside_bytes, others.of_processes_bytes()), (0, 700 * MIB));
    }

    #[test]
    fn numbers_that_contradict_each_other_do_not_wrap() {
        let others = Others::new(10, Some(u64::MAX), 0);
        assert_eq!((others.context_bytes, others.outside_bytes), (10, 0));
        assert_eq!(Others::new(10, Some(5), 100).outside_bytes, 0);
    }
}
