//! Columns: a run in equal stretches of moments, at several levels of detail.
//!
//! A column is drawn at its peak moment, so that no peak is hidden and what is stacked there is exact.

/// Moments of a column of a page's finest level.
pub(crate) const COLUMN_MOMENTS: u32 = 256;
/// Columns of a level that one column of the next level covers.
const STEP: usize = 4;
/// The coarsest level has at most so many columns.
const COARSEST_COLUMNS: usize = 1024;

/// Memory over the moments of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// The first moment with the most allocated bytes.
    pub(crate) peak_moment: u32,
    /// The counters at that moment.
    pub(crate) at_peak: Counters,
    pub(crate) allocated_least: u64,
    pub(crate) allocated_last: u64,
    pub(crate) reserved_most: u64,
    pub(crate) reserved_least: u64,
    pub(crate) reserved_last: u64,
}

/// Memory at one moment.
#[expect(clippy::struct_field_names, reason = "units are part of names")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) allocated_bytes: u64,
    pub(crate) active_bytes: u64,
    pub(crate) requested_bytes: u64,
    pub(crate) reserved_bytes: u64,
}

impl Column {
    fn new(moment: u32, counters: Counters) -> Self {
        let Counters { allocated_bytes, reserved_bytes, .. } = counters;
        Self {
            peak_moment: moment,
            at_peak: counters,
            allocated_least: allocated_bytes,
            allocated_last: allocated_bytes,
            reserved_most: reserved_bytes,
            reserved_least: reserved_bytes,
            reserved_last: reserved_bytes,
        }
    }

    /// This column and what comes behind it, as one.
    fn and(self, next: &Self) -> Self {
        let first =
            if next.at_peak.allocated_bytes > self.at_peak.allocated_bytes { next } else { &self };
        Self {
            peak_moment: first.peak_moment,
            at_peak: first.at_peak,
            allocated_least: self.allocated_least.min(next.allocated_least),
            allocated_last: next.allocated_last,
            reserved_most: self.reserved_most.max(next.reserved_most),
            reserved_least: self.reserved_least.min(next.reserved_least),
            reserved_last: next.reserved_last,
        }
    }
}

/// The columns of one level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Level {
    /// Moments of a column.
    pub(crate) column_moments: u32,
    pub(crate) columns: Vec<Column>,
}

impl Level {
    /// The finest level, without a moment.
    pub(crate) fn finest(moments: u32, column_moments: u32) -> Self {
        let columns = Vec::with_capacity(moments.div_ceil(column_moments) as usize);
        Self { column_moments, columns }
    }

    /// Adds the next moment.
    #[inline]
    pub(crate) fn add(&mut self, moment: u32, counters: Counters) {
        let next = Column::new(moment, counters);
        match self.columns.last_mut() {
            Some(column) if !moment.is_multiple_of(self.column_moments) => {
                *column = column.and(&next);
            }
            _ => self.columns.push(next),
        }
    }

    fn coarser(&self) -> Self {
        let joined = |columns: &[Column]| columns[1..].iter().fold(columns[0], Column::and);
        Self {
            column_moments: self.column_moments * STEP as u32,
            columns: self.columns.chunks(STEP).map(joined).collect(),
        }
    }

    /// This level and those above it, from fine to coarse.
    pub(crate) fn with_coarser(self) -> Vec<Self> {
        let mut levels = vec![self];
        while let Some(last) = levels.last()
            && last.columns.len() > COARSEST_COLUMNS
        {
            levels.push(last.coarser());
        }
        levels
    }

    /// The first column whose peak shows a change at `moment`; the number of columns where none does.
    #[inline]
    pub(crate) fn shows_from(&self, moment: u32) -> u32 {
        let at = moment / self.column_moments;
        match self.columns.get(at as usize) {
            Some(column) if column.peak_moment < moment => at + 1,
            _ => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(allocated_bytes: &[u64]) -> Level {
        let mut level = Level::finest(allocated_bytes.len() as u32, COLUMN_MOMENTS);
        for (moment, &allocated_bytes) in allocated_bytes.iter().enumerate() {
            let reserved_bytes = 2 * allocated_bytes;
            let counters = Counters { allocated_bytes, reserved_bytes, ..Counters::default() };
            level.add(moment as u32, counters);
        }
        level
    }

    #[test]
    fn a_column_has_its_first_highest_moment_and_its_extremes() {
        let mut bytes = vec![5; 2 * COLUMN_MOMENTS as usize + 1];
        (bytes[7], bytes[9], bytes[11]) = (90, 90, 1);
        let level = level(&bytes);
        assert_eq!(level.columns.len(), 3);
        let first = level.columns[0];
        assert_eq!((first.peak_moment, first.at_peak.allocated_bytes), (7, 90));
        assert_eq!((first.allocated_least, first.allocated_last), (1, 5));
        assert_eq!((first.reserved_most, first.reserved_least, first.reserved_last), (180, 2, 10));
        assert_eq!((level.shows_from(7), level.shows_from(8), level.shows_from(256)), (0, 1, 1));
        assert_eq!(level.shows_from(513), 3, "behind the last peak no column shows it");
    }

    #[test]
    fn a_coarser_column_is_one_of_its_columns_at_its_highest() {
        let bytes: Vec<u64> = (0..2_000_000u64).map(|at| at * 7919 % 10_007).collect();
        let levels = level(&bytes).with_coarser();
        assert!(levels.len() > 2 && levels.last().unwrap().columns.len() <= COARSEST_COLUMNS);
        for level in &levels {
            let width = level.column_moments as usize;
            for (column, moments) in level.columns.iter().zip(bytes.chunks(width)) {
                let most = *moments.iter().max().unwrap();
                assert_eq!(column.at_peak.allocated_bytes, most);
                assert_eq!(bytes[column.peak_moment as usize], most);
                assert_eq!(column.allocated_least, *moments.iter().min().unwrap());
                assert_eq!(column.allocated_last, *moments.last().unwrap());
            }
        }
    }
}
