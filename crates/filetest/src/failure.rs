//! The reasons why a test fails.

use std::io;
use std::sync::Arc;

use pelton_ir::emit::EmitError;
use pelton_ir::link::LinkError;

use crate::bind::BindError;
use crate::file::FileError;
use crate::init::InitError;
use crate::line::Ending;
use crate::target::TargetError;

/// The reasons why a test fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The file is not a filetest.
    #[error(transparent)]
    File(Arc<FileError>),
    /// The text does not parse; the diagrams show why.
    #[error("the text does not parse\n{0}")]
    Parse(String),
    /// The module is not valid; the diagrams show why.
    #[error("the module is not valid\n{0}")]
    Invalid(String),
    /// The module's imports cannot be bound.
    #[error(transparent)]
    Link(LinkError),
    /// The module is valid, but the test demands that it is not.
    #[error("the module is valid, but the module of a `test invalid` file must not be")]
    Valid,
    /// A kernel cannot be emitted.
    #[error(transparent)]
    Emit(EmitError),
    /// A megakernel cannot be assembled.
    #[error("the kernel cannot be assembled: {0}")]
    Assemble(String),
    /// The printed text differs from the expected output.
    #[error("the output differs (- expected, + found); run again with BLESS=1 to accept it\n{0}")]
    Output(String),
    /// The accepted output cannot be written.
    #[error("cannot rewrite the file: {0}")]
    Bless(#[source] io::Error),
    /// Two texts or modules that must be equal are not.
    #[error("{law} does not hold (- left, + right)\n{diff}")]
    Law {
        /// The law that does not hold.
        law: &'static str,
        /// The difference of the two sides.
        diff: String,
    },
    /// A command does not accept an argument.
    #[error("`test {command}` does not accept the argument `{arg}`; {hint}")]
    Argument {
        /// The name of the command.
        command: &'static str,
        /// The argument.
        arg: String,
        /// The arguments that the command accepts.
        hint: String,
    },
    /// A file has none of the lines that its command works on.
    #[error("`test {command}` needs at least one `; {line}` line")]
    Lines {
        /// The name of the command.
        command: &'static str,
        /// How such a line begins.
        line: &'static str,
    },
    /// A litmus file has no weakened twin, or a twin has no original.
    #[error("the twin {0} is missing; every litmus file needs one beside it")]
    Twin(String),
    /// The twin does not show an outcome that the file forbids.
    #[error("the twin {twin} must have a line `; seen: {outcome}`, because this file forbids that outcome")]
    Unshown {
        /// The twin.
        twin: String,
        /// The forbidden outcome.
        outcome: String,
    },
    /// A `run` or `litmus` line failed.
    #[error("line {line}: {why}")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// What went wrong.
        why: LineFailure,
    },
}

/// The reason why a `run` or `litmus` line failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineFailure {
    /// The line's buffers cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The device did not launch.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The expected contents do not fit the buffer.
    #[error("buffer `{name}`: {source}")]
    Expect {
        /// The name of the buffer.
        name: String,
        /// The cause.
        source: InitError,
    },
    /// A launch ended in another way than the line says.
    #[error("{way}: the launch must end as {expected}, but ended as {found}")]
    Ending {
        /// How the launch was made.
        way: String,
        /// What the line expects.
        expected: Ending,
        /// How the launch ended.
        found: Ending,
    },
    /// A buffer holds other elements than the line says.
    #[error("{way}: buffer `{name}` differs from index {at} on\n- {expected}\n+ {found}")]
    Buffer {
        /// How the launch was made.
        way: String,
        /// The name of the buffer.
        name: String,
        /// The index of the first element that differs.
        at: usize,
        /// What the line expects.
        expected: String,
        /// What the buffer holds.
        found: String,
    },
    /// A round had a forbidden outcome.
    #[error("{way}: forbidden outcome {outcome}")]
    Forbidden {
        /// How the launch was made.
        way: String,
        /// The outcome of the round.
        outcome: String,
    },
    /// No round had an outcome that must be seen.
    #[error("{outcome} was never seen in {rounds} rounds; these outcomes were seen:\n{others}")]
    Unseen {
        /// The outcome that must be seen.
        outcome: String,
        /// The number of rounds.
        rounds: u64,
        /// The outcomes that were seen, and how often.
        others: String,
    },
}
