//! Words of a device and the host's copy of them.

use pelton_device::Memory;
use pelton_device::memory::Slice;

use crate::error::Error;
use crate::kernel::BufferId;
use crate::session::Memories;

/// Words of a device and the host's copy of them. What is already there is not copied again.
#[derive(Debug)]
pub(super) struct BufferMirror<T> {
    memory: Memory,
    words: Vec<T>,
    /// Whether the copy is what is there.
    same: bool,
}

impl<T: Slice + Default + PartialEq> BufferMirror<T> {
    /// The words of a buffer, as they are.
    pub fn new(memories: &Memories, id: BufferId) -> Result<Self, Error> {
        let memory = memories.need(id)?.clone();
        let mut mirror = BufferMirror { words: vec![T::default(); memory.len()], memory, same: false };
        mirror.download()?;
        Ok(mirror)
    }

    /// The copy.
    pub fn words(&self) -> &[T] {
        &self.words
    }

    /// Sets a word of the copy.
    pub fn set_word(&mut self, at: usize, value: T) {
        if self.words[at] != value {
            self.words[at] = value;
            self.same = false;
        }
    }

    /// Sets all words of the copy to zero.
    pub fn fill_zero(&mut self) {
        if !self.same || self.words.iter().any(|word| *word != T::default()) {
            self.words.fill(T::default());
            self.same = false;
        }
    }

    /// Copies in what has changed.
    pub fn upload_changes(&mut self) -> Result<(), Error> {
        if !self.same {
            self.memory.upload(0, &self.words)?;
            self.same = true;
        }
        Ok(())
    }

    /// Says that others write the words.
    pub fn mark_stale(&mut self) {
        self.same = false;
    }

    /// Copies out.
    pub fn download(&mut self) -> Result<(), Error> {
        self.memory.download(0, &mut self.words)?;
        self.same = true;
        Ok(())
    }
}
