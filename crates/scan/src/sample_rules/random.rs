//! A small generator of random numbers, which is the same on every machine.

/// Random numbers from a seed (SplitMix64).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampleRandom(u64);

impl SampleRandom {
    /// Makes a generator; the same seed yields the same numbers.
    pub fn new(seed: u64) -> SampleRandom {
        SampleRandom(seed)
    }

    /// Returns the next number.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // The numbers are so much larger than any bound here that the remainder is even enough.
        (self.next_number() % (bound.max(1) as u64)) as usize
    }

    /// Returns one of the items.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn pick<'i, T>(&mut self, items: &'i [T]) -> &'i T {
        &items[self.below(items.len())]
    }

    /// Returns `len` characters from an alphabet of ASCII characters.
    ///
    /// # Panics
    ///
    /// If the alphabet is empty.
    pub fn characters(&mut self, alphabet: &str, len: usize) -> String {
        (0..len).map(|_| char::from(*self.pick(alphabet.as_bytes()))).collect()
    }
}
