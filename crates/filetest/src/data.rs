//! The contents of a buffer in host memory.

use std::fmt::Write;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pelton_ir::interp::BoundWords;
use pelton_ir::types::{Const, Type};

/// The elements of one buffer, all of one type.
#[derive(Debug)]
pub struct BufferData {
    elem: Type,
    words: BufferWords,
}

#[derive(Debug)]
enum BufferWords {
    W32(Vec<AtomicU32>),
    W64(Vec<AtomicU64>),
}

/// The error when there is not enough memory for a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{len} elements of type {elem} do not fit into memory")]
pub struct OutOfMemory {
    /// The number of elements that were asked for.
    pub len: u64,
    /// The type of the elements.
    pub elem: Type,
}

impl BufferData {
    /// Creates `len` elements from the bits that `bits` returns for each index. Too little memory is an error, not
    /// an abort.
    pub fn new(elem: Type, len: u64, mut bits: impl FnMut(u64) -> u64) -> Result<BufferData, OutOfMemory> {
        let refuse = || OutOfMemory { len, elem };
        let count = usize::try_from(len).map_err(|_| refuse())?;
        let words = if elem.bits() == 64 {
            let mut words = Vec::new();
            words.try_reserve_exact(count).map_err(|_| refuse())?;
            words.extend((0..len).map(|k| AtomicU64::new(bits(k))));
            BufferWords::W64(words)
        } else {
            let mut words = Vec::new();
            words.try_reserve_exact(count).map_err(|_| refuse())?;
            words.extend((0..len).map(|k| AtomicU32::new(bits(k) as u32)));
            BufferWords::W32(words)
        };
        Ok(BufferData { elem, words })
    }

    /// The size of one element in bytes.
    pub fn element_bytes(elem: Type) -> u64 {
        if elem.bits() == 64 { 8 } else { 4 }
    }

    /// The type of the elements.
    pub fn elem(&self) -> Type {
        self.elem
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match &self.words {
            BufferWords::W32(words) => words.len(),
            BufferWords::W64(words) => words.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns one element.
    ///
    /// # Panics
    ///
    /// Panics if `at` is not less than the number of elements.
    pub fn get(&self, at: usize) -> Const {
        // Relaxed: the launch has been joined, or the caller needs only a momentary value.
        let bits = match &self.words {
            BufferWords::W32(words) => words[at].load(Ordering::Relaxed).into(),
            BufferWords::W64(words) => words[at].load(Ordering::Relaxed),
        };
        Const::new(self.elem, bits)
    }

    /// All elements.
    pub fn iter(&self) -> impl Iterator<Item = Const> {
        (0..self.len()).map(|k| self.get(k))
    }

    /// The words in the form that a launch of the interpreter binds.
    pub fn words(&self) -> BoundWords<'_> {
        match &self.words {
            BufferWords::W32(words) => BoundWords::W32(words),
            BufferWords::W64(words) => BoundWords::W64(words),
        }
    }

    /// The index of the first element in which two buffers differ. If one is the beginning of the other, that is
    /// its length.
    pub fn first_difference(&self, other: &BufferData) -> Option<usize> {
        let both = self.len().min(other.len());
        (0..both)
            .find(|k| !elements_equal(self.get(*k), other.get(*k)))
            .or((self.len() != other.len()).then_some(both))
    }

    /// Writes the elements as a list that [`Init`](crate::init::Init) can parse. If there are more than `most`, the
    /// middle is left out.
    pub fn show_elements(&self, most: usize) -> String {
        let len = self.len();
        let (head, tail) = if len > most { (most - most / 4, most / 4) } else { (len, 0) };
        let mut text = String::from("[");
        for k in (0..head).chain(len - tail..len) {
            if k > 0 {
                text.push(' ');
            }
            if k == len - tail && len > most {
                let _ = write!(text, "… {} more … ", len - head - tail);
            }
            text.push_str(&spell_element(self.get(k)));
        }
        text.push(']');
        text
    }
}

impl Clone for BufferData {
    fn clone(&self) -> Self {
        let words = match &self.words {
            BufferWords::W32(words) => {
                BufferWords::W32(words.iter().map(|w| AtomicU32::new(w.load(Ordering::Relaxed))).collect())
            }
            BufferWords::W64(words) => {
                BufferWords::W64(words.iter().map(|w| AtomicU64::new(w.load(Ordering::Relaxed))).collect())
            }
        };
        BufferData { elem: self.elem, words }
    }
}

/// Whether two elements have equal bits or are both NaN.
pub fn elements_equal(a: Const, b: Const) -> bool {
    let nan = |c: Const| c.ty() == Type::F32 && f32::from_bits(c.bits() as u32).is_nan();
    a == b || (nan(a) && nan(b))
}

/// Spells an element as the language does, but integers without their suffix, because the type is known.
pub fn spell_element(c: Const) -> String {
    match c.ty() {
        Type::I32 => (c.bits() as u32 as i32).to_string(),
        Type::U64 => c.bits().to_string(),
        _ => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{BufferData, elements_equal};
    use pelton_ir::types::{Const, Type};

    #[test]
    fn long_buffers_are_shown_by_their_ends() {
        let data = BufferData::new(Type::U32, 100, |k| k).expect("it is small");
        assert_eq!(data.show_elements(8), "[0 1 2 3 4 5 … 92 more … 98 99]");
        assert_eq!(
            BufferData::new(Type::I32, 2, |_| 0xffff_ffff).expect("it is small").show_elements(8),
            "[-1 -1]"
        );
        assert_eq!(BufferData::new(Type::F32, 0, |_| 0).expect("it is small").show_elements(8), "[]");
    }

    #[test]
    fn any_nan_is_any_nan_but_zeros_differ() {
        let float = |bits| Const::new(Type::F32, bits);
        assert!(elements_equal(float(0x7fc0_0000), float(0xffc0_0001)));
        assert!(!elements_equal(float(0), float(0x8000_0000)));
        assert!(!elements_equal(Const::new(Type::U32, 0x7fc0_0000), Const::new(Type::U32, 0x7fc0_0001)));
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(BufferData::new(Type::U64, u64::MAX / 8, |_| 0).is_err());
    }
}
