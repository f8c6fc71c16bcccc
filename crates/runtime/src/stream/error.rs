//! What can be wrong with a stream.

use std::io;

use crate::error::{Error, SubmitError};

/// Why a stream did not begin, or did not reach the end of its input.
#[allow(missing_docs)]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The session cannot run the stream.
    #[error(transparent)]
    Session(#[from] Error),
    /// A task was not taken, for example because the session has ended.
    #[error("the chunk at byte {offset} of {name} cannot be submitted: {source}")]
    Submit { name: String, offset: u64, source: SubmitError },
    /// No operation was named.
    #[error("name the operation that gets the chunks with `op`")]
    NoOp,
    /// There are more arguments than a task has room for.
    #[error("{found} arguments were given, but a stream can have at most {most}")]
    Arguments { found: usize, most: usize },
    /// The region lies in the memory of the device.
    #[error(
        "region {region:?} cannot take a stream, because it does not lie in host memory (`Region::in_host_memory`, or `memory = \"host\"`)"
    )]
    NotInHostMemory { region: String },
    /// A chunk would have no bytes.
    #[error("a chunk must have at least one byte")]
    EmptyChunks,
    /// The region has no room for a single chunk.
    #[error("region {region:?} has {bytes} bytes, but one chunk with its overlap needs {needed}")]
    NoRoom { region: String, bytes: u64, needed: u64 },
    /// Another stream reads into the same region.
    #[error("another stream reads into the same region; give each stream a region of its own")]
    Busy,
    /// A file, folder or socket cannot be opened, or a folder cannot be listed.
    #[error("cannot open {name}: {source}")]
    Open { name: String, source: io::Error },
    /// A part of the input cannot be read.
    #[error("cannot read {name} at byte {offset}: {source}")]
    Read { name: String, offset: u64, source: io::Error },
    /// A file has become shorter while it was read.
    #[error("{name} ended at byte {offset}, although it had {size} bytes when it was opened")]
    Shrunk { name: String, offset: u64, size: u64 },
    /// The system does not allow the engine that was asked for.
    #[error("the system does not allow io_uring: {0}")]
    NoUring(io::Error),
    /// A thread that reads could not be started.
    #[error("no thread could be started: {0}")]
    Thread(io::Error),
    /// A thread that reads has panicked.
    #[error("a thread that reads the input has panicked")]
    Panicked,
}
