//! The allocator's statistics in the ring's header, double-buffered and copied about once a second.

use events::{STATISTICS, StatisticsValues};

use super::layout::{HEADER_WORDS, HeaderField};
use super::look::Look;
use super::protocol::double_buffer::DoubleBuffer;
use super::protocol::store_all;
use super::region::Region;

/// The number of the first record that is not counted, and the values.
const COPY_WORDS: usize = 1 + STATISTICS;

const NEWEST: DoubleBuffer = DoubleBuffer {
    count_at: HeaderField::StatisticsCount as usize,
    start: HeaderField::Statistics as usize,
    copy_words: COPY_WORDS,
};
const _: () = assert!(NEWEST.start + 2 * COPY_WORDS <= HEADER_WORDS);

/// Makes `values` the newest copy; record `next` is the first that is not counted. One writer at a time.
pub(super) fn copy(region: &Region, next: u64, values: &StatisticsValues) {
    let mut words = [next; COPY_WORDS];
    words[1..].copy_from_slice(values);
    NEWEST.write(region.words(), |copy, _| store_all(copy, &words));
}

/// The newest copy, and the number of the first record that it does not count; `None` before the first copy.
pub(super) fn newest(look: &impl Look) -> Option<(StatisticsValues, u64)> {
    let mut words = [0; COPY_WORDS];
    let [next, values @ ..] = NEWEST.read(look, &mut words).then_some(words)?;
    Some((values, next))
}

#[cfg(test)]
mod tests {
    use super::super::layout::Shape;
    use super::*;

    #[test]
    fn the_last_copy_is_read_and_before_the_first_there_is_none() {
        let region = Region::anonymous(Shape::new(1, 1)).unwrap();
        assert_eq!(newest(&region), None);
        for number in 1..4 {
            let values = std::array::from_fn(|at| number * 1000 + at as u64);
            copy(&region, number, &values);
            assert_eq!(newest(&region), Some((values, number)));
        }
    }
}
