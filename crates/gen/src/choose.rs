//! Where choices come from: a seed, or bytes.
//!
//! Whatever is made here is made by choosing among few things, again and again. So a sequence of choices *is* what is
//! made, and making it smaller is making the sequence smaller: fewer choices, and choices nearer to 0. Whoever
//! asks must put the simplest thing first.

/// A source of choices.
pub trait Choose {
    /// A number less than `n`; 0 if `n` is 0.
    fn below(&mut self, n: usize) -> usize;
}

impl dyn Choose + '_ {
    /// True once in `n` times. False is the simpler choice.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) + 1 == n
    }

    /// One of a list, which is not empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        (0..8).fold(0, |bits, _| bits << 8 | self.below(256) as u64)
    }
}

/// Choices that a seed decides: the SplitMix64 sequence.
#[derive(Clone, Debug)]
pub struct Seed(pub u64);

impl Seed {
    /// The next 64 bits.
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

/// Choices that bytes decide: one a byte where there are at most 256 to choose from. After the last byte all are 0.
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
