//! Views of mapped memory, which reach its words without asking the memory each time.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::memory::{Line, Memory, MemoryStore};

/// The words of a block of mapped memory, as a slice of atomics. A view keeps its block alive.
pub struct View<A> {
    words: NonNull<[A]>,
    _store: Arc<dyn MemoryStore>,
}

/// A view of words of 32 bits.
pub type View32 = View<AtomicU32>;
/// A view of words of 64 bits.
pub type View64 = View<AtomicU64>;

// SAFETY: a view is a shared slice of atomics in memory that the store keeps in place for as long as it lives.
unsafe impl<A: Sync> Send for View<A> {}
// SAFETY: as above.
unsafe impl<A: Sync> Sync for View<A> {}

impl<A> Clone for View<A> {
    fn clone(&self) -> Self {
        View { words: self.words, _store: self._store.clone() }
    }
}

impl<A> Deref for View<A> {
    type Target = [A];
    #[inline]
    fn deref(&self) -> &[A] {
        // SAFETY: the words come from the store, which is alive, does not move them, and hands them out only shared.
        unsafe { self.words.as_ref() }
    }
}

impl View64 {
    /// Writes a line whose first word is at `at`. A reader that acquires the new values of the first two words also sees the other
    /// words. Which of the first two becomes visible first is not specified.
    #[inline(always)]
    pub fn write(&self, at: usize, line: &Line) {
        let words = &self[at..at + line.len()];
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: every x86-64 machine has SSE2, which is all that the function needs.
        unsafe {
            wide(words, line);
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        for (word, value) in words.iter().zip(line).rev() {
            word.store(*value, std::sync::atomic::Ordering::Release);
        }
    }

    /// Writes lines one after another, the first at word `at`, each as [`write`](View64::write) does.
    #[inline]
    pub fn write_all(&self, at: usize, lines: &[Line]) {
        let (words, _) = self[at..at + lines.as_flattened().len()].as_chunks::<8>();
        for (words, line) in words.iter().zip(lines) {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            copy(words, line);
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            for (word, value) in words.iter().zip(line).rev() {
                word.store(*value, std::sync::atomic::Ordering::Release);
            }
        }
    }

    /// Reads words one after another, from word `at` on, each with an acquire load. Stores their high halves in `high`, and gives
    /// whether every low half is equal to `low`.
    #[inline]
    pub fn halves(&self, at: usize, low: u32, high: &mut [u32]) -> bool {
        let words = &self[at..at + high.len()];
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has what the function needs.
            return unsafe { eights(words, low, high) };
        }
        ones(words, low, high)
    }
}

#[inline]
fn ones(words: &[AtomicU64], low: u32, high: &mut [u32]) -> bool {
    let differ = words.iter().zip(high).fold(0, |differ, (word, high)| {
        let word = word.load(std::sync::atomic::Ordering::Acquire);
        *high = (word >> 32) as u32;
        differ | (word as u32 ^ low)
    });
    differ == 0
}

/// [`View64::halves`] with eight words per load. Loads of x86-64 are seen in order, so each of them acquires.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f")]
fn eights(words: &[AtomicU64], low: u32, high: &mut [u32]) -> bool {
    use std::arch::x86_64::*;
    let (words, rest) = words.as_chunks::<8>();
    let (high, more) = high.as_chunks_mut::<8>();
    let wanted = _mm512_set1_epi64(low.into());
    let mut differ = _mm512_setzero_si512();
    for (words, high) in words.iter().zip(high) {
        let found: __m512i;
        // SAFETY: these are eight words. They are shared as atomics, and each eighth of such a load is one.
        unsafe {
            std::arch::asm!(
                "vmovdqu64 {found}, [{from}]",
                from = in(reg) words.as_ptr(),
                found = out(zmm_reg) found,
                options(nostack, preserves_flags),
            );
        }
        differ = _mm512_or_si512(differ, _mm512_xor_si512(found, wanted));
        let halves = _mm512_cvtepi64_epi32(_mm512_srli_epi64::<32>(found));
        // SAFETY: there is room for eight.
        unsafe { _mm256_storeu_si256(high.as_mut_ptr().cast(), halves) };
    }
    let same = _mm512_test_epi64_mask(differ, _mm512_set1_epi64(u32::MAX.into())) == 0;
    ones(rest, low, more) && same
}

/// Writes a line with four stores of 16 bytes, from the last to the first; x86-64 makes them visible in this order. Eight stores per
/// line would take twice the room in the core's store buffer, and half as many lines could be under way.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse2")]
#[inline]
fn wide(words: &[AtomicU64], line: &Line) {
    use std::arch::x86_64::_mm_set_epi64x;
    let pair = |k: usize| _mm_set_epi64x(line[k + 1] as i64, line[k] as i64);
    assert_eq!(words.len(), line.len(), "a line of words");
    // SAFETY: these are the line's words. They are shared as atomics, and each half of such a store is one.
    unsafe {
        std::arch::asm!(
            "movups [{to} + 48], {d}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 16], {b}",
            "movups [{to}], {a}",
            to = in(reg) words.as_ptr(),
            a = in(xmm_reg) pair(0),
            b = in(xmm_reg) pair(2),
            c = in(xmm_reg) pair(4),
            d = in(xmm_reg) pair(6),
            options(nostack, preserves_flags),
        );
    }
}

/// Writes a line that lies in memory, as [`wide`] does for one in registers.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn copy(words: &[AtomicU64; 8], line: &Line) {
    // SAFETY: both are eight words. The first are shared as atomics, and each half of such a store is one.
    unsafe {
        std::arch::asm!(
            "movups {d}, [{from} + 48]",
            "movups {c}, [{from} + 32]",
            "movups {b}, [{from} + 16]",
            "movups {a}, [{from}]",
            "movups [{to} + 48], {d}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 16], {b}",
            "movups [{to}], {a}",
            from = in(reg) line.as_ptr(),
            to = in(reg) words.as_ptr(),
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Writes a line in one store of 64 bytes. No specification promises that other cores see all of it at once.
///
/// # Safety
///
/// The processor must have AVX-512.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f")]
#[inline]
pub fn whole(words: &[AtomicU64; 8], line: std::arch::x86_64::__m512i) {
    // SAFETY: these are the line's words. They are shared as atomics, and each eighth of such a store is one.
    unsafe {
        std::arch::asm!(
            "vmovdqu64 [{to}], {line}",
            to = in(reg) words.as_ptr(),
            line = in(zmm_reg) line,
            options(nostack, preserves_flags),
        );
    }
}

impl<A> fmt::Debug for View<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View of {} words", self.len())
    }
}

impl Memory {
    /// A view of the words, if the host can reach them and they have 32 bits.
    pub fn view32(&self) -> Option<View32> {
        let store = self.store().clone();
        Some(View { words: NonNull::from(self.words32()?), _store: store })
    }

    /// A view of the words, if the host can reach them and they have 64 bits.
    pub fn view64(&self) -> Option<View64> {
        let store = self.store().clone();
        Some(View { words: NonNull::from(self.words64()?), _store: store })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use crate::{Memory, MemoryKind, WordWidth};

    #[test]
    fn a_line_is_written_where_it_belongs() {
        let view = Memory::mapped(MemoryKind::Host, WordWidth::W64, 24).unwrap().view64().unwrap();
        view.write(8, &[1, 2, 3, 4, 5, 6, 7, 8]);
        let words: Vec<u64> = view.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        assert_eq!(words[..8], [0; 8]);
        assert_eq!(words[8..16], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(words[16..], [0; 8]);
    }

    #[test]
    fn lines_are_written_one_after_another() {
        let view = Memory::mapped(MemoryKind::Host, WordWidth::W64, 40).unwrap().view64().unwrap();
        let lines: [[u64; 8]; 3] = std::array::from_fn(|l| std::array::from_fn(|k| (8 * l + k + 1) as u64));
        view.write_all(8, &lines);
        let mut words = view.iter().map(|word| word.load(Ordering::Relaxed));
        assert!((0..40).all(|at| words.next() == Some(if (8..32).contains(&at) { at - 7 } else { 0 })));
    }

    #[test]
    fn a_wrong_half_is_found_wherever_it_is() {
        let view = Memory::mapped(MemoryKind::Host, WordWidth::W64, 40).unwrap().view64().unwrap();
        for (at, word) in view.iter().enumerate() {
            word.store((at as u64) << 32 | 7, Ordering::Relaxed);
        }
        for (at, count) in [(0, 40), (7, 26), (9, 3), (40, 0)] {
            let mut high = vec![u32::MAX; count];
            assert!(view.halves(at, 7, &mut high));
            assert!(high.iter().zip(at..).all(|(high, at)| *high as usize == at));
            for wrong in at..at + count {
                view[wrong].fetch_xor(1 << (wrong % 32), Ordering::Relaxed);
                assert!(!view.halves(at, 7, &mut high));
                view[wrong].fetch_xor(1 << (wrong % 32), Ordering::Relaxed);
            }
        }
    }
}
