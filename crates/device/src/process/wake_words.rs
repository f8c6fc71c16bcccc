//! The words in which runs say whether any of their groups is parked, so that the host knows whether to wake them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::DeviceError;
use crate::launch::WakeWord;
use crate::mapped::{Mapped, WordWidth};
use crate::memory::{Memory, MemoryKind};
use crate::shared_file::SharedFile;

/// How many runs of an executor can be under way at once.
const RUNS: usize = 512;
/// How many words there are per run, so that no two runs share a line of a cache.
const STRIDE: usize = 8;

/// A block of words that host and executor map.
#[derive(Debug)]
pub(super) struct WakeWords {
    words: Memory,
    /// The words that no run has, those last that were given back last, so that nobody still writes them who belongs to the
    /// run before. The host alone gives them out.
    free: Mutex<VecDeque<usize>>,
}

impl WakeWords {
    /// Makes the words, at the host.
    pub(super) fn new() -> Result<Self, DeviceError> {
        Ok(WakeWords::over(Mapped::shared(WordWidth::W64, RUNS * STRIDE)?))
    }

    /// Maps the words that the host has made, at the executor.
    pub(super) fn of_file(file: SharedFile) -> Result<Self, DeviceError> {
        Ok(WakeWords::over(Mapped::of_file(file, WordWidth::W64, RUNS * STRIDE)?))
    }

    fn over(block: Mapped) -> Self {
        let words = Memory::new(MemoryKind::Host, WordWidth::W64, RUNS * STRIDE, Arc::new(block));
        WakeWords { words, free: Mutex::new((0..RUNS).collect()) }
    }

    /// The file to be mapped at the other end.
    pub(super) fn file(&self) -> Option<&SharedFile> {
        self.words.store().mapped().and_then(Mapped::file)
    }

    /// How many bytes the file must have.
    pub(super) const fn bytes() -> usize {
        RUNS * STRIDE * 8
    }

    /// The word of a run.
    pub(super) fn word(&self, run: usize) -> Result<WakeWord, DeviceError> {
        let words = self.words.view64().filter(|_| run < RUNS);
        let words =
            words.ok_or_else(|| DeviceError::Executor(format!("there is no word {run} for waking")))?;
        Ok(WakeWord::new(words, run * STRIDE))
    }

    /// Gives a run a word that no other run has.
    pub(super) fn take(&self) -> Result<(usize, WakeWord), DeviceError> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let run =
            free.ok_or(DeviceError::Busy { what: "its process has as many runs as it can have".into() })?;
        let word = self.word(run)?;
        word.word().store(0, std::sync::atomic::Ordering::Relaxed);
        Ok((run, word))
    }

    /// Takes the word of a run back that has ended.
    pub(super) fn give_back(&self, run: usize) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push_back(run);
    }
}
