//! Memory of a device in another process. The host reaches it only by asking for copies.

use std::sync::{Arc, PoisonError};

use super::connection::{Connection, next_number};
use super::copy_place::CopyPlace;
use super::message::{Number, Wish, is_wide};
use crate::error::DeviceError;
use crate::mapped::{Mapped, WordWidth};
use crate::memory::{Line, Memory, MemoryKind, MemoryStore, WordSlice, WordSliceMut};

/// Memory of the device itself. It is lost with its executor.
#[derive(Debug)]
struct RemoteStore {
    executor: Arc<Connection>,
    number: Number,
    width: WordWidth,
}

/// Allocates memory of the device.
pub(super) fn alloc(executor: &Arc<Connection>, width: WordWidth, len: usize) -> Result<Memory, DeviceError> {
    let number = next_number();
    executor.ask(Wish::Alloc { memory: number, wide: is_wide(width), len })?;
    let store = RemoteStore { executor: executor.clone(), number, width };
    Ok(Memory::new(MemoryKind::Device, width, len, Arc::new(store)))
}

impl MemoryStore for RemoteStore {
    fn mapped(&self) -> Option<&Mapped> {
        None
    }

    fn address(&self, device: u64) -> Option<u64> {
        (device == self.executor.number).then_some(self.number)
    }

    fn why_lost(&self) -> Option<DeviceError> {
        self.executor.why_lost().map(DeviceError::Lost)
    }

    fn upload(&self, at: usize, words: WordSlice<'_>) -> Result<(), DeviceError> {
        let most = CopyPlace::capacity(self.width);
        match words {
            WordSlice::W32(words) => {
                for (k, piece) in words.chunks(most).enumerate() {
                    self.upload_piece(at + k * most, piece.len(), WordSlice::W32(piece))?;
                }
            }
            WordSlice::W64(words) => {
                for (k, piece) in words.chunks(most).enumerate() {
                    self.upload_piece(at + k * most, piece.len(), WordSlice::W64(piece))?;
                }
            }
        }
        Ok(())
    }

    fn download(&self, at: usize, words: WordSliceMut<'_>) -> Result<(), DeviceError> {
        let most = CopyPlace::capacity(self.width);
        match words {
            WordSliceMut::W32(words) => {
                for (k, piece) in words.chunks_mut(most).enumerate() {
                    self.download_piece(at + k * most, piece.len(), WordSliceMut::W32(piece))?;
                }
            }
            WordSliceMut::W64(words) => {
                for (k, piece) in words.chunks_mut(most).enumerate() {
                    self.download_piece(at + k * most, piece.len(), WordSliceMut::W64(piece))?;
                }
            }
        }
        Ok(())
    }

    fn put(&self, _at: usize, _lines: &[Line]) -> Result<(), DeviceError> {
        let device = "a device in another process".into();
        Err(DeviceError::Memory { device, what: "near memory".into() })
    }

    fn flush(&self) {}
}

impl RemoteStore {
    fn upload_piece(&self, at: usize, count: usize, words: WordSlice<'_>) -> Result<(), DeviceError> {
        let mut place = self.executor.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.fill(words);
        self.executor.ask(Wish::Upload { memory: self.number, at, count }).map(drop)
    }

    fn download_piece(&self, at: usize, count: usize, words: WordSliceMut<'_>) -> Result<(), DeviceError> {
        let mut place = self.executor.place.lock().unwrap_or_else(PoisonError::into_inner);
        self.executor.ask(Wish::Download { memory: self.number, at, count })?;
        place.read(words);
        Ok(())
    }
}

impl Drop for RemoteStore {
    fn drop(&mut self) {
        self.executor.tell(Wish::Free { memory: self.number });
    }
}
