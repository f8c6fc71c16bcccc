//! What a stream reads: files, folders, readers and sockets, in order.

use std::fmt;
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use super::error::StreamError;

/// What a stream reads. Several inputs are read one after the other; files are numbered in this order, from 0 on.
///
/// ```no_run
/// use pelton::stream::Input;
///
/// let logs = Input::files(["monday.log", "tuesday.log"]).and(Input::folder("archive")).and(Input::stdin());
/// ```
#[must_use]
#[derive(Default, Debug)]
pub struct Input(Vec<InputPart>);

enum InputPart {
    File(PathBuf),
    Folder(PathBuf),
    Reader(String, Box<dyn Read + Send>),
    Tcp(String),
    #[cfg(unix)]
    Unix(PathBuf),
}

impl fmt::Debug for InputPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl InputPart {
    fn name(&self) -> String {
        match self {
            InputPart::File(path) | InputPart::Folder(path) => path.display().to_string(),
            InputPart::Reader(name, _) => name.clone(),
            InputPart::Tcp(address) => format!("tcp://{address}"),
            #[cfg(unix)]
            InputPart::Unix(path) => format!("unix:{}", path.display()),
        }
    }
}

impl Input {
    /// Reads files. What cannot be read at an offset, such as a named pipe, is read as it comes.
    pub fn files(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        Input(paths.into_iter().map(|path| InputPart::File(path.as_ref().into())).collect())
    }

    /// Reads all files in a folder and in those below it, in the order of their names. They are listed when the stream
    /// begins. Links to folders are not followed, and what is neither a file nor a folder is left out.
    pub fn folder(path: impl AsRef<Path>) -> Self {
        Input(vec![InputPart::Folder(path.as_ref().into())])
    }

    /// Reads whatever a reader gives until it ends. The name is used in errors. The reader is read in a thread of its own, which
    /// ends when the reader returns; if the stream is stopped earlier, it does not wait for that.
    pub fn reader(name: impl Into<String>, reader: impl Read + Send + 'static) -> Self {
        Input(vec![InputPart::Reader(name.into(), Box::new(reader))])
    }

    /// Reads standard input until it ends.
    pub fn stdin() -> Self {
        Input::reader("standard input", std::io::stdin())
    }

    /// Connects to a TCP socket, such as `localhost:4000`, and reads what comes until the other side closes it.
    pub fn tcp(address: impl Into<String>) -> Self {
        Input(vec![InputPart::Tcp(address.into())])
    }

    /// Connects to a Unix socket, and reads what comes until the other side closes it.
    #[cfg(unix)]
    pub fn unix(path: impl AsRef<Path>) -> Self {
        Input(vec![InputPart::Unix(path.as_ref().into())])
    }

    /// Reads another input after this one.
    pub fn and(mut self, other: Input) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Returns how many bytes the files and folders have now, as far as that can be known: pipes and sockets count nothing, and
    /// neither does what cannot be looked at.
    pub fn known_bytes(&self) -> u64 {
        let file_bytes = |path: &Path| fs::metadata(path).map_or(0, |facts| facts.len());
        let part_bytes = |part: &InputPart| match part {
            InputPart::File(path) => file_bytes(path),
            InputPart::Folder(path) => {
                let mut files = Vec::new();
                let _ = list_folder(path, &mut files);
                files.iter().map(|path| file_bytes(path)).sum()
            }
            _ => 0,
        };
        self.0.iter().map(part_bytes).sum()
    }

    /// Lists what is to be opened, in order.
    pub(super) fn list(self) -> Result<Vec<InputSource>, StreamError> {
        let mut sources = Vec::new();
        for part in self.0 {
            let name = part.name();
            match part {
                InputPart::File(path) => sources.push(InputSource::File(path)),
                InputPart::Folder(path) => {
                    let mut files = Vec::new();
                    list_folder(&path, &mut files)?;
                    sources.extend(files.into_iter().map(InputSource::File));
                }
                InputPart::Reader(_, reader) => sources.push(InputSource::Reader(name, reader)),
                InputPart::Tcp(address) => {
                    let socket = TcpStream::connect(&address).map_err(|source| open_error(&name, source))?;
                    sources.push(InputSource::Reader(name, Box::new(socket)));
                }
                #[cfg(unix)]
                InputPart::Unix(path) => {
                    let socket = std::os::unix::net::UnixStream::connect(path);
                    let socket = socket.map_err(|source| open_error(&name, source))?;
                    sources.push(InputSource::Reader(name, Box::new(socket)));
                }
            }
        }
        Ok(sources)
    }
}

/// Something that is opened and read.
pub(super) enum InputSource {
    File(PathBuf),
    Reader(String, Box<dyn Read + Send>),
}

pub(super) fn open_error(name: &str, source: std::io::Error) -> StreamError {
    StreamError::Open { name: name.into(), source }
}

/// Lists the files in a folder and below it, in the order of their names.
fn list_folder(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), StreamError> {
    let wrong = |source| open_error(&folder.display().to_string(), source);
    let mut entries =
        fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>()).map_err(wrong)?;
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let (kind, path) = (entry.file_type().map_err(wrong)?, entry.path());
        if kind.is_dir() {
            list_folder(&path, files)?;
        } else if kind.is_file() || kind.is_symlink() && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}
