//! Sources of choices: a seed, or bytes.
//!
//! The generator makes everything by choosing among few alternatives, again and again. A sequence of choices
//! therefore determines the result, and a smaller sequence, with fewer choices or choices nearer to 0, determines a
//! smaller result. For this to work, every caller must list the simplest alternative first.

/// A source of choices.
pub trait Choose {
    /// Returns a number less than `n`, or 0 if `n` is 0.
    fn below(&mut self, n: usize) -> usize;
}

impl dyn Choose + '_ {
    /// Returns true once in `n` times. False counts as the simpler choice.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) + 1 == n
    }

    /// Returns one element of a list, which must not be empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Returns any 64 bits.
    pub fn bits(&mut self) -> u64 {
        (0..8).fold(0, |bits, _| bits << 8 | self.below(256) as u64)
    }
}

/// Choices from a seed, by the SplitMix64 sequence.
#[derive(Clone, Debug)]
pub struct Seed(pub u64);

impl Seed {
    /// Returns the next 64 bits of the sequence.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Choose for Seed {
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.draw()) * n as u128) >> 64) as usize
    }
}

/// Choices from bytes: one byte per choice among at most 256 alternatives. Once the bytes are used up, every choice
/// is 0.
#[derive(Clone, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl Choose for Bytes<'_> {
    fn below(&mut self, n: usize) -> usize {
        let (mut number, mut room) = (0_u64, 1_u64);
        while room < n as u64 {
            let byte = match self.0.split_first() {
                Some((first, rest)) => {
                    self.0 = rest;
                    *first
                }
                None => 0,
            };
            number = number << 8 | u64::from(byte);
            room = room.saturating_mul(256);
        }
        (number % (n as u64).max(1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Choose, Seed};

    #[test]
    fn bytes_are_choices_and_end_in_zeros() {
        let mut bytes = Bytes(&[7, 1, 44, 9]);
        assert_eq!([bytes.below(1), bytes.below(4), bytes.below(1000)], [0, 3, 300]);
        assert_eq!([bytes.below(256), bytes.below(5), bytes.below(0)], [9, 0, 0]);
    }

    #[test]
    fn seeds_reach_every_choice() {
        let mut seed = Seed(1);
        let mut seen = [false; 7];
        (0..200).for_each(|_| seen[seed.below(7)] = true);
        assert_eq!(seen, [true; 7]);
    }
}
