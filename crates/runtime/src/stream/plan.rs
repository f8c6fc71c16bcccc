//! Which part of the input is read next.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use super::chunk_ring::ChunkShape;
use super::error::StreamError;
use super::input::{InputSource, open_error};

/// The name and the number of a file, pipe or socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SourceName {
    pub number: u32,
    pub name: Arc<str>,
}

/// A file that is read at offsets.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub source: SourceName,
    pub file: File,
    /// How many bytes it had when it was opened. What is appended later is not read.
    pub size: u64,
}

/// A part of a file that fills a chunk.
#[derive(Clone, Debug)]
pub(super) struct FilePiece {
    pub file: Arc<OpenFile>,
    /// The offset of its first byte, which may be one that the piece before it had too.
    pub offset: u64,
    /// How many bytes it has.
    pub len: usize,
    /// How many of its bytes the piece before it had too.
    pub overlap: usize,
}

/// Something that is read from its beginning to its end.
pub(super) struct SequentialSource {
    pub source: SourceName,
    pub reader: Box<dyn Read + Send>,
}

/// A pipe or a device, which is opened when it is first read, because that may take until somebody writes to it.
enum LateFile {
    Closed(PathBuf),
    Open(File),
}

impl Read for LateFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if let LateFile::Closed(path) = self {
            *self = LateFile::Open(File::open(path)?);
        }
        match self {
            LateFile::Open(file) => file.read(bytes),
            LateFile::Closed(_) => Ok(0),
        }
    }
}

/// A file that has so many bytes, whatever is appended later. It is an error if it has become shorter.
struct SizedFile {
    file: File,
    /// How many bytes are left to be read.
    left: u64,
    size: u64,
}

impl Read for SizedFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read(&mut bytes[..most])?;
        if read == 0 && most > 0 {
            let why = format!("the file ended, although it had {} bytes when it was opened", self.size);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// What is to be read next.
pub(super) enum NextPart {
    Piece(FilePiece),
    Sequential(SequentialSource),
}

/// The parts of the input that were not given out yet.
pub(super) struct FilePlan {
    sources: VecDeque<InputSource>,
    shape: ChunkShape,
    /// Whether files are read from their beginning to their end, because it depends on their bytes where chunks end.
    sequential: bool,
    /// The file whose pieces are given out, and the offset of the next one.
    current: Option<(Arc<OpenFile>, u64)>,
    /// How many files, pipes and sockets were opened.
    pub opened: u32,
}

impl FilePlan {
    pub(super) fn new(sources: Vec<InputSource>, shape: ChunkShape, delimiter: Option<u8>) -> Self {
        let sequential = delimiter.is_some() || !cfg!(unix);
        FilePlan { sources: sources.into(), shape, sequential, current: None, opened: 0 }
    }

    /// Gives out the next part, or `None` after the last one.
    pub(super) fn next_part(&mut self) -> Result<Option<NextPart>, StreamError> {
        loop {
            if let Some(piece) = self.next_piece() {
                return Ok(Some(NextPart::Piece(piece)));
            }
            let Some(source) = self.sources.pop_front() else { return Ok(None) };
            match source {
                InputSource::Reader(name, reader) => {
                    let source = self.number(&name);
                    return Ok(Some(NextPart::Sequential(SequentialSource { source, reader })));
                }
                InputSource::File(path) => {
                    if let Some(sequential) = self.open(path)? {
                        return Ok(Some(NextPart::Sequential(sequential)));
                    }
                }
            }
        }
    }

    /// Opens a file, and returns it if it is read from its beginning to its end. Otherwise it is the current one.
    fn open(&mut self, path: PathBuf) -> Result<Option<SequentialSource>, StreamError> {
        let name = path.display().to_string();
        let wrong = |source| open_error(&name, source);
        let kind = std::fs::metadata(&path).map_err(wrong)?;
        if kind.is_dir() {
            return Err(wrong(io::ErrorKind::IsADirectory.into()));
        }
        if !kind.is_file() {
            let source = self.number(&name);
            return Ok(Some(SequentialSource { source, reader: Box::new(LateFile::Closed(path)) }));
        }
        let file = File::open(&path).map_err(wrong)?;
        let size = file.metadata().map_err(wrong)?.len();
        let source = self.number(&name);
        // The system says that many files of its own are empty, and they have bytes all the same.
        if self.sequential && size > 0 {
            let reader = Box::new(SizedFile { file, left: size, size });
            return Ok(Some(SequentialSource { source, reader }));
        }
        if size == 0 {
            return Ok(Some(SequentialSource { source, reader: Box::new(file) }));
        }
        self.current = Some((Arc::new(OpenFile { source, file, size }), 0));
        Ok(None)
    }

    /// Numbers a source that was opened.
    fn number(&mut self, name: &str) -> SourceName {
        let number = self.opened;
        self.opened += 1;
        SourceName { number, name: name.into() }
    }

    /// Gives out the next piece of the current file.
    fn next_piece(&mut self) -> Option<FilePiece> {
        let (file, offset) = self.current.as_mut()?;
        if *offset >= file.size {
            self.current = None;
            return None;
        }
        let overlap = (*offset).min(self.shape.overlap_bytes as u64) as usize;
        let new = (file.size - *offset).min(self.shape.chunk_bytes as u64);
        let piece = FilePiece {
            file: file.clone(),
            offset: *offset - overlap as u64,
            len: overlap + new as usize,
            overlap,
        };
        *offset += new;
        Some(piece)
    }
}
