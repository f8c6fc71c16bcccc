//! Copies of bytes and words to and from mapped memory that has words of 32 bits.
//!
//! The words are shared as atomics, so a plain copy would not do. They are copied in pieces of 16 bytes, because a store
//! per word would take several times as long.

use std::sync::atomic::AtomicU32;

use crate::view::View32;

/// How many words a piece has.
const PIECE_WORDS: usize = 4;
/// How many bytes a piece has.
const PIECE_BYTES: usize = 4 * PIECE_WORDS;

/// Bytes as the memory holds them.
type Piece = [u8; PIECE_BYTES];

impl View32 {
    /// Writes bytes from word `at` on, four per word, the first byte of each word the lowest. What is left of the last
    /// 16 bytes becomes zero.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer words from `at` on than the pieces of 16 bytes need.
    #[inline]
    pub fn write_bytes(&self, at: usize, bytes: &[u8]) {
        let (whole, rest) = bytes.as_chunks::<PIECE_BYTES>();
        let mut words = self.pieces(at, bytes.len()).iter();
        words.by_ref().zip(whole).for_each(|(words, piece)| store_piece(words, piece));
        if let Some(words) = words.next() {
            let mut piece = [0; PIECE_BYTES];
            piece[..rest.len()].copy_from_slice(rest);
            store_piece(words, &piece);
        }
    }

    /// Writes words from word `at` on. What is left of the last 16 bytes becomes zero.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer words from `at` on than the pieces of 16 bytes need.
    #[inline]
    pub fn write_words(&self, at: usize, words: &[u32]) {
        for (to, words) in self.pieces(at, 4 * words.len()).iter().zip(words.chunks(PIECE_WORDS)) {
            let mut piece = [0; PIECE_BYTES];
            for (bytes, word) in piece.chunks_exact_mut(4).zip(words) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            store_piece(to, &piece);
        }
    }

    /// Reads bytes from word `at` on, in the order in which [`write_bytes`](View32::write_bytes) writes them.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer words from `at` on than the pieces of 16 bytes need.
    #[inline]
    pub fn read_bytes(&self, at: usize, bytes: &mut [u8]) {
        for (from, bytes) in self.pieces(at, bytes.len()).iter().zip(bytes.chunks_mut(PIECE_BYTES)) {
            bytes.copy_from_slice(&load_piece(from)[..bytes.len()]);
        }
    }

    /// Reads words from word `at` on.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer words from `at` on than the pieces of 16 bytes need.
    #[inline]
    pub fn read_words(&self, at: usize, words: &mut [u32]) {
        for (from, words) in self.pieces(at, 4 * words.len()).iter().zip(words.chunks_mut(PIECE_WORDS)) {
            let piece = load_piece(from);
            for (word, bytes) in words.iter_mut().zip(piece.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
        }
    }

    /// The pieces that hold so many bytes from word `at` on.
    #[inline]
    fn pieces(&self, at: usize, bytes: usize) -> &[[AtomicU32; PIECE_WORDS]] {
        self[at..][..bytes.div_ceil(PIECE_BYTES) * PIECE_WORDS].as_chunks().0
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn store_piece(words: &[AtomicU32; PIECE_WORDS], piece: &Piece) {
    // SAFETY: both are 16 bytes. The words are shared as atomics, and each quarter of such a store is one.
    unsafe {
        std::arch::asm!(
            "movups {piece}, [{from}]",
            "movups [{to}], {piece}",
            from = in(reg) piece.as_ptr(),
            to = in(reg) words.as_ptr(),
            piece = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn load_piece(words: &[AtomicU32; PIECE_WORDS]) -> Piece {
    let mut piece = [0; PIECE_BYTES];
    // SAFETY: both are 16 bytes. The words are shared as atomics, and each quarter of such a load is one.
    unsafe {
        std::arch::asm!(
            "movups {piece}, [{from}]",
            "movups [{to}], {piece}",
            from = in(reg) words.as_ptr(),
            to = in(reg) piece.as_mut_ptr(),
            piece = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
    piece
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
fn store_piece(words: &[AtomicU32; PIECE_WORDS], piece: &Piece) {
    for (word, bytes) in words.iter().zip(piece.as_chunks::<4>().0) {
        word.store(u32::from_le_bytes(*bytes), std::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
fn load_piece(words: &[AtomicU32; PIECE_WORDS]) -> Piece {
    let mut piece = [0; PIECE_BYTES];
    for (bytes, word) in piece.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.load(std::sync::atomic::Ordering::Relaxed).to_le_bytes());
    }
    piece
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use crate::mapped::WordWidth;
    use crate::memory::{Memory, MemoryKind};

    #[test]
    fn what_is_written_is_read_and_the_rest_is_zero() {
        let memory = Memory::mapped(MemoryKind::Host, WordWidth::W32, 40).unwrap();
        let view = memory.view32().unwrap();
        for len in 0..=128usize {
            view.iter().for_each(|word| word.store(u32::MAX, Ordering::Relaxed));
            let bytes: Vec<u8> = (0..len).map(|k| k as u8 ^ 0x5a).collect();
            view.write_bytes(4, &bytes);
            let mut found = vec![0; len];
            view.read_bytes(4, &mut found);
            assert_eq!(found, bytes);
            for (at, word) in view.iter().enumerate() {
                let byte = |k: usize| match (4 * at + k).checked_sub(16) {
                    Some(at) if at < len => bytes[at],
                    Some(at) if at < len.next_multiple_of(16) => 0,
                    _ => 0xff,
                };
                let wanted = u32::from_le_bytes(std::array::from_fn(byte));
                assert_eq!(word.load(Ordering::Relaxed), wanted, "{len} bytes, word {at}");
            }
        }
    }

    #[test]
    fn words_are_the_same_as_their_bytes() {
        let memory = Memory::mapped(MemoryKind::Host, WordWidth::W32, 40).unwrap();
        let view = memory.view32().unwrap();
        for len in 0..=32usize {
            let words: Vec<u32> = (0..len as u32).map(|k| k.wrapping_mul(0x9e37_79b9)).collect();
            view.write_words(0, &words);
            let (mut found, mut bytes) = (vec![0; len], vec![0; 4 * len]);
            view.read_words(0, &mut found);
            view.read_bytes(0, &mut bytes);
            assert_eq!(found, words);
            assert_eq!(bytes, words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>());
        }
    }

    #[test]
    #[should_panic = "range"]
    fn bytes_beyond_the_end_are_refused() {
        Memory::mapped(MemoryKind::Host, WordWidth::W32, 4).unwrap().view32().unwrap().write_bytes(4, &[1]);
    }
}
