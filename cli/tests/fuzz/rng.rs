//! Random numbers, and those at the edges of what allocators and formats know.

/// A generator that gives the same numbers everywhere (xorshift64).
pub(crate) struct Rng(u64);

/// Sizes and addresses at which something changes.
const EDGES: [u64; 26] = [
    0,
    1,
    2,
    511,
    512,
    513,
    4096,
    (1 << 20) - 1,
    1 << 20,
    (1 << 20) + 1,
    2 << 20,
    10 << 20,
    20 << 20,
    (20 << 20) + 512,
    1 << 30,
    u32::MAX as u64,
    1 << 40,
    1 << 44,
    (1 << 44) + 512,
    1 << 47,
    (1 << 60) - 1,
    1 << 60,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 511,
    u64::MAX,
];

impl Rng {
    /// The generator of a file's number.
    pub(crate) fn of(number: u64) -> Self {
        let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((mixed ^ mixed >> 31) | 1)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `sides`; 0 where that is 0.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        ((self.bits() >> 11) % sides.max(1) as u64) as usize
    }

    /// True once in `sides` times.
    pub(crate) fn once_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.roll(of.len())]
    }

    /// A number below one of these.
    pub(crate) fn below_one_of(&mut self, sides: &[usize]) -> usize {
        let sides = *self.pick(sides);
        self.roll(sides)
    }

    /// A number at an edge, or one of any length.
    pub(crate) fn extreme(&mut self) -> u64 {
        match self.roll(4) {
            0 => self.bits() >> self.roll(64),
            1 => self.pick(&EDGES).wrapping_add(self.roll(5) as u64).wrapping_sub(2),
            _ => *self.pick(&EDGES),
        }
    }

    /// The size of a usual request.
    pub(crate) fn size(&mut self) -> u64 {
        let top = *self.pick(&[512, 4096, 1 << 20, 3 << 20, 40 << 20, 300 << 20]);
        1 + self.roll(top) as u64
    }

    /// `value`, or something else where this file is to be wrong: once in `rarity` times, never for 0.
    pub(crate) fn or_wrong(&mut self, value: u64, rarity: usize) -> u64 {
        if rarity > 0 && self.once_in(rarity) { self.extreme() } else { value }
    }

    /// Flips, overwrites, cuts out, repeats or inserts some of the bytes.
    pub(crate) fn change(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.roll(3) {
            let at = self.roll(bytes.len());
            let end = bytes.len().min(at + self.roll(24));
            match self.roll(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.roll(8),
                1 => bytes[at..end].fill([0, 1, 0x7f, 0x80, 0xff][self.roll(5)]),
                2 => drop(bytes.drain(at..end)),
                3 => bytes.extend_from_within(at..end),
                // The largest varint, for sums that overflow.
                4 => drop(bytes.splice(at..end, [[0xff; 9].as_slice(), &[1]].concat())),
                _ => bytes.insert(at.min(bytes.len()), self.bits() as u8),
            }
        }
    }
}
