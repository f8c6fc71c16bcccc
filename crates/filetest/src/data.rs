//! The words of a buffer, as a host holds them.

use std::fmt::Write;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pelton_ir::interp::Words;
use pelton_ir::types::{Const, Type};

/// The elements of one buffer, all of one type.
#[derive(Debug)]
pub struct Data {
    elem: Type,
    words: Store,
}

#[derive(Debug)]
enum Store {
    W32(Vec<AtomicU32>),
    W64(Vec<AtomicU64>),
}

/// There is not enough memory for a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{len} elements of type {elem} do not fit into memory")]
pub struct OutOfMemory {
    /// How many elements were asked for.
    pub len: u64,
    /// Their type.
    pub elem: Type,
}

impl Data {
    /// `len` elements, of which `bits` gives the bits of each. Memory that is not there is an error, not an abort.
    pub fn new(elem: Type, len: u64, mut bits: impl FnMut(u64) -> u64) -> Result<Data, OutOfMemory> {
        let refuse = || OutOfMemory { len, elem };
        let count = usize::try_from(len).map_err(|_| refuse())?;
        let words = if elem.bits() == 64 {
            let mut words = Vec::new();
            words.try_reserve_exact(count).map_err(|_| refuse())?;
            words.extend((0..len).map(|k| AtomicU64::new(bits(k))));
            Store::W64(words)
        } else {
            let mut words = Vec::new();
            words.try_reserve_exact(count).map_err(|_| refuse())?;
            words.extend((0..len).map(|k| AtomicU32::new(bits(k) as u32)));
            Store::W32(words)
        };
        Ok(Data { elem, words })
    }

    /// The bytes of one element.
    pub fn size(elem: Type) -> u64 {
        if elem.bits() == 64 { 8 } else { 4 }
    }

    /// The type of its elements.
    pub fn elem(&self) -> Type {
        self.elem
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        match &self.words {
            Store::W32(words) => words.len(),
            Store::W64(words) => words.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An element. Panics if there are not so many.
    pub fn get(&self, at: usize) -> Const {
        // Relaxed: whoever compares or prints has joined the launch, or wants just a glimpse.
        let bits = match &self.words {
            Store::W32(words) => words[at].load(Ordering::Relaxed).into(),
            Store::W64(words) => words[at].load(Ordering::Relaxed),
        };
        Const::new(self.elem, bits)
    }

    /// All elements.
    pub fn iter(&self) -> impl Iterator<Item = Const> {
        (0..self.len()).map(|k| self.get(k))
    }

    /// What a launch binds.
    pub fn words(&self) -> Words<'_> {
        match &self.words {
            Store::W32(words) => Words::W32(words),
            Store::W64(words) => Words::W64(words),
        }
    }

    /// The first element in which two buffers differ; the shorter one's length if it begins the other.
    pub fn differs(&self, other: &Data) -> Option<usize> {
        let both = self.len().min(other.len());
        (0..both).find(|k| !same(self.get(*k), other.get(*k))).or((self.len() != other.len()).then_some(both))
    }

    /// Its elements as a list that [`Init`](crate::init::Init) reads, of which the middle is left out if there are
    /// more than `most`.
    pub fn show(&self, most: usize) -> String {
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
            text.push_str(&spell(self.get(k)));
        }
        text.push(']');
        text
    }
}

impl Clone for Data {
    fn clone(&self) -> Self {
        let words = match &self.words {
            Store::W32(words) => {
                Store::W32(words.iter().map(|w| AtomicU32::new(w.load(Ordering::Relaxed))).collect())
            }
            Store::W64(words) => {
                Store::W64(words.iter().map(|w| AtomicU64::new(w.load(Ordering::Relaxed))).collect())
            }
        };
        Data { elem: self.elem, words }
    }
}

/// Whether two elements are equal: by bits, but any NaN is any NaN.
pub fn same(a: Const, b: Const) -> bool {
    let nan = |c: Const| c.ty() == Type::F32 && f32::from_bits(c.bits() as u32).is_nan();
    a == b || (nan(a) && nan(b))
}

/// An element where its type is known: as the language writes it, integers without their suffix.
pub fn spell(c: Const) -> String {
    match c.ty() {
        Type::I32 => (c.bits() as u32 as i32).to_string(),
        Type::U64 => c.bits().to_string(),
        _ => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Data, same};
    use pelton_ir::types::{Const, Type};

    #[test]
    fn long_buffers_are_shown_by_their_ends() {
        let data = Data::new(Type::U32, 100, |k| k).expect("it is small");
        assert_eq!(data.show(8), "[0 1 2 3 4 5 … 92 more … 98 99]");
        assert_eq!(Data::new(Type::I32, 2, |_| 0xffff_ffff).expect("it is small").show(8), "[-1 -1]");
        assert_eq!(Data::new(Type::F32, 0, |_| 0).expect("it is small").show(8), "[]");
    }

    #[test]
    fn any_nan_is_any_nan_but_zeros_differ() {
        let float = |bits| Const::new(Type::F32, bits);
        assert!(same(float(0x7fc0_0000), float(0xffc0_0001)));
        assert!(!same(float(0), float(0x8000_0000)));
        assert!(!same(Const::new(Type::U32, 0x7fc0_0000), Const::new(Type::U32, 0x7fc0_0001)));
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(Data::new(Type::U64, u64::MAX / 8, |_| 0).is_err());
    }
}
