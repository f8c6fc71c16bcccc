//! Why a test failed.

use std::io;
use std::sync::Arc;

use pelton_ir::emit::EmitError;

use crate::bind::BindError;
use crate::file::FileError;
use crate::init::InitError;
use crate::line::Ending;
use crate::target::TargetError;

/// Why a test failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The file is no filetest.
    #[error(transparent)]
    File(Arc<FileError>),
    /// It does not parse; the diagrams say why.
    #[error("the text does not parse\n{0}")]
    Parse(String),
    /// It is not valid; the diagrams say why.
    #[error("the module is not valid\n{0}")]
    Invalid(String),
    /// It is valid and should not be.
    #[error("the module is valid, and a `test invalid` file must not be")]
    Valid,
    /// A kernel cannot be emitted.
    #[error(transparent)]
    Emit(EmitError),
    /// A megakernel cannot be assembled.
    #[error("the kernel cannot be assembled: {0}")]
    Assemble(String),
    /// What was printed is not what the file says.
    #[error("the output is another (- expected, + found); BLESS=1 accepts it\n{0}")]
    Output(String),
    /// The accepted output cannot be written.
    #[error("cannot rewrite the file: {0}")]
    Bless(#[source] io::Error),
    /// A law of the text form does not hold.
    #[error("{law} does not hold (- left, + right)\n{diff}")]
    Law {
        /// Which.
        law: &'static str,
        /// The two sides.
        diff: String,
    },
    /// A command does not know an argument.
    #[error("`{command}` takes no argument `{arg}`; {hint}")]
    Argument {
        /// Which command.
        command: &'static str,
        /// The argument.
        arg: String,
        /// What it takes.
        hint: String,
    },
    /// A file lacks the lines that its command works on.
    #[error("`test {command}` needs at least one `; {line}` line")]
    Lines {
        /// Which command.
        command: &'static str,
        /// Which lines.
        line: &'static str,
    },
    /// A litmus file has no twin.
    #[error("its twin {0} is missing")]
    Twin(String),
    /// A twin that does not show what the file forbids.
    #[error("its twin {twin} must have a line `; seen: {outcome}`, for that is forbidden here")]
    Unshown {
        /// The twin.
        twin: String,
        /// What is forbidden.
        outcome: String,
    },
    /// Something went wrong with a line.
    #[error("line {line}: {why}")]
    Line {
        /// Which.
        line: usize,
        /// What.
        why: Mishap,
    },
}

/// What went wrong with a `run` or `litmus` line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Mishap {
    /// Its buffers cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The device refused.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// What it expects does not fit the buffer.
    #[error("buffer `{name}`: {source}")]
    Expect {
        /// Which buffer.
        name: String,
        /// Why.
        source: InitError,
    },
    /// A launch ended otherwise.
    #[error("{way}: it must end as {expected}, and ended as {found}")]
    Ending {
        /// How it was launched.
        way: String,
        /// What the line says.
        expected: Ending,
        /// What happened.
        found: Ending,
    },
    /// A buffer holds something else.
    #[error("{way}: buffer `{name}` differs from element {at} on\n- {expected}\n+ {found}")]
    Buffer {
        /// How it was launched.
        way: String,
        /// Which buffer.
        name: String,
        /// The first element that differs.
        at: usize,
        /// What the line says.
        expected: String,
        /// What it holds.
        found: String,
    },
    /// A round gave what is forbidden.
    #[error("{way}: forbidden outcome {outcome}")]
    Forbidden {
        /// How it was launched.
        way: String,
        /// What it gave.
        outcome: String,
    },
    /// No round gave what must be seen.
    #[error("{outcome} was never seen in {rounds} rounds; these were:\n{others}")]
    Unseen {
        /// What was to be seen.
        outcome: String,
        /// How many rounds there were.
        rounds: u64,
        /// What was seen instead, and how often.
        others: String,
    },
}
