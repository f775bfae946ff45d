//! Which classes hold a block: a bit each, and a bit for each word of those that is not zero.

/// Numbers below 4096; the next one from anywhere is two steps away (as in TLSF, Masmano et al. 2004).
#[derive(Clone, Debug)]
pub(super) struct Bitmap {
    /// Which of the words are not zero.
    summary: u64,
    words: [u64; 64],
}

impl Bitmap {
    pub(super) const LEN: usize = 64 * 64;

    pub(super) const fn new() -> Self {
        Self { summary: 0, words: [0; 64] }
    }

    #[inline]
    pub(super) const fn set(&mut self, number: usize) {
        let word = number / 64 % 64;
        self.words[word] |= 1 << (number % 64);
        self.summary |= 1 << word;
    }

    #[inline]
    pub(super) const fn clear(&mut self, number: usize) {
        let word = number / 64 % 64;
        self.words[word] &= !(1 << (number % 64));
        if self.words[word] == 0 {
            self.summary &= !(1 << word);
        }
    }

    /// The smallest number that is set and not below `from`.
    #[inline]
    pub(super) const fn first_from(&self, from: usize) -> Option<usize> {
        let word = from / 64 % 64;
        let bits = self.words[word] & (u64::MAX << (from % 64));
        if bits != 0 {
            return Some(word * 64 + bits.trailing_zeros() as usize);
        }
        // Two shifts, as there is none by 64.
        let later = self.summary & (u64::MAX << word << 1);
        if later == 0 {
            return None;
        }
        let word = later.trailing_zeros() as usize;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// The numbers that are set, in order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = usize> {
        let set = |bits: u64| (0..64).filter(move |bit| bits >> bit & 1 == 1);
        set(self.summary)
            .flat_map(move |word| set(self.words[word]).map(move |bit| word * 64 + bit))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_an_ordered_set(
            ops in prop::collection::vec((0..Bitmap::LEN, any::<bool>()), 1..200),
            from in 0..Bitmap::LEN,
        ) {
            let (mut bitmap, mut set) = (Bitmap::new(), BTreeSet::new());
            for (number, insert) in ops {
                if insert {
                    bitmap.set(number);
                    set.insert(number);
                } else {
                    // Also the next one that is there, so that words empty again.
                    for number in [Some(number), set.range(number..).next().copied()].into_iter().flatten() {
                        bitmap.clear(number);
                        set.remove(&number);
                    }
                }
                prop_assert!(bitmap.iter().eq(set.iter().copied()));
                prop_assert!(bitmap.iter().rev().eq(set.iter().rev().copied()));
                for from in [from, number] {
                    prop_assert_eq!(bitmap.first_from(from), set.range(from..).next().copied());
                }
            }
        }
    }
}
