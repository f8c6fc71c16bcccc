//! The test commands: their trait and their list.

use std::collections::BTreeSet;

use pelton_ir::op::Op;
use pelton_ir::valid::Rule;

use crate::failure::Failure;
use crate::file::TestFile;
use crate::target::TestTarget;

/// A way to test a file, which a line `; test NAME` asks for.
pub trait TestCommand: Sync {
    /// The command's name on a `test` line.
    fn name(&self) -> &'static str;

    /// Whether the command prints text that must equal the file's expected output.
    fn prints(&self) -> bool {
        false
    }

    /// Whether there is one test per device, rather than one in all.
    fn runs_per_device(&self) -> bool {
        false
    }

    /// Tests the file. The caller compares what the command prints, and may accept it as the new expected output.
    fn run_on(&self, context: &CommandContext<'_>) -> Result<Printed, Failure>;

    /// The parts of the language that the file exercises with this command.
    fn coverage(&self, _file: &TestFile) -> Coverage {
        Coverage::default()
    }
}

/// The text that a command prints, if it prints any.
pub type Printed = Option<String>;

/// The input of a command.
pub struct CommandContext<'a> {
    /// The file.
    pub file: &'a TestFile,
    /// The arguments of the `test` line.
    pub args: &'a [String],
    /// The device, for commands with one test per device.
    pub target: &'a dyn TestTarget,
}

/// The parts of the language that tests exercise.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Coverage {
    /// The validator's rules that files break.
    pub rules: BTreeSet<Rule>,
    /// The ops that files run.
    pub ops: BTreeSet<Op>,
}

/// Every command. Each is a module of its own.
pub const COMMANDS: &[&dyn TestCommand] = &[
    &crate::print::PrintCommand,
    &crate::invalid::InvalidCommand,
    &crate::opt::OptCommand,
    &crate::run::RunCommand,
    &crate::litmus::LitmusCommand,
    &crate::kernel::KernelCommand,
    &crate::verb::VerbCommand,
    &crate::emit::EmitCommand,
];

/// Finds a command by its name.
pub fn command_named(name: &str) -> Option<&'static dyn TestCommand> {
    COMMANDS.iter().copied().find(|command| command.name() == name)
}
