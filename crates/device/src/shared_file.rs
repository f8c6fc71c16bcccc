//! Memory that several processes map: files that exist in memory only.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// A file in memory, of a fixed size. All processes that map it see the same bytes.
#[derive(Debug)]
pub(crate) struct SharedFile {
    file: OwnedFd,
    /// The number of the file among all that this process has made or received.
    number: u64,
}

impl SharedFile {
    /// Makes a file of so many bytes, all zero. Its size is sealed, so no process can make it smaller under another one that
    /// has mapped it.
    pub(crate) fn new(bytes: usize) -> Result<Self, Errno> {
        let file = rustix::fs::memfd_create("pelton", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&file, SIZE_SEALS | SealFlags::SEAL)?;
        Ok(SharedFile::numbered(file))
    }

    /// Takes a file that another process has made. It is refused if it has fewer bytes or could become smaller.
    pub(crate) fn received(file: OwnedFd, bytes: usize) -> Result<Self, Errno> {
        let seals = rustix::fs::fcntl_get_seals(&file)?;
        let found = rustix::fs::fstat(&file)?.st_size;
        match seals.contains(SIZE_SEALS) && u64::try_from(found).is_ok_and(|found| found >= bytes as u64) {
            true => Ok(SharedFile::numbered(file)),
            false => Err(Errno::INVAL),
        }
    }

    fn numbered(file: OwnedFd) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1 << 63);
        SharedFile { file, number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// A number that no other file of this process has. It is greater than any other number that an executor is told.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Maps the first bytes of the file.
    pub(crate) fn map(&self, bytes: usize) -> Result<NonNull<u8>, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place that the system chooses touches nothing that is there.
        let start = unsafe { rustix::mm::mmap(null_mut(), bytes, access, MapFlags::SHARED, &self.file, 0) }?;
        NonNull::new(start.cast()).ok_or(Errno::NOMEM)
    }

    /// Takes back a mapping of so many bytes that [`map`](SharedFile::map) gave.
    ///
    /// # Safety
    ///
    /// The mapping must be the caller's own, and must not be used afterwards.
    pub(crate) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise.
        let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), bytes) };
    }
}

/// What keeps the size of a file as it is.
const SIZE_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

impl AsFd for SharedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_small_or_could_shrink_is_refused() {
        let file = SharedFile::new(4096).unwrap();
        let copy = || file.file.try_clone().unwrap();
        assert!(SharedFile::received(copy(), 4096).is_ok());
        assert_eq!(SharedFile::received(copy(), 4097).unwrap_err(), Errno::INVAL);
        let open = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&open, 8192).unwrap();
        assert_eq!(SharedFile::received(open, 4096).unwrap_err(), Errno::INVAL);
    }

    #[test]
    fn two_mappings_are_the_same_bytes() {
        let file = SharedFile::new(4096).unwrap();
        let (a, b) = (file.map(4096).unwrap(), file.map(4096).unwrap());
        // SAFETY: both mappings have so many bytes, and nobody else uses them.
        unsafe { a.add(4095).write_volatile(7) };
        // SAFETY: as above.
        assert_eq!(unsafe { b.add(4095).read_volatile() }, 7);
        for start in [a, b] {
            // SAFETY: the mapping is not used any more.
            unsafe { SharedFile::unmap(start, 4096) };
        }
    }
}
