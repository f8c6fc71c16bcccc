//! Numbers that look random and follow from a seed.

/// The SplitMix64 sequence of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of a seed. Those of neighbouring seeds have nothing in common.
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        Random(random.next_bits())
    }

    fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Any word.
    pub(crate) fn next_word(&mut self) -> u32 {
        (self.next_bits() >> 32) as u32
    }

    /// A number less than `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.next_word()) * u64::from(bound)) >> 32) as u32
    }

    /// True once in `times` times.
    pub(crate) fn one_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }
}
