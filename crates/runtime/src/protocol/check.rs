//! The check word: how a reader knows that it has a whole line.
//!
//! A producer seals every line of a live ring, so the check of a line is on its shortest path: it is computed four
//! words at a time where the machine can. Tests hold each form to the definition.

use pelton_device::memory::Line;

use super::slot::{CHECK, WORDS};

/// The check of a slot: the xor of the other fifteen words, each rotated left by its number. This is the definition.
pub const fn check(words: &[u32; WORDS]) -> u32 {
    let (mut sum, mut k) = (0, 0);
    while k < WORDS {
        if k != CHECK as usize {
            sum ^= words[k].rotate_left(k as u32);
        }
        k += 1;
    }
    sum
}

/// The check of a line, whatever stands in its check word.
#[inline]
pub fn line_check(line: &Line) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 machine has SSE2, which is all that the function needs.
    return unsafe { vector(line) };
    #[cfg(not(target_arch = "x86_64"))]
    portable(line)
}

/// Puts the check into a line whose other words are ready.
#[inline]
pub fn seal(line: &mut Line) {
    line[CHECK as usize / 2] = head(line) | u64::from(line_check(line));
}

/// Whether a line carries its own check.
#[inline]
pub fn sealed(line: &Line) -> bool {
    line[CHECK as usize / 2] as u32 == line_check(line)
}

/// The pair of the check word without it.
#[inline]
fn head(line: &Line) -> u64 {
    line[CHECK as usize / 2] & !u64::from(u32::MAX)
}

/// One chain over the pairs, from the last to the first.
///
/// A word rotated by less than 32 is the xor of the two halves of the same word shifted in 64 bits. So all fifteen
/// are shifted and summed in 64 bits, and the halves are joined once.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
fn portable(line: &Line) -> u32 {
    let mut sum = 0u64;
    for (k, pair) in line.iter().enumerate().rev() {
        let pair = if k == CHECK as usize / 2 { head(line) } else { *pair };
        sum = (sum << 2) ^ (pair & u64::from(u32::MAX)) ^ (pair >> 32 << 1);
    }
    sum as u32 ^ (sum >> 32) as u32
}

/// Four columns at once: a word four further on is rotated by four more, so each row rotates the sums of those below
/// it by four. The first row stays outside, since a producer has it in registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
fn vector(line: &Line) -> u32 {
    use std::arch::x86_64::{
        _mm_cvtsi128_si64, _mm_or_si128, _mm_set_epi64x, _mm_slli_epi32, _mm_srli_epi32, _mm_unpackhi_epi64,
        _mm_xor_si128,
    };
    let row = |k: usize| _mm_set_epi64x(line[2 * k + 1] as i64, line[2 * k] as i64);
    let rotate = |sums| _mm_or_si128(_mm_slli_epi32::<4>(sums), _mm_srli_epi32::<28>(sums));
    let mut sums = rotate(row(3));
    sums = rotate(_mm_xor_si128(sums, row(2)));
    sums = rotate(_mm_xor_si128(sums, row(1)));
    let a = _mm_cvtsi128_si64(sums) as u64 ^ line[0];
    let b = _mm_cvtsi128_si64(_mm_unpackhi_epi64(sums, sums)) as u64 ^ head(line);
    let (a0, a1, b0, b1) = (a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32);
    a0 ^ a1.rotate_left(1) ^ b0.rotate_left(2) ^ b1.rotate_left(3)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::Slot;

    proptest! {
        #[test]
        fn every_form_is_the_definition(words: [u32; WORDS]) {
            let line = Slot(words).line();
            prop_assert_eq!(portable(&line), check(&words));
            prop_assert_eq!(line_check(&line), check(&words));
        }
    }
}
