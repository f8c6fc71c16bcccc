//! The socket between a host and its executor: messages of any length, which may bring files.
//!
//! A message is a header with its length and the number of its files, and then its bytes. Files travel with the header,
//! because a stream of bytes does not say which byte a file belongs to unless it is read exactly up to there.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most files that a message brings.
const MOST_FILES: usize = 2;

/// The longest message. Texts of modules are the longest.
const MOST_BYTES: usize = 1 << 30;

const HEADER: usize = 8;

/// One end of the socket.
#[derive(Debug)]
pub(super) struct Channel {
    socket: UnixStream,
    /// Held while a message is written, so that messages of several threads do not mix.
    writing: Mutex<()>,
}

impl Channel {
    pub(super) fn new(socket: UnixStream) -> Self {
        Channel { socket, writing: Mutex::new(()) }
    }

    /// Sends a message with files.
    pub(super) fn send(&self, message: &impl Serialize, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let (header, bytes) = encode(message, files.len())?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !with.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(io::Error::other("too many files"));
        }
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        // A host that writes to an executor that has died must not be killed by a signal.
        let sent = retry(|| {
            rustix::net::sendmsg(&self.socket, &[IoSlice::new(&header)], &mut with, SendFlags::NOSIGNAL)
        })?;
        self.send_rest(&header[sent..])?;
        self.send_rest(&bytes)
    }

    /// Sends a message if that is possible without waiting. Returns whether it was sent.
    pub(super) fn send_now(&self, message: &impl Serialize) -> bool {
        let Ok(_writing) = self.writing.try_lock() else { return false };
        let Ok((header, bytes)) = encode(message, 0) else { return false };
        let whole = [&header[..], &bytes].concat();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match retry(|| rustix::net::send(&self.socket, &whole, flags)) {
            // A message that has begun must be ended.
            Ok(sent) => self.send_rest(&whole[sent..]).is_ok(),
            Err(_) => false,
        }
    }

    fn send_rest(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = retry(|| rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL))?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Waits for the next message. Only one thread may do so. The error is `UnexpectedEof` if the other end is closed.
    pub(super) fn receive<T: DeserializeOwned>(&self) -> io::Result<(T, Vec<OwnedFd>)> {
        let (mut header, mut files, mut filled) = ([0u8; HEADER], Vec::new(), 0);
        while filled < HEADER {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
            let mut with = RecvAncillaryBuffer::new(&mut space);
            let mut into = [IoSliceMut::new(&mut header[filled..])];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let got = retry(|| rustix::net::recvmsg(&self.socket, &mut into, &mut with, flags))?;
            if got.bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += got.bytes;
            for message in with.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    files.extend(received);
                }
            }
        }
        let number =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (bytes, expected) = (number(0) as usize, number(4) as usize);
        // Files that this process has no room for are missing, and whoever needs them says so.
        if bytes > MOST_BYTES || files.len() > expected {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut message = vec![0; bytes];
        (&self.socket).read_exact(&mut message)?;
        let message =
            postcard::from_bytes(&message).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok((message, files))
    }

    /// Closes the socket for both ends, so that whoever waits for a message stops waiting.
    pub(super) fn close(&self) {
        let _ = (&self.socket).flush();
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The header and the bytes of a message that brings so many files.
fn encode(message: &impl Serialize, files: usize) -> io::Result<([u8; HEADER], Vec<u8>)> {
    let bytes = postcard::to_allocvec(message).map_err(io::Error::other)?;
    let mut header = [0u8; HEADER];
    header[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    header[4..].copy_from_slice(&(files as u32).to_le_bytes());
    Ok((header, bytes))
}

/// Calls the system again for as long as a signal interrupts the call.
fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_any_length_arrive_in_order_with_their_files() {
        let (a, b) = UnixStream::pair().unwrap();
        let (a, b) = (Channel::new(a), Channel::new(b));
        let long = "x".repeat(3 << 20);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                a.send(&"first", &[]).unwrap();
                a.send(&long, &[a.as_fd(), a.as_fd()]).unwrap();
                a.send(&7u32, &[a.as_fd()]).unwrap();
                a.close();
            });
            let (text, files) = b.receive::<String>().unwrap();
            assert_eq!((text.as_str(), files.len()), ("first", 0));
            let (text, files) = b.receive::<String>().unwrap();
            assert_eq!((text.len(), files.len()), (long.len(), 2));
            let (number, files) = b.receive::<u32>().unwrap();
            assert_eq!((number, files.len()), (7, 1));
            assert_eq!(b.receive::<u32>().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        });
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        let (a, b) = UnixStream::pair().unwrap();
        let b = Channel::new(b);
        (&a).write_all(&[255; 64]).unwrap();
        assert_eq!(b.receive::<u32>().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn sending_to_a_closed_end_is_an_error_and_no_signal() {
        let (a, b) = UnixStream::pair().unwrap();
        drop(b);
        let a = Channel::new(a);
        assert!(a.send(&1u32, &[]).is_err());
    }
}
