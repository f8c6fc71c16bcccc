//! Buffers of a device, each with a copy that the host keeps.

use pelton_device::Memory;
use pelton_device::memory::Slice;

use crate::error::Error;
use crate::kernel::BufferId;
use crate::session::BufferMemories;

/// The words of a device's buffer and the host's copy of them. Words that did not change are not copied again.
#[derive(Debug)]
pub(super) struct BufferMirror<T> {
    memory: Memory,
    words: Vec<T>,
    /// Whether the copy is equal to the words of the device.
    same: bool,
}

impl<T: Slice + Default + PartialEq> BufferMirror<T> {
    /// Returns the copy of a buffer with its present content.
    pub(super) fn new(memories: &BufferMemories, id: BufferId) -> Result<Self, Error> {
        let memory = memories.need(id)?.clone();
        let mut mirror = BufferMirror { words: vec![T::default(); memory.len()], memory, same: false };
        mirror.download()?;
        Ok(mirror)
    }

    /// Returns the copy.
    pub(super) fn words(&self) -> &[T] {
        &self.words
    }

    /// Sets one word of the copy.
    pub(super) fn set_word(&mut self, at: usize, value: T) {
        if self.words[at] != value {
            self.words[at] = value;
            self.same = false;
        }
    }

    /// Sets all words of the copy to zero.
    pub(super) fn fill_zero(&mut self) {
        if !self.same || self.words.iter().any(|word| *word != T::default()) {
            self.words.fill(T::default());
            self.same = false;
        }
    }

    /// Copies the words to the device if they have changed.
    pub(super) fn upload_changes(&mut self) -> Result<(), Error> {
        if !self.same {
            self.memory.upload(0, &self.words)?;
            self.same = true;
        }
        Ok(())
    }

    /// Notes that the device or another view writes the words, so that the copy is no longer current.
    pub(super) fn mark_stale(&mut self) {
        self.same = false;
    }

    /// Copies the words from the device.
    pub(super) fn download(&mut self) -> Result<(), Error> {
        self.memory.download(0, &mut self.words)?;
        self.same = true;
        Ok(())
    }
}
