//! The errors that stop a command.

use std::io;
use std::path::PathBuf;

use pelton_device::DeviceError;
use pelton_filetest::bind::BindError;
use pelton_filetest::file::FileError;
use pelton_filetest::target::TargetError;
use pelton_ir::emit::EmitError;
use pelton_ir::interp;

use crate::CliStatus;
use crate::bench::BuildError;
use crate::recording::RecordingError;
use crate::run::ReplayDifference;

/// The errors that stop a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The reader of the output has closed it.
    #[error("the reader of the output has gone")]
    Pipe,
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// Standard input cannot be read.
    #[error("cannot read standard input: {0}")]
    Input(#[source] io::Error),
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A text or module is refused; the string holds the diagrams.
    #[error("{0}")]
    Report(String),
    /// A buffer cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A name is unknown.
    #[error("there is no {kind} `{name}`; {hint}")]
    Unknown {
        /// The kind of thing that was named.
        kind: &'static str,
        /// The name that was given.
        name: String,
        /// The names that exist.
        hint: String,
    },
    /// The module cannot be loaded.
    #[error("cannot load the module: {0}")]
    Load(#[from] interp::LoadError),
    /// The kernel cannot be launched.
    #[error("cannot launch the kernel: {0}")]
    Launch(#[from] interp::LaunchError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The kernel cannot be emitted.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// A session failed.
    #[error(transparent)]
    Session(#[from] pelton::Error),
    /// A task was not accepted.
    #[error(transparent)]
    Submit(#[from] pelton::SubmitError),
    /// A task has no result.
    #[error(transparent)]
    Task(#[from] pelton::TaskError),
    /// A launch on a device, or reading its memory back, failed.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A journal cannot be used.
    #[error(transparent)]
    Journal(#[from] pelton::journal::JournalError),
    /// A journal cannot be continued or replayed.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// A replay has found another result.
    #[error(transparent)]
    Replay(#[from] ReplayDifference),
    /// Ctrl-C cannot be listened for.
    #[error("cannot listen for Ctrl-C: {0}")]
    Signal(#[from] ctrlc::Error),
    /// Ctrl-C was pressed before the command had finished.
    #[error("interrupted")]
    Interrupted,
    /// Two builds cannot be compared.
    #[error(transparent)]
    Builds(#[from] BuildError),
    /// A result is not what it must be, or a request cannot be met.
    #[error("{0}")]
    Wrong(String),
}

impl CliError {
    /// The exit status of a command that this error stops.
    pub(crate) fn status(&self) -> CliStatus {
        match self {
            // The reader of the output has seen enough of it.
            CliError::Pipe => CliStatus::Fine,
            CliError::Interrupted => CliStatus::Interrupted,
            CliError::Device(DeviceError::Fault { .. })
            | CliError::Session(pelton::Error::Device(DeviceError::Fault { .. })) => CliStatus::Failed,
            CliError::Session(pelton::Error::Ended(end))
                if end.reason() == pelton::EndReason::Lost(pelton::LossReason::Trap) =>
            {
                CliStatus::Failed
            }
            _ => CliStatus::Wrong,
        }
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        if error.kind() == io::ErrorKind::BrokenPipe { CliError::Pipe } else { CliError::Output(error) }
    }
}
