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

/// 16 bytes of a caller, as bytes or as words.
#[cfg_attr(
    all(target_arch = "x86_64", not(miri), not(test)),
    allow(dead_code, reason = "here the bytes of a piece are copied as they are")
)]
trait Piece: Copy + Default {
    /// The piece as the memory holds it.
    fn to_words(self) -> [u32; PIECE_WORDS];
    /// The piece from what the memory holds.
    fn from_words(words: [u32; PIECE_WORDS]) -> Self;
}

impl Piece for [u32; PIECE_WORDS] {
    #[inline]
    fn to_words(self) -> [u32; PIECE_WORDS] {
        self
    }

    #[inline]
    fn from_words(words: [u32; PIECE_WORDS]) -> Self {
        words
    }
}

impl Piece for [u8; PIECE_BYTES] {
    #[inline]
    fn to_words(self) -> [u32; PIECE_WORDS] {
        std::array::from_fn(|k| u32::from_le_bytes(std::array::from_fn(|byte| self[4 * k + byte])))
    }

    #[inline]
    fn from_words(words: [u32; PIECE_WORDS]) -> Self {
        std::array::from_fn(|k| words[k / 4].to_le_bytes()[k % 4])
    }
}

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
        write_pieces(self.pieces(at, bytes.len()), whole, rest);
    }

    /// Writes words from word `at` on. What is left of the last 16 bytes becomes zero.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer words from `at` on than the pieces of 16 bytes need.
    #[inline]
    pub fn write_words(&self, at: usize, words: &[u32]) {
        let (whole, rest) = words.as_chunks::<PIECE_WORDS>();
        write_pieces(self.pieces(at, 4 * words.len()), whole, rest);
    }

    /// Reads bytes from word `at` on, in the order in which [`write_bytes`](View32::write_bytes) writes them.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer words from `at` on than the pieces of 16 bytes need.
    #[inline]
    pub fn read_bytes(&self, at: usize, bytes: &mut [u8]) {
        let from = self.pieces(at, bytes.len());
        let (whole, rest) = bytes.as_chunks_mut::<PIECE_BYTES>();
        read_pieces(from, whole, rest);
    }

    /// Reads words from word `at` on.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer words from `at` on than the pieces of 16 bytes need.
    #[inline]
    pub fn read_words(&self, at: usize, words: &mut [u32]) {
        let from = self.pieces(at, 4 * words.len());
        let (whole, rest) = words.as_chunks_mut::<PIECE_WORDS>();
        read_pieces(from, whole, rest);
    }

    /// The pieces that hold so many bytes from word `at` on.
    #[inline]
    fn pieces(&self, at: usize, bytes: usize) -> &[[AtomicU32; PIECE_WORDS]] {
        self[at..][..bytes.div_ceil(PIECE_BYTES) * PIECE_WORDS].as_chunks().0
    }
}

/// Writes whole pieces, and then what is left, filled up with zeros.
#[inline]
fn write_pieces<T: Copy, const N: usize>(to: &[[AtomicU32; PIECE_WORDS]], whole: &[[T; N]], rest: &[T])
where
    [T; N]: Piece,
{
    let mut to = to.iter();
    // The pieces are looked at last, so that no place is passed over when they end.
    whole.iter().zip(to.by_ref()).for_each(|(piece, words)| store_piece(words, piece));
    if let Some(words) = to.next() {
        let mut piece = <[T; N]>::default();
        piece[..rest.len()].copy_from_slice(rest);
        store_piece(words, &piece);
    }
}

/// Reads whole pieces, and then what is left.
#[inline]
fn read_pieces<T: Copy, const N: usize>(
    from: &[[AtomicU32; PIECE_WORDS]],
    whole: &mut [[T; N]],
    rest: &mut [T],
) where
    [T; N]: Piece,
{
    let last = from.get(whole.len());
    whole.iter_mut().zip(from).for_each(|(piece, words)| load_piece(words, piece));
    if let Some(words) = last {
        let mut piece = <[T; N]>::default();
        load_piece(words, &mut piece);
        rest.copy_from_slice(&piece[..rest.len()]);
    }
}

/// Stores a piece. This machine holds the lowest byte of a word first, so a piece has the same bytes here and there.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn store_piece<P: Piece>(words: &[AtomicU32; PIECE_WORDS], piece: &P) {
    const { assert!(size_of::<P>() == PIECE_BYTES) };
    // SAFETY: both are 16 bytes. The words are shared as atomics, and each quarter of such a store is one.
    unsafe {
        std::arch::asm!(
            "movups {piece}, [{from}]",
            "movups [{to}], {piece}",
            from = in(reg) piece,
            to = in(reg) words.as_ptr(),
            piece = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Loads a piece, as [`store_piece`] stores it.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn load_piece<P: Piece>(words: &[AtomicU32; PIECE_WORDS], piece: &mut P) {
    const { assert!(size_of::<P>() == PIECE_BYTES) };
    // SAFETY: both are 16 bytes. The words are shared as atomics, and each quarter of such a load is one. The piece is
    // made of integers, so any bytes are a value of it.
    unsafe {
        std::arch::asm!(
            "movups {piece}, [{from}]",
            "movups [{to}], {piece}",
            from = in(reg) words.as_ptr(),
            to = in(reg) piece,
            piece = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
fn store_piece<P: Piece>(words: &[AtomicU32; PIECE_WORDS], piece: &P) {
    for (word, value) in words.iter().zip(piece.to_words()) {
        word.store(value, std::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
fn load_piece<P: Piece>(words: &[AtomicU32; PIECE_WORDS], piece: &mut P) {
    *piece = P::from_words(words.each_ref().map(|word| word.load(std::sync::atomic::Ordering::Relaxed)));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::Piece;
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
    fn a_piece_is_made_of_little_endian_words() {
        let bytes: [u8; 16] = std::array::from_fn(|k| k as u8 + 1);
        let words = [0x0403_0201, 0x0807_0605, 0x0c0b_0a09, 0x100f_0e0d];
        assert_eq!((bytes.to_words(), <[u8; 16]>::from_words(words)), (words, bytes));
        assert_eq!((words.to_words(), <[u32; 4]>::from_words(words)), (words, words));
    }

    #[test]
    #[should_panic = "range"]
    fn bytes_beyond_the_end_are_refused() {
        Memory::mapped(MemoryKind::Host, WordWidth::W32, 4).unwrap().view32().unwrap().write_bytes(4, &[1]);
    }
}
