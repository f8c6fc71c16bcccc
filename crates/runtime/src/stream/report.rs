//! How a stream reads, and what it says when it has ended.

use std::time::Duration;

use super::error::StreamError;
use super::shared::StreamShare;

/// How the files of a stream are read. Pipes and sockets are read in the same way by all of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum StreamEngine {
    /// By io_uring if the system allows it, and by plain reads if not.
    #[default]
    Auto,
    /// By io_uring, with several requests per thread under way. Only Linux has it, and may refuse it.
    IoUring,
    /// By plain reads at offsets, one per thread at a time.
    Plain,
}

impl StreamEngine {
    /// Returns the name of the engine, as the command line spells it.
    pub const fn word(self) -> &'static str {
        match self {
            StreamEngine::Auto => "auto",
            StreamEngine::IoUring => "io-uring",
            StreamEngine::Plain => "plain",
        }
    }
}

/// What a stream has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamReport {
    /// How many files, pipes and sockets were opened.
    pub files: u64,
    /// How many bytes were handed over, without those that were repeated.
    pub bytes: u64,
    /// How many chunks were handed over.
    pub chunks: u64,
    /// How many of their tasks had no result.
    pub faults: u64,
    /// How files were read. This is never [`StreamEngine::Auto`].
    pub engine: StreamEngine,
    /// Whether the chunks are registered with the system, so that it need not look up their pages for every read. Only
    /// io_uring can do that, and not with all memory.
    pub registered: bool,
    /// How many threads have read.
    pub readers: usize,
    /// Whether the stream was stopped before the end of its input.
    pub stopped: bool,
    /// How long the stream took.
    pub took: Duration,
}

/// The engine of a stream, and what it has to read with.
pub(super) enum EngineUse {
    /// Plain reads by so many threads.
    Plain(usize),
    /// A ring per thread.
    #[cfg(target_os = "linux")]
    Rings(Vec<super::uring_reader::RequestRing>),
}

impl EngineUse {
    /// Chooses the engine, and asks the system for what it needs.
    pub(super) fn choose(
        wanted: StreamEngine,
        readers: Option<usize>,
        share: &StreamShare,
    ) -> Result<EngineUse, StreamError> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let most = share.ring.count().min(MOST_READERS);
        let threads = |suits: usize| readers.unwrap_or(suits).clamp(1, most);
        #[cfg(target_os = "linux")]
        if wanted != StreamEngine::Plain {
            let rings = super::uring_reader::open_rings(threads(cores.div_ceil(4)), &share.ring);
            match rings {
                Ok(rings) => return Ok(EngineUse::Rings(rings)),
                Err(error) if wanted == StreamEngine::IoUring => return Err(StreamError::NoUring(error)),
                Err(_) => {}
            }
        }
        if wanted == StreamEngine::IoUring {
            return Err(StreamError::NoUring(std::io::ErrorKind::Unsupported.into()));
        }
        Ok(EngineUse::Plain(threads(cores.div_ceil(2))))
    }

    /// How many threads read.
    pub(super) fn readers(&self) -> usize {
        match self {
            EngineUse::Plain(threads) => *threads,
            #[cfg(target_os = "linux")]
            EngineUse::Rings(rings) => rings.len(),
        }
    }

    /// The engine, and whether chunks are registered with the system.
    pub(super) fn described(&self) -> (StreamEngine, bool) {
        match self {
            EngineUse::Plain(_) => (StreamEngine::Plain, false),
            #[cfg(target_os = "linux")]
            EngineUse::Rings(rings) => {
                (StreamEngine::IoUring, rings.iter().all(|ring| ring.has_registered_chunks()))
            }
        }
    }
}

/// The most threads that read.
const MOST_READERS: usize = 64;
