//! Words of mapped memory, reached without asking the memory each time.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::memory::{Line, Memory, Store};

/// The words of a block of mapped memory. It keeps the block alive.
pub struct View<A> {
    words: NonNull<[A]>,
    _store: Arc<dyn Store>,
}

/// Words of 32 bits.
pub type View32 = View<AtomicU32>;
/// Words of 64 bits.
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
    /// Writes a line whose first word is at `at`. Whoever acquires its first two words as they are here sees the rest; which of
    /// the two is seen first is not said.
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

    /// Writes lines one after another, the first at word `at`, each as [`write`](View64::write) does. They are read as they
    /// were stored last, in whatever pieces.
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

    /// Reads words one after another, the first at `at`, each as an acquire load does.
    #[inline]
    pub fn read(&self, at: usize, into: &mut [u64]) {
        let words = &self[at..at + into.len()];
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        let (words, into) = eights(words, into);
        for (word, into) in words.iter().zip(into) {
            *into = word.load(std::sync::atomic::Ordering::Acquire);
        }
    }
}

/// Reads as many words as are eights of them, and gives the rest back. Loads are seen in order on x86-64.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn eights<'a>(words: &'a [AtomicU64], into: &'a mut [u64]) -> (&'a [AtomicU64], &'a mut [u64]) {
    let (words, more) = words.as_chunks::<8>();
    let (into, rest) = into.as_chunks_mut::<8>();
    for (words, into) in words.iter().zip(into) {
        // SAFETY: both are eight words. The first are shared as atomics, and each half of such a load is one.
        unsafe {
            std::arch::asm!(
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "movups [{to} + 32], {c}",
                "movups [{to} + 48], {d}",
                from = in(reg) words.as_ptr(),
                to = in(reg) into.as_mut_ptr(),
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }
    (more, rest)
}

/// Stores from the last to the first, in the order in which x86-64 shows them, 16 bytes each. Eight stores a line would take
/// up the core's store buffer while lines come from another core, and half as many lines could be under way.
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

/// The same for a line that lies in memory.
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

/// Writes a line in one store. No document says that it is seen so.
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
    /// Its words, if the host can reach them and they have 32 bits.
    pub fn view32(&self) -> Option<View32> {
        let store = self.store().clone();
        Some(View { words: NonNull::from(self.words32()?), _store: store })
    }

    /// Its words, if the host can reach them and they have 64 bits.
    pub fn view64(&self) -> Option<View64> {
        let store = self.store().clone();
        Some(View { words: NonNull::from(self.words64()?), _store: store })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use crate::{Kind, Memory, Width};

    #[test]
    fn a_line_is_written_where_it_belongs() {
        let view = Memory::mapped(Kind::Host, Width::W64, 24).unwrap().view64().unwrap();
        view.write(8, &[1, 2, 3, 4, 5, 6, 7, 8]);
        let words: Vec<u64> = view.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        assert_eq!(words[..8], [0; 8]);
        assert_eq!(words[8..16], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(words[16..], [0; 8]);
    }

    #[test]
    fn what_is_written_in_one_go_is_read_so() {
        let view = Memory::mapped(Kind::Host, Width::W64, 40).unwrap().view64().unwrap();
        let lines: [[u64; 8]; 3] = std::array::from_fn(|l| std::array::from_fn(|k| (8 * l + k + 1) as u64));
        view.write_all(8, &lines);
        for (at, count) in [(0, 40), (7, 26), (9, 3), (40, 0)] {
            let mut words = vec![u64::MAX; count];
            view.read(at, &mut words);
            let wanted = (at..at + count).map(|at| if (8..32).contains(&at) { at as u64 - 7 } else { 0 });
            assert_eq!(words, wanted.collect::<Vec<_>>());
        }
    }
}
