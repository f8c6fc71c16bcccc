//! Reads pieces of files with plain reads at offsets, one at a time.

use std::io;
use std::os::fd::AsRawFd;

use super::error::StreamError;
use super::plan::FilePiece;
use super::sequential::read_to_end;
use super::shared::{Claimed, Patience, StreamShare, TakenChunk};

/// Reads pieces until there are none left.
pub(super) fn read_plainly(share: &StreamShare) {
    loop {
        match share.claim(Patience::Wait) {
            Claimed::Piece(piece, taken) => match read_piece(share, &piece, taken) {
                Ok(()) => share.submit(taken, piece.content()),
                Err(error) => share.fail(taken.sequence, error),
            },
            Claimed::Sequential(source) => read_to_end(share, source),
            Claimed::NothingNow => {}
            Claimed::Over => return,
        }
    }
}

/// Fills a chunk with a piece of a file.
fn read_piece(share: &StreamShare, piece: &FilePiece, taken: TakenChunk) -> Result<(), StreamError> {
    let mut done = 0;
    while done < piece.len {
        let to = share.ring.address(taken.chunk, done);
        let (fd, offset) = (piece.file.file.as_raw_fd(), piece.offset + done as u64);
        // SAFETY: the chunk has room for the rest of the piece, and only this thread writes it.
        let read = unsafe { libc::pread(fd, to.as_ptr().cast(), piece.len - done, offset as libc::off_t) };
        match usize::try_from(read) {
            Ok(0) => return Err(piece.shrunk(done)),
            Ok(read) => done += read,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(piece.read_error(done, error)),
            },
        }
    }
    Ok(())
}

impl FilePiece {
    /// The error of a file that has no more bytes, although the piece has some.
    pub(super) fn shrunk(&self, done: usize) -> StreamError {
        let (name, size) = (self.file.source.name.to_string(), self.file.size);
        StreamError::Shrunk { name, offset: self.offset + done as u64, size }
    }

    /// The error of a read after so many bytes of the piece.
    pub(super) fn read_error(&self, done: usize, source: io::Error) -> StreamError {
        let name = self.file.source.name.to_string();
        StreamError::Read { name, offset: self.offset + done as u64, source }
    }
}
