//! What a test command is, and the list of them.

use std::collections::BTreeSet;

use pelton_ir::op::Op;
use pelton_ir::valid::Rule;

use crate::failure::Failure;
use crate::file::File;
use crate::target::Target;

/// A way to test a file: what `; test NAME` asks for.
pub trait Command: Sync {
    /// How a `test` line calls it.
    fn name(&self) -> &'static str;

    /// Whether it prints something that the file's output must equal.
    fn prints(&self) -> bool {
        false
    }

    /// Whether there is a test for each device, rather than one.
    fn devices(&self) -> bool {
        false
    }

    /// Tests the file. What it prints is compared by the caller, who may also accept it as the new output.
    fn run(&self, context: &Context<'_>) -> Result<Printed, Failure>;

    /// What of the language the file exercises by this command.
    fn coverage(&self, _file: &File) -> Coverage {
        Coverage::default()
    }
}

/// What a command prints, if it does.
pub type Printed = Option<String>;

/// What a command is given.
pub struct Context<'a> {
    /// The file.
    pub file: &'a File,
    /// The arguments of the `test` line.
    pub args: &'a [String],
    /// The device, for commands that have a test for each.
    pub target: &'a dyn Target,
}

/// The parts of the language that tests exercise.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Coverage {
    /// Rules of the validator that were broken.
    pub rules: BTreeSet<Rule>,
    /// Ops that were run.
    pub ops: BTreeSet<Op>,
}

/// Every command: a file of its own each.
pub const ALL: &[&dyn Command] = &[
    &crate::print::Print,
    &crate::invalid::Invalid,
    &crate::opt::Opt,
    &crate::run::Run,
    &crate::litmus::Litmus,
    &crate::kernel::Kernel,
    &crate::emit::Emit,
];

/// The command that a `test` line calls so.
pub fn named(name: &str) -> Option<&'static dyn Command> {
    ALL.iter().copied().find(|command| command.name() == name)
}
