//! Reads objects of git through one process of git that keeps running.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::scan::git::git_command;

/// A running process of git that prints the objects it is asked for.
pub(super) struct BlobStore {
    child: Child,
    asked: Option<ChildStdin>,
    printed: BufReader<ChildStdout>,
}

impl BlobStore {
    /// Starts the process, for the repository of the current folder.
    pub(super) fn start() -> io::Result<BlobStore> {
        let mut command = git_command("".as_ref());
        command.args(["cat-file", "--batch"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn()?;
        let asked = child.stdin.take();
        let printed = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(BlobStore { child, asked, printed: BufReader::with_capacity(1 << 16, printed) })
    }

    /// Asks for an object.
    pub(super) fn open(&mut self, object: &str) -> io::Result<BlobBytes<'_>> {
        let asked = self.asked.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(asked, "{object}")?;
        let mut head = String::new();
        self.printed.read_line(&mut head)?;
        let size = head.strip_suffix('\n').and_then(|head| head.rsplit_once(' ')?.1.parse().ok());
        match size {
            Some(size) => Ok(BlobBytes { printed: &mut self.printed, size, left: size }),
            None => Err(io::Error::other(format!("git has no object {object}"))),
        }
    }
}

impl Drop for BlobStore {
    fn drop(&mut self) {
        // The process ends by itself when its input is closed.
        drop(self.asked.take());
        let _ = self.child.wait();
    }
}

/// The bytes of an object.
pub(super) struct BlobBytes<'s> {
    printed: &'s mut BufReader<ChildStdout>,
    /// The number of bytes.
    pub size: u64,
    left: u64,
}

impl BlobBytes<'_> {
    /// Reads past what is left of the object, so that the next one can be read.
    pub(super) fn finish(self) -> io::Result<()> {
        // A line break stands behind each object.
        let rest = self.left + 1;
        let skipped = io::copy(&mut self.printed.take(rest), &mut io::sink())?;
        if skipped == rest { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl Read for BlobBytes<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(to.len());
        let read = self.printed.read(&mut to[..most])?;
        if read == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        Ok(read)
    }
}
