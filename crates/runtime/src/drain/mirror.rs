//! Words of a device and the host's copy of them.

use pelton_device::Memory;
use pelton_device::memory::Slice;

use crate::error::Error;
use crate::kernel::BufferId;
use crate::session::Memories;

/// Words of a device and the host's copy of them. What is already there is not copied again.
#[derive(Debug)]
pub(super) struct Mirror<T> {
    memory: Memory,
    words: Vec<T>,
    /// Whether the copy is what is there.
    same: bool,
}

impl<T: Slice + Default + PartialEq> Mirror<T> {
    /// The words of a buffer, as they are.
    pub fn new(memories: &Memories, id: BufferId) -> Result<Self, Error> {
        let memory = memories.need(id)?.clone();
        let mut mirror = Mirror { words: vec![T::default(); memory.len()], memory, same: false };
        mirror.pull()?;
        Ok(mirror)
    }

    /// The copy.
    pub fn words(&self) -> &[T] {
        &self.words
    }

    /// Sets a word of the copy.
    pub fn set(&mut self, at: usize, value: T) {
        if self.words[at] != value {
            self.words[at] = value;
            self.same = false;
        }
    }

    /// Sets all words of the copy to zero.
    pub fn clear(&mut self) {
        if !self.same || self.words.iter().any(|word| *word != T::default()) {
            self.words.fill(T::default());
            self.same = false;
        }
    }

    /// Copies in what has changed.
    pub fn push(&mut self) -> Result<(), Error> {
        if !self.same {
            self.memory.upload(0, &self.words)?;
            self.same = true;
        }
        Ok(())
    }

    /// Says that others write the words.
    pub fn stale(&mut self) {
        self.same = false;
    }

    /// Copies out.
    pub fn pull(&mut self) -> Result<(), Error> {
        self.memory.download(0, &mut self.words)?;
        self.same = true;
        Ok(())
    }
}
