//! A stack in 96 bits, computed while it is walked.

/// One line of a stack as it is found: an address that stands for its code, and a place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CodePosition {
    /// Python: the code object, which is kept alive. Native: the return address.
    pub(crate) code: usize,
    /// Python: the offset of the instruction in bytes, or [`LINE`](Self::LINE) and the line. Native:
    /// [`NATIVE`](Self::NATIVE).
    pub(crate) at: u32,
}

impl CodePosition {
    /// Marks a place that is a line and no offset.
    pub(crate) const LINE: u32 = 1 << 31;
    /// Of all native places.
    pub(crate) const NATIVE: u32 = u32::MAX;
}

/// Two stacks with one fingerprint are taken for one stack. For 100,000 stacks that happens once in 10^19 programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) hash: u64,
    check: u64,
}

/// Digits of the square roots of 2, 3 and 5.
const SEED: u64 = 0x6a09_e667_f3bc_c908;
const FACTOR: u64 = 0xbb67_ae85_84ca_a73b;
const CHECK_FACTOR: u64 = 0x3c6e_f372_fe94_f82b;

impl Fingerprint {
    /// Of no place at all.
    pub(crate) const EMPTY: Self = Self { hash: SEED, check: FACTOR };

    /// Adds the next place outwards.
    #[inline]
    pub(crate) fn add(&mut self, place: CodePosition) {
        let product = u128::from(self.hash ^ place.code as u64)
            * u128::from(FACTOR ^ u64::from(place.at).rotate_left(17));
        self.hash = product as u64 ^ (product >> 64) as u64;
        let both = place.code as u64 ^ u64::from(place.at).rotate_left(48);
        self.check = (self.check.rotate_left(5) ^ both).wrapping_mul(CHECK_FACTOR);
    }

    /// The other 32 bits.
    #[inline]
    pub(crate) fn check(self) -> u32 {
        (self.check >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn of(places: &[(usize, u32)]) -> Fingerprint {
        let mut print = Fingerprint::EMPTY;
        for &(code, at) in places {
            print.add(CodePosition { code, at });
        }
        print
    }

    #[test]
    fn order_depth_code_and_place_make_a_difference() {
        let (a, b) = ((0x7f00_0000_1000, 4), (0x7f00_0000_2000, 8));
        let prints = [
            of(&[]),
            of(&[a]),
            of(&[a, a]),
            of(&[a, b]),
            of(&[b, a]),
            of(&[(a.0, b.1)]),
            of(&[(a.0, b.1), (b.0, a.1)]),
        ];
        let hashes: HashSet<u64> = prints.iter().map(|print| print.hash).collect();
        let checks: HashSet<u32> = prints.iter().map(|print| print.check()).collect();
        assert_eq!((hashes.len(), checks.len()), (prints.len(), prints.len()));
    }

    /// Each half alone is good enough: code objects lie close together, and stacks differ in one place only.
    #[test]
    fn a_million_similar_stacks_have_distinct_fingerprints() {
        let base = 0x7f12_3456_7000_usize;
        let mut hashes = HashSet::new();
        let mut both = HashSet::new();
        for n in 0..1_000_000_usize {
            let digits = (0..6).map(|digit| (n / 10_usize.pow(digit)) % 10);
            let places: Vec<_> =
                digits.map(|digit| (base + digit * 0x90, digit as u32 * 2)).collect();
            let print = of(&places);
            hashes.insert(print.hash);
            both.insert((print.hash as u32, print.check()));
        }
        assert_eq!((hashes.len(), both.len()), (1_000_000, 1_000_000));
    }
}
