//! Reads standard input as chunks of whole lines, on a thread of its own, so that nothing else waits for it.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The number of bytes per read.
const CHUNK: usize = 1 << 16;

/// The number of chunks that are read ahead.
const AHEAD: usize = 4;

/// The largest number of bytes in a line, which has room for the longest payload in any form. A longer line is cut after
/// one more byte.
pub(super) const LONGEST: usize = 1 << 21;

/// Whole lines. Only the last line of the input may lack its end.
pub(super) type Chunk = io::Result<Vec<u8>>;

/// The chunks in order.
pub(super) type Chunks = Receiver<Chunk>;

/// Starts a thread that reads the input, and returns its chunks.
pub(super) fn read_chunks(input: impl Read + Send + 'static) -> io::Result<Chunks> {
    let (send, chunks) = sync_channel(AHEAD);
    std::thread::Builder::new().name("pelton-lines".into()).spawn(move || {
        if let Err(error) = copy_lines(input, &send) {
            // If this fails, the receiver has gone.
            let _ = send.send(Err(error));
        }
    })?;
    Ok(chunks)
}

fn copy_lines(mut input: impl Read, to: &SyncSender<Chunk>) -> io::Result<()> {
    let mut bytes = Vec::new();
    // Whether the current line is too long, so that the rest of it is skipped.
    let mut over = false;
    loop {
        let old = bytes.len();
        bytes.resize(old + CHUNK, 0);
        let read = match input.read(&mut bytes[old..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                bytes.truncate(old);
                continue;
            }
            read => read?,
        };
        bytes.truncate(old + read);
        if read == 0 {
            // What is left is the last line.
            if !bytes.is_empty() {
                let _ = to.send(Ok(bytes));
            }
            return Ok(());
        }
        if over {
            let Some(end) = bytes[old..].iter().position(|b| *b == b'\n') else {
                bytes.truncate(old);
                continue;
            };
            bytes.drain(old..old + end);
            over = false;
        }
        // What was left of the last chunk has no end of a line.
        let Some(end) = bytes[old..].iter().rposition(|b| *b == b'\n').map(|end| old + end) else {
            over = bytes.len() > LONGEST;
            bytes.truncate(LONGEST + 1);
            continue;
        };
        let rest = bytes.split_off(end + 1);
        if to.send(Ok(std::mem::replace(&mut bytes, rest))).is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns a few bytes at a time.
    struct Slow(Vec<u8>, usize);

    impl Read for Slow {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let some = self.1.min(self.0.len()).min(to.len());
            to[..some].copy_from_slice(&self.0[..some]);
            self.0.drain(..some);
            Ok(some)
        }
    }

    fn lines(text: &[u8], step: usize) -> Vec<usize> {
        let chunks = read_chunks(Slow(text.into(), step)).expect("a thread starts");
        let mut all = Vec::new();
        for chunk in chunks {
            let chunk = chunk.expect("it can be read");
            all.extend(chunk.split_inclusive(|b| *b == b'\n').map(|line| line.trim_ascii_end().len()));
        }
        all
    }

    #[test]
    fn lines_stay_whole() {
        for step in [1, 2, 3, 7, 100] {
            assert_eq!(lines(b"a\nbcd\n\nef", step), [1, 3, 0, 2], "{step} at a time");
        }
        assert!(lines(b"", 1).is_empty());
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let mut text = vec![b'x'; 3 * LONGEST];
        text.extend(b"\nok\n");
        for step in [LONGEST / 9, 10 * LONGEST] {
            assert_eq!(lines(&text, step), [LONGEST + 1, 2], "{step} at a time");
        }
    }
}
