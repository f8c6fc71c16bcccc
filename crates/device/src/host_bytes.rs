//! Bytes in host memory from which, and to which, a device copies at the full speed of its bus.
//!
//! A GPU copies directly only from memory that is registered with its driver; everything else is first copied to such
//! memory by the driver. [`HostBytes`] is registered memory that the host uses like any other: to read files into, for
//! example, which [`Memory::upload`](crate::Memory::upload) then copies to the device.

use std::fmt;

use crate::error::DeviceError;
use crate::mapped::WordWidth;
use crate::memory::{Memory, MemoryKind};
use crate::{Device, mapped};

/// A block of bytes in host memory from which a device copies directly. It begins at a page boundary, and its bytes are
/// zero at first.
///
/// Kernels cannot access the block, so the host may use its bytes like those of any other slice.
pub struct HostBytes {
    /// The memory. No clone of it is ever given out.
    memory: Memory,
    len: usize,
}

impl HostBytes {
    /// Allocates `len` bytes for copies to and from a device.
    ///
    /// On a GPU this takes time in proportion to the length, and the memory is freed only when no kernel is resident. So
    /// it is best to allocate blocks once and to reuse them.
    ///
    /// # Errors
    ///
    /// If there is not enough memory, or the device has no memory that the host can access.
    pub fn new(device: &dyn Device, len: usize) -> Result<Self, DeviceError> {
        let memory = device.alloc(MemoryKind::Host, WordWidth::W64, len.div_ceil(8).max(1))?;
        match memory.store().mapped() {
            Some(_) => Ok(HostBytes { memory, len }),
            None => Err(DeviceError::Memory {
                device: device.caps().name.clone(),
                what: "host memory that the host can reach".into(),
            }),
        }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn block(&self) -> &mapped::Mapped {
        self.memory.store().mapped().expect("memory that is mapped stays so")
    }

    /// Returns the bytes, to be read.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the block has at least `len` initialised bytes for as long as `self` lives, and no one else has the memory, so
        // nothing writes it while `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.block().start().as_ptr(), self.len) }
    }

    /// Returns the bytes for writing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.block().start().as_ptr(), self.len) }
    }
}

impl fmt::Debug for HostBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostBytes").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_zero_at_first_and_keep_what_is_written() {
        for name in ["cpu", "reference"] {
            let device = crate::open(name).expect("it is always there");
            for len in [0, 1, 8, 5000] {
                let mut bytes = HostBytes::new(&*device, len).expect("there is memory");
                assert_eq!(bytes.as_slice(), vec![0; len]);
                bytes.as_mut_slice().fill(7);
                assert_eq!(bytes.as_slice(), vec![7; len]);
                assert_eq!(bytes.as_slice().as_ptr() as usize % 4096, 0);
            }
        }
    }
}
