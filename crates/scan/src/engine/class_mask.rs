//! Searching runs of bytes of one class with vector instructions.
//!
//! For 64 bytes at a time a mask says which of them belong to a class. Runs are then found in the masks alone.

use std::ops::Range;

use crate::candidate::Candidate;
use crate::catalog::ClassRun;

/// Runs of one class of ASCII bytes, for a processor that has the instructions.
///
/// A value exists only where [`is_supported`](Self::is_supported) is true.
#[derive(Debug)]
pub(super) struct MaskedRuns {
    /// For each lower half of a byte the upper halves with which it belongs to the class, one bit each.
    low_halves: [u8; 16],
    /// The runs, the shortest first.
    runs: Vec<ClassRun>,
}

impl MaskedRuns {
    /// Returns whether this processor has the instructions.
    fn is_supported() -> bool {
        #[cfg(target_arch = "x86_64")]
        return std::arch::is_x86_feature_detected!("avx2");
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    /// Takes the runs that can be searched in this way, by class, and returns the others too.
    pub(super) fn take(runs: &[ClassRun]) -> (Vec<MaskedRuns>, Vec<ClassRun>) {
        let is_ascii = |run: &ClassRun| (0x80..=0xff).all(|byte| !run.class.contains(byte));
        let (mut taken, others): (Vec<ClassRun>, Vec<ClassRun>) =
            runs.iter().partition(|run| MaskedRuns::is_supported() && is_ascii(run));
        taken.sort_by_key(|run| run.length);
        let mut masked: Vec<MaskedRuns> = Vec::new();
        for run in taken {
            match masked.iter_mut().find(|masked| masked.runs[0].class == run.class) {
                Some(masked) => masked.runs.push(run),
                None => masked.push(MaskedRuns { low_halves: low_halves(&run), runs: vec![run] }),
            }
        }
        (masked, others)
    }

    /// Does what [`RunGroup::find`](super::class_run::RunGroup::find) does.
    pub(super) fn find(&self, text: &[u8], own: Range<usize>, out: &mut Vec<Candidate>) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a value exists only where the processor has AVX2.
        unsafe {
            match self.runs[0].length.ilog2() {
                0 => self.find_with_avx2::<0>(text, own, out),
                1 => self.find_with_avx2::<1>(text, own, out),
                2 => self.find_with_avx2::<2>(text, own, out),
                3 => self.find_with_avx2::<3>(text, own, out),
                4 => self.find_with_avx2::<4>(text, own, out),
                5 => self.find_with_avx2::<5>(text, own, out),
                _ => self.find_with_avx2::<6>(text, own, out),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (text, own, out);
    }

    /// Does it where the shortest run has at least `2^LOG` bytes.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn find_with_avx2<const LOG: u32>(&self, text: &[u8], own: Range<usize>, out: &mut Vec<Candidate>) {
        let shortest = self.runs[0].length as usize;
        let longest = self.runs[self.runs.len() - 1].length as usize;
        let start = own.start.saturating_sub(longest - 1);
        // The number of bytes of the class that end where the next block begins.
        let mut carry = 0;
        let (blocks, rest) = text[start..own.end].as_chunks::<64>();
        for (number, block) in blocks.iter().enumerate() {
            let mask = class_mask(block, &self.low_halves);
            carry = self.read_mask::<LOG>(mask, start + number * 64, carry, shortest, own.start, out);
        }
        // What follows the text belongs to no class, so that a run that reaches its end is seen to end.
        let mut last = [0x80; 64];
        last[..rest.len()].copy_from_slice(rest);
        let mask = class_mask(&last, &self.low_halves);
        self.read_mask::<LOG>(mask, start + blocks.len() * 64, carry, shortest, own.start, out);
    }

    /// Reports the runs that end in a block, which begins at `at`. Returns the length of the run at its end.
    #[inline(always)]
    fn read_mask<const LOG: u32>(
        &self,
        mask: u64,
        at: usize,
        carry: usize,
        shortest: usize,
        own_start: usize,
        out: &mut Vec<Candidate>,
    ) -> usize {
        if mask == u64::MAX {
            return carry + 64;
        }
        let first_end = mask.trailing_ones() as usize;
        if carry + first_end >= shortest || has_run::<LOG>(mask) {
            self.report(mask, at, carry, own_start, out);
        }
        mask.leading_ones() as usize
    }

    /// Reports the runs that end in a block and are long enough.
    #[cold]
    fn report(&self, mask: u64, at: usize, carry: usize, own_start: usize, out: &mut Vec<Candidate>) {
        let first_end = mask.trailing_ones();
        self.push(at - carry..at + first_end as usize, own_start, out);
        let mut place = first_end;
        loop {
            // The bit at `place` is not set.
            let rest = mask >> place;
            if rest == 0 {
                return;
            }
            let first = place + rest.trailing_zeros();
            let end = first + (mask >> first).trailing_ones();
            if end == 64 {
                return;
            }
            self.push(at + first as usize..at + end as usize, own_start, out);
            place = end;
        }
    }

    /// Appends the candidates of a run that cannot be extended.
    fn push(&self, range: Range<usize>, own_start: usize, out: &mut Vec<Candidate>) {
        for run in &self.runs {
            let length = run.length as usize;
            // Nothing that begins before this position ends in the engine's own part of the text.
            let first = range.start.max(own_start.saturating_sub(length - 1));
            if let Some(last) = range.end.checked_sub(length).filter(|&last| last >= first) {
                out.push(Candidate { first: first as u32, last: last as u32, branch: run.branch });
            }
        }
    }
}

/// Returns whether at least `2^LOG` consecutive bits are set.
#[inline(always)]
fn has_run<const LOG: u32>(mut mask: u64) -> bool {
    for log in 0..LOG {
        mask &= mask >> (1 << log);
    }
    mask != 0
}

/// Makes the table of lower halves.
fn low_halves(run: &ClassRun) -> [u8; 16] {
    let mut table = [0; 16];
    for byte in (0..0x80u8).filter(|&byte| run.class.contains(byte)) {
        table[usize::from(byte & 15)] |= 1 << (byte >> 4);
    }
    table
}

/// Returns which bytes belong to the class, one bit each.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn class_mask(block: &[u8; 64], low_halves: &[u8; 16]) -> u64 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_loadu_si128, _mm_set_epi8, _mm256_and_si256, _mm256_broadcastsi128_si256,
        _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_set1_epi8, _mm256_setzero_si256,
        _mm256_shuffle_epi8, _mm256_srli_epi16,
    };
    // SAFETY: 16 bytes are read from an array of 16.
    let low_table = unsafe { _mm_loadu_si128(low_halves.as_ptr().cast::<__m128i>()) };
    let low_table = _mm256_broadcastsi128_si256(low_table);
    // The bit of each upper half; those of bytes that are not ASCII have none.
    let high_bits = _mm_set_epi8(0, 0, 0, 0, 0, 0, 0, 0, i8::MIN, 64, 32, 16, 8, 4, 2, 1);
    let high_table = _mm256_broadcastsi128_si256(high_bits);
    let half = |place: usize| {
        // SAFETY: `place` is 0 or 32, so the 32 bytes lie in the block of 64.
        let bytes = unsafe { _mm256_loadu_si256(block.as_ptr().add(place).cast::<__m256i>()) };
        // A shuffle looks at the lower half of a byte, and yields 0 for one that is not ASCII.
        let allowed = _mm256_shuffle_epi8(low_table, bytes);
        let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), _mm256_set1_epi8(15));
        let bit = _mm256_shuffle_epi8(high_table, upper);
        let outside = _mm256_cmpeq_epi8(_mm256_and_si256(allowed, bit), _mm256_setzero_si256());
        !_mm256_movemask_epi8(outside) as u32
    };
    u64::from(half(0)) | u64::from(half(32)) << 32
}
