//! A line in one store, as wide as the processor has one.
//!
//! All of them go past the caches, each as soon as it is whole. In what order they arrive is certain only for those with a
//! [`flush`] between them.

use crate::memory::Line;

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LineWriter {
    /// One direct store of 64 bytes, which is never split.
    Direct,
    /// One non-temporal store of 64 bytes.
    Stream,
    /// A store a word, the first word last: it says that the line is there.
    Words,
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_sfence, _mm512_loadu_si512, _mm512_stream_si512};

    use super::{Line, LineWriter};

    impl LineWriter {
        /// All that this processor has, the best first.
        pub(crate) fn all() -> Vec<LineWriter> {
            // Leaf 7 lists what a processor has beyond the first; the compiler's own detection does not know this one.
            let direct = __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & 1 << 28 != 0;
            let stream = is_x86_feature_detected!("avx512f");
            let writers =
                [(direct, LineWriter::Direct), (stream, LineWriter::Stream), (true, LineWriter::Words)];
            writers.into_iter().filter_map(|(there, writer)| there.then_some(writer)).collect()
        }

        /// Writes lines one after another.
        ///
        /// # Safety
        ///
        /// The target must be writable for all of them and 64-byte aligned, and the processor must have this writer.
        #[inline]
        pub(crate) unsafe fn put(self, to: *mut u64, lines: &[Line]) {
            match self {
                // SAFETY: the caller's promise.
                LineWriter::Direct => unsafe { direct(to.cast(), lines) },
                // SAFETY: the caller's promise.
                LineWriter::Stream => unsafe { stream(to.cast(), lines) },
                // SAFETY: the caller's promise.
                LineWriter::Words => unsafe { words(to.cast(), lines) },
            }
        }
    }

    /// Lets what was written before arrive before what comes after.
    #[inline]
    pub(crate) fn flush() {
        // SAFETY: every x86-64 has it.
        unsafe { _mm_sfence() };
    }

    unsafe fn direct(to: *mut Line, lines: &[Line]) {
        for (at, line) in lines.iter().enumerate() {
            // SAFETY: the caller's promise; the source is 64 bytes, of any alignment.
            unsafe {
                asm!("movdir64b {to}, [{from}]", to = in(reg) to.wrapping_add(at), from = in(reg) line,
                    options(nostack, preserves_flags));
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    unsafe fn stream(to: *mut Line, lines: &[Line]) {
        for (at, line) in lines.iter().enumerate() {
            // SAFETY: a line is 64 bytes.
            let whole = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
            // SAFETY: the caller's promise.
            unsafe { _mm512_stream_si512(to.wrapping_add(at).cast(), whole) };
        }
        // The last may wait for others to come.
        flush();
    }

    unsafe fn words(to: *mut Line, lines: &[Line]) {
        for (at, line) in lines.iter().enumerate() {
            let to: *mut u64 = to.wrapping_add(at).cast();
            for (at, word) in line.iter().enumerate().skip(1) {
                // SAFETY: the caller's promise; the line has as many words.
                unsafe { to.wrapping_add(at).write_volatile(*word) };
            }
            // The rest must be there before the first word says so.
            flush();
            // SAFETY: the caller's promise.
            unsafe { to.write_volatile(line[0]) };
            flush();
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod other {
    use super::{Line, LineWriter};

    impl LineWriter {
        /// None: how other processors order such stores is not known here.
        pub fn all() -> Vec<LineWriter> {
            Vec::new()
        }

        /// Never called, since there is no writer.
        ///
        /// # Safety
        ///
        /// None is needed.
        pub unsafe fn put(self, _to: *mut u64, _lines: &[Line]) {}
    }

    /// Nothing was written.
    pub fn flush() {}
}

#[cfg(not(target_arch = "x86_64"))]
pub use other::flush;
#[cfg(target_arch = "x86_64")]
pub(super) use x86::flush;

impl LineWriter {
    /// The best that this processor has.
    pub(super) fn best() -> Option<LineWriter> {
        LineWriter::all().first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct AlignedLines([u64; 32]);

    #[test]
    fn every_wire_writes_its_lines_and_no_other_word() {
        for writer in LineWriter::all() {
            let mut lines = AlignedLines([7; 32]);
            let line =
                |shift: u32| -> Line { std::array::from_fn(|at| (0x0123_4567_89ab_cdef << at) >> shift) };
            // SAFETY: the second and third of four aligned lines.
            unsafe { writer.put(lines.0.as_mut_ptr().wrapping_add(8), &[line(0), line(1)]) };
            flush();
            assert_eq!(lines.0[8..24], *[line(0), line(1)].as_flattened(), "{writer:?}");
            assert!(lines.0[..8].iter().chain(&lines.0[24..]).all(|word| *word == 7), "{writer:?}");
        }
        assert_eq!(LineWriter::best().is_some(), cfg!(target_arch = "x86_64"));
    }
}
