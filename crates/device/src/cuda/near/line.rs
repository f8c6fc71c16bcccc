//! A line in one store, as wide as the processor has one.
//!
//! All of them go past the caches and are on their way for certain after a [`flush`].

use crate::memory::Line;

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wire {
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
    use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_sfence, _mm512_set_epi64, _mm512_stream_si512};
    use std::ptr::read_volatile;

    use super::{Line, Wire};

    impl Wire {
        /// All that this processor has, the best first.
        pub fn all() -> Vec<Wire> {
            // Leaf 7 lists what a processor has beyond the first; the compiler's own detection does not know this one.
            let direct = __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & 1 << 28 != 0;
            let stream = is_x86_feature_detected!("avx512f");
            let wires = [(direct, Wire::Direct), (stream, Wire::Stream), (true, Wire::Words)];
            wires.into_iter().filter_map(|(there, wire)| there.then_some(wire)).collect()
        }

        /// Writes a line.
        ///
        /// # Safety
        ///
        /// The target must be writable and 64-byte aligned, and the processor must have this wire.
        #[inline]
        pub unsafe fn put(self, to: *mut u64, line: &Line) {
            match self {
                // SAFETY: the caller's promise.
                Wire::Direct => unsafe { direct(to, line) },
                // SAFETY: the caller's promise.
                Wire::Stream => unsafe { stream(to, line) },
                // SAFETY: the caller's promise.
                Wire::Words => unsafe { words(to, line) },
            }
        }
    }

    /// Sends what was written on its way.
    #[inline]
    pub fn flush() {
        // SAFETY: every x86-64 has it.
        unsafe { _mm_sfence() };
    }

    #[inline]
    unsafe fn direct(to: *mut u64, line: &Line) {
        // SAFETY: the caller's promise; the source is 64 bytes, of any alignment.
        unsafe {
            asm!("movdir64b {to}, [{from}]", to = in(reg) to, from = in(reg) line,
                options(nostack, preserves_flags));
        }
    }

    #[target_feature(enable = "avx512f")]
    unsafe fn stream(to: *mut u64, line: &Line) {
        // A line is mostly written word by word right before, and a load of all of it would wait until the stores are
        // done. Loads of its words do not; volatile, or the compiler would make them one.
        // SAFETY: a reference to a word can be read.
        let [a, b, c, d, e, f, g, h] = line.each_ref().map(|word| unsafe { read_volatile(word) } as i64);
        let whole = _mm512_set_epi64(h, g, f, e, d, c, b, a);
        // SAFETY: the caller's promise.
        unsafe { _mm512_stream_si512(to.cast(), whole) };
    }

    unsafe fn words(to: *mut u64, line: &Line) {
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

#[cfg(not(target_arch = "x86_64"))]
mod other {
    use super::{Line, Wire};

    impl Wire {
        /// None: how other processors order such stores is not known here.
        pub fn all() -> Vec<Wire> {
            Vec::new()
        }

        /// Never called, since there is no wire.
        ///
        /// # Safety
        ///
        /// None is needed.
        pub unsafe fn put(self, _to: *mut u64, _line: &Line) {}
    }

    /// Nothing was written.
    pub fn flush() {}
}

#[cfg(not(target_arch = "x86_64"))]
pub use other::flush;
#[cfg(target_arch = "x86_64")]
pub use x86::flush;

impl Wire {
    /// The best that this processor has.
    pub fn here() -> Option<Wire> {
        Wire::all().first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Lines([u64; 24]);

    #[test]
    fn every_wire_writes_its_line_and_no_other_word() {
        for wire in Wire::all() {
            let mut lines = Lines([7; 24]);
            let line: Line = std::array::from_fn(|at| 0x0123_4567_89ab_cdef << at);
            // SAFETY: the second of three aligned lines.
            unsafe { wire.put(lines.0.as_mut_ptr().wrapping_add(8), &line) };
            flush();
            assert_eq!(lines.0[8..16], line, "{wire:?}");
            assert!(lines.0[..8].iter().chain(&lines.0[16..]).all(|word| *word == 7), "{wire:?}");
        }
        assert_eq!(Wire::here().is_some(), cfg!(target_arch = "x86_64"));
    }
}
