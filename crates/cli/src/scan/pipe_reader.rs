//! Reads pipes on a thread of their own, so that Ctrl-C ends a scan that waits for one.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use crate::stop;

/// The largest number of bytes per read.
const CHUNK: usize = 1 << 18;

/// The number of chunks that are read ahead.
const AHEAD: usize = 4;

/// The time between two checks for Ctrl-C.
const GLANCE: Duration = Duration::from_millis(20);

/// How long bytes that are already on their way are waited for after Ctrl-C.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// The bytes of a pipe. They end where the pipe does, or soon after Ctrl-C is pressed.
pub(super) struct PipeReader {
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    given: usize,
    /// The number of chunks that were taken after Ctrl-C. What has been read ahead by then is still taken.
    taken_late: usize,
    /// Whether Ctrl-C has ended the bytes before the pipe did.
    cut_short: Arc<AtomicBool>,
}

impl PipeReader {
    /// Starts a thread that opens and reads a pipe; both may wait for whoever writes to it.
    pub(super) fn start<R: Read>(
        open: impl FnOnce() -> io::Result<R> + Send + 'static,
    ) -> io::Result<PipeReader> {
        let (send, chunks) = bounded(AHEAD);
        std::thread::Builder::new().name("pelton-pipe".into()).spawn(move || {
            let mut input = match open() {
                Ok(input) => input,
                Err(error) => return drop(send.send(Err(error))),
            };
            loop {
                let mut chunk = vec![0; CHUNK];
                let sent = match input.read(&mut chunk) {
                    Ok(0) => return,
                    Ok(read) => {
                        chunk.truncate(read);
                        send.send(Ok(chunk))
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                    Err(error) => return drop(send.send(Err(error))),
                };
                if sent.is_err() {
                    return;
                }
            }
        })?;
        Ok(PipeReader { chunks, chunk: Vec::new(), given: 0, taken_late: 0, cut_short: Arc::default() })
    }

    /// Returns the flag that is set when Ctrl-C ends the bytes before the pipe does.
    pub(super) fn cut_short(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cut_short)
    }

    /// Ends the bytes because of Ctrl-C.
    fn cut(&self) -> io::Result<usize> {
        // Relaxed: the thread that reads is the one that looks at it.
        self.cut_short.store(true, Ordering::Relaxed);
        Ok(0)
    }
}

impl Read for PipeReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.given == self.chunk.len() {
            let over = stop::pressed();
            if over && self.taken_late > AHEAD {
                return self.cut();
            }
            match self.chunks.recv_timeout(if over { LAST_WAIT } else { GLANCE }) {
                Ok(chunk) => (self.chunk, self.given) = (chunk?, 0),
                Err(RecvTimeoutError::Timeout) if over => return self.cut(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
            self.taken_late += usize::from(over);
        }
        let some = to.len().min(self.chunk.len() - self.given);
        to[..some].copy_from_slice(&self.chunk[self.given..self.given + some]);
        self.given += some;
        Ok(some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_arrive() {
        let bytes: Vec<u8> = (0..3 * CHUNK).map(|k| k as u8).collect();
        let input = io::Cursor::new(bytes.clone());
        let mut all = Vec::new();
        PipeReader::start(|| Ok(input)).expect("it starts").read_to_end(&mut all).expect("it is read");
        assert!(all == bytes);
    }

    #[test]
    fn an_error_arrives_too() {
        let open = || -> io::Result<io::Empty> { Err(io::ErrorKind::NotFound.into()) };
        let error = PipeReader::start(open).expect("it starts").read(&mut [0; 9]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
