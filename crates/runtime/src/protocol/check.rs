//! The check word, by which a reader knows that it has read a whole line.
//!
//! A producer seals every line of a live ring, so computing the check is part of the cost of every task. Where the
//! machine allows it, the check is computed over four or sixteen words at a time. Tests compare each form with the
//! definition.

use pelton_device::View64;
use pelton_device::memory::Line;

use super::slot::{CHECK, Slot, WORDS};

/// Returns the check of a slot: the xor of the other fifteen words, each rotated left by its own number. This is the
/// definition.
pub const fn slot_check(words: &[u32; WORDS]) -> u32 {
    let (mut sum, mut k) = (0, 0);
    while k < WORDS {
        if k != CHECK as usize {
            sum ^= words[k].rotate_left(k as u32);
        }
        k += 1;
    }
    sum
}

/// Returns the check of a line. The present content of the check word does not matter.
#[inline]
pub fn line_check(line: &Line) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 machine has SSE2, which is all that the function needs.
    return unsafe { vector_check(line) };
    #[cfg(not(target_arch = "x86_64"))]
    portable_check(line)
}

/// Writes the check into a line whose other words are ready.
#[inline]
pub fn seal_line(line: &mut Line) {
    line[CHECK as usize / 2] = check_pair(line) | u64::from(line_check(line));
}

/// Writes the lines of slots with their checks. The present content of the slots' check words does not matter.
#[inline]
pub fn seal_slots(slots: &[Slot], lines: &mut [Line]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has AVX-512F, which is all that the function needs.
        return unsafe { wide::seal_slots(slots, lines) };
    }
    for (slot, line) in slots.iter().zip(lines) {
        *line = slot.line();
        seal_line(line);
    }
}

/// Writes the lines of slots with their checks into shared memory, starting at word `at`. A reader that is not guided
/// by a tail may see parts of a line, and then the check does not match.
#[inline]
pub fn seal_slots_into(slots: &[Slot], to: &View64, at: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has AVX-512F, which is all that the function needs.
        return unsafe { wide::seal_slots_into(slots, &to[at..at + slots.len() * (WORDS / 2)]) };
    }
    for (at, slot) in (at..).step_by(WORDS / 2).zip(slots) {
        let mut line = slot.line();
        seal_line(&mut line);
        to.write(at, &line);
    }
}

/// Seals a slot with all of its words in one register.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::*;
    use std::sync::atomic::AtomicU64;

    use super::{CHECK, Line, Slot};

    /// Rotates the words, folds them until one is left, and puts that one into the place of the check word.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn sealed(slot: &Slot) -> __m512i {
        const THERE: u16 = 1 << CHECK;
        let turns = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        // SAFETY: a slot is 64 bytes.
        let words = unsafe { _mm512_loadu_si512(slot.0.as_ptr().cast()) };
        let turned = _mm512_maskz_rolv_epi32(!THERE, words, turns);
        let half = _mm256_xor_si256(_mm512_castsi512_si256(turned), _mm512_extracti64x4_epi64::<1>(turned));
        let four = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
        let two = _mm_xor_si128(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
        let one = _mm_xor_si128(two, _mm_shuffle_epi32::<0b10_11_00_01>(two));
        _mm512_mask_mov_epi32(words, THERE, _mm512_castsi128_si512(one))
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn seal_slots(slots: &[Slot], lines: &mut [Line]) {
        for (slot, line) in slots.iter().zip(lines) {
            // SAFETY: a line is 64 bytes.
            unsafe { _mm512_storeu_si512(line.as_mut_ptr().cast(), sealed(slot)) };
        }
    }

    #[cfg(not(miri))]
    #[target_feature(enable = "avx512f")]
    pub(super) fn seal_slots_into(slots: &[Slot], words: &[AtomicU64]) {
        let (lines, _) = words.as_chunks();
        for (slot, line) in slots.iter().zip(lines) {
            pelton_device::view::whole(line, sealed(slot));
        }
    }
}

/// Returns whether the check word of a line matches its other words.
#[inline]
pub fn is_sealed(line: &Line) -> bool {
    line[CHECK as usize / 2] as u32 == line_check(line)
}

/// Returns the pair of words that contains the check word, with the check word cleared.
#[inline]
fn check_pair(line: &Line) -> u64 {
    line[CHECK as usize / 2] & !u64::from(u32::MAX)
}

/// Computes the check in one chain over the pairs of words, from the last pair to the first.
///
/// A word rotated by less than 32 is the xor of the two halves of the same word shifted in 64 bits. So all fifteen
/// words are shifted and combined in 64 bits, and the halves are joined once.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
fn portable_check(line: &Line) -> u32 {
    let mut sum = 0u64;
    for (k, pair) in line.iter().enumerate().rev() {
        let pair = if k == CHECK as usize / 2 { check_pair(line) } else { *pair };
        sum = (sum << 2) ^ (pair & u64::from(u32::MAX)) ^ (pair >> 32 << 1);
    }
    sum as u32 ^ (sum >> 32) as u32
}

/// Computes the check in four columns at once. A word four places further on is rotated by four more bits, so each row
/// rotates the combination of the rows below it by four. The first row is handled apart, because a producer has it in
/// registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
fn vector_check(line: &Line) -> u32 {
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
    let b = _mm_cvtsi128_si64(_mm_unpackhi_epi64(sums, sums)) as u64 ^ check_pair(line);
    let (a0, a1, b0, b1) = (a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32);
    a0 ^ a1.rotate_left(1) ^ b0.rotate_left(2) ^ b1.rotate_left(3)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use pelton_device::{Memory, MemoryKind, WordWidth};
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::Slot;

    proptest! {
        #[test]
        fn every_form_is_the_definition(words: [u32; WORDS]) {
            let line = Slot(words).line();
            prop_assert_eq!(portable_check(&line), slot_check(&words));
            prop_assert_eq!(line_check(&line), slot_check(&words));
            let mut lines = [[0; WORDS / 2]; 3];
            seal_slots(&[Slot(words); 2], &mut lines[..2]);
            let mut line = line;
            seal_line(&mut line);
            prop_assert_eq!(lines, [line, line, [0; WORDS / 2]]);
            let view = Memory::mapped(MemoryKind::Host, WordWidth::W64, 32).unwrap().view64().unwrap();
            seal_slots_into(&[Slot(words); 2], &view, 8);
            let found: Vec<u64> = view.iter().map(|word| word.load(Ordering::Relaxed)).collect();
            let wanted = [[0; WORDS / 2], line, line, [0; WORDS / 2]];
            prop_assert_eq!(found, wanted.as_flattened());
        }
    }
}
