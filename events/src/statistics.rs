//! An allocator's statistics as plain numbers, for recorders that keep a copy of them beside the events.

/// Number of values of [`Statistics`]: nine quantities of all, small and large pools, each with four values, two
/// quantities of four values, and six counts.
pub const STATISTICS: usize = 9 * 3 * 4 + 2 * 4 + 6;

/// The values of statistics, in the order of the allocator that counts them.
pub type StatisticsValues = [u64; STATISTICS];

/// Statistics that change with the events. They are read about once a second, so passing them costs nothing.
pub trait Statistics {
    /// The values now; `None` where nothing is counted.
    fn values(&self) -> Option<StatisticsValues>;
}

/// No statistics.
impl Statistics for () {
    fn values(&self) -> Option<StatisticsValues> {
        None
    }
}
