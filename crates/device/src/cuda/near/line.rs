//! Writing a line of 64 bytes with the widest store that the processor has.
//!
//! The stores bypass the caches, and each line is sent as soon as it is whole. In which order lines arrive is known only for lines
//! with a [`flush`] between them.

use crate::memory::Line;

/// The instructions that write a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LineWriter {
    /// One direct store of 64 bytes, which is never split.
    Direct,
    /// One non-temporal store of 64 bytes.
    Stream,
    /// One store per word. The first word, which announces the line, comes last.
    Words,
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_sfence, _mm512_loadu_si512, _mm512_stream_si512};

    use super::{Line, LineWriter};

    impl LineWriter {
        /// The ways of writing that this processor has, the best first.
        pub(crate) fn all() -> Vec<LineWriter> {
            // Leaf 7 of CPUID has the bit for `movdir64b`, which `is_x86_feature_detected` does not know.
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
        /// The target must be writable for all of them and 64-byte aligned, and the processor must have these
        /// instructions.
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

    /// Makes lines that were written before arrive before those that are written afterwards.
    #[inline]
    pub(crate) fn flush() {
        // SAFETY: every x86-64 processor has this instruction.
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
        // The last line may otherwise wait for later stores.
        flush();
    }

    unsafe fn words(to: *mut Line, lines: &[Line]) {
        for (at, line) in lines.iter().enumerate() {
            let to: *mut u64 = to.wrapping_add(at).cast();
            for (at, word) in line.iter().enumerate().skip(1) {
                // SAFETY: the caller's promise; the line has as many words.
                unsafe { to.wrapping_add(at).write_volatile(*word) };
            }
            // The other words must arrive before the first word announces them.
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
        /// Gives none, because how other processors order such stores has not been tested.
        pub fn all() -> Vec<LineWriter> {
            Vec::new()
        }

        /// Never called, because [`LineWriter::all`] is empty.
        ///
        /// # Safety
        ///
        /// There is nothing to promise.
        pub unsafe fn put(self, _to: *mut u64, _lines: &[Line]) {}
    }

    /// Does nothing, because nothing was written.
    pub fn flush() {}
}

#[cfg(not(target_arch = "x86_64"))]
pub use other::flush;
#[cfg(target_arch = "x86_64")]
pub(super) use x86::flush;

impl LineWriter {
    /// The best way of writing that this processor has, if it has one.
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
