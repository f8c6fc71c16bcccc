//! Typed handles and the arenas they index.
//!
//! A handle is a `u32` that belongs to one kind of thing and prints as the text spells it (`%3`, `@0`, `^7`).
//! Everything of a function lives in its arenas, in the order in which the text shows it, so two functions are
//! equal exactly if their arenas are: no walk, no renaming.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A typed index into an [`Arena`].
pub trait Handle: Copy {
    /// Returns the handle of the item at `index`.
    fn new(index: usize) -> Self;
    /// Returns the index of the item that the handle stands for.
    fn index(self) -> usize;
}

/// Declares handle types with the sigil that the text uses for them.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident $sigil:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl Handle for $name {
            fn new(index: usize) -> Self {
                $name(u32::try_from(index).expect("an arena holds fewer than 2^32 items"))
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($sigil, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    )*};
}

handles! {
    /// A value of a function: a parameter, a result of an instruction, or a parameter of a region.
    Value "%";
    /// An instruction of a function. Loops and blocks are named by their instruction, hence the label sigil.
    Inst "^";
    /// A region of a function: a list of instructions of which the last leaves it.
    Region "region";
    /// A buffer of a module.
    Buffer "@";
    /// A function of a module.
    Func "fn";
}

/// Consecutive values: the results of an instruction, or the parameters of a function or a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Values {
    first: u32,
    len: u32,
}

impl Values {
    pub(crate) fn new(first: usize, len: usize) -> Self {
        Values { first: first as u32, len: len as u32 }
    }

    /// Returns how many values there are.
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Returns whether there are no values.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the value at index `at`.
    ///
    /// # Panics
    ///
    /// Panics if there are `at` values or fewer.
    pub fn get(self, at: usize) -> Value {
        assert!(at < self.len(), "value {at} of {}", self.len);
        Value(self.first + at as u32)
    }

    /// Iterates over the values, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Value> + DoubleEndedIterator {
        (0..self.len).map(move |k| Value(self.first + k))
    }
}

/// A growing list of items of one kind, which are found by their handles.
pub struct Arena<H, T> {
    items: Vec<T>,
    kind: PhantomData<fn(H)>,
}

impl<H: Handle, T> Arena<H, T> {
    /// Creates an empty arena.
    pub const fn new() -> Self {
        Arena { items: Vec::new(), kind: PhantomData }
    }

    /// Adds an item and returns its handle.
    pub fn push(&mut self, item: T) -> H {
        let handle = H::new(self.items.len());
        self.items.push(item);
        handle
    }

    /// Returns how many items the arena has.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether the arena has no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the item of a handle, or `None` if the arena has no item at that index.
    pub fn get(&self, handle: H) -> Option<&T> {
        self.items.get(handle.index())
    }

    /// Iterates over all items with their handles, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (H, &T)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(k, item)| (H::new(k), item))
    }

    /// Iterates over all items with their handles, in order, and allows changing them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (H, &mut T)> {
        self.items.iter_mut().enumerate().map(|(k, item)| (H::new(k), item))
    }

    /// Iterates over the handles of all items, in order.
    pub fn handles(&self) -> impl DoubleEndedIterator<Item = H> + ExactSizeIterator + use<H, T> {
        (0..self.items.len()).map(H::new)
    }
}

impl<H: Handle, T> Default for Arena<H, T> {
    fn default() -> Self {
        Arena::new()
    }
}

impl<H: Handle, T> Index<H> for Arena<H, T> {
    type Output = T;
    fn index(&self, handle: H) -> &T {
        &self.items[handle.index()]
    }
}

impl<H: Handle, T> IndexMut<H> for Arena<H, T> {
    fn index_mut(&mut self, handle: H) -> &mut T {
        &mut self.items[handle.index()]
    }
}

// These are written by hand because a derive would require the same traits of the handle type.
impl<H, T: Clone> Clone for Arena<H, T> {
    fn clone(&self) -> Self {
        Arena { items: self.items.clone(), kind: PhantomData }
    }
}

impl<H, T: PartialEq> PartialEq for Arena<H, T> {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl<H, T: Eq> Eq for Arena<H, T> {}

impl<H, T: Hash> Hash for Arena<H, T> {
    fn hash<S: Hasher>(&self, state: &mut S) {
        self.items.hash(state);
    }
}

impl<H, T: fmt::Debug> fmt::Debug for Arena<H, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.items).finish()
    }
}
