//! Counts what a suite covers of the language.

use std::fmt;

use pelton_ir::op::{Op, TABLE};
use pelton_ir::valid::{Reach, Rule};

use crate::command::Coverage;

/// The largest number of missing items that are listed. A suite that lacks more is not meant to be complete.
const LISTED: usize = 24;

/// The size of a suite, and how much of the language it covers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// The number of files.
    pub files: usize,
    /// The number of tests, including those of absent devices.
    pub tests: usize,
    /// What the tests cover.
    pub coverage: Coverage,
}

impl Totals {
    /// The validator's rules that a text can break, but that no `invalid` file breaks.
    pub fn missing_rules(&self) -> Vec<Rule> {
        breakable().filter(|rule| !self.coverage.rules.contains(rule)).collect()
    }

    /// The ops that some device runs, but that no `run` file has.
    pub fn missing_ops(&self) -> Vec<Op> {
        runnable().filter(|op| !self.coverage.ops.contains(op)).collect()
    }
}

/// The validator's rules that a text can break. The other rules concern programs that build modules, and their
/// tests are such programs.
pub fn breakable() -> impl Iterator<Item = Rule> {
    Rule::ALL.iter().copied().filter(|rule| rule.reach() == Reach::Text)
}

/// The ops that some device runs: all but the asynchronous copies, which are refused by name.
pub fn runnable() -> impl Iterator<Item = Op> {
    TABLE.iter().map(|row| row.op).filter(|op| !matches!(op, Op::AsyncLoad | Op::AsyncWait))
}

/// Writes one line, and then what is missing if it is little.
impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rules, ops) = (self.missing_rules(), self.missing_ops());
        let (all_rules, all_ops) = (breakable().count(), runnable().count());
        write!(
            f,
            "{} files, {} tests; {} of {all_rules} rules that a text can break and {} of {all_ops} ops covered",
            self.files,
            self.tests,
            all_rules - rules.len(),
            all_ops - ops.len(),
        )?;
        let lists = [
            ("rules", rules.iter().map(|rule| rule.code()).collect::<Vec<_>>()),
            ("ops", ops.iter().map(|op| op.row().name).collect()),
        ];
        for (kind, list) in lists.iter().filter(|(_, list)| (1..=LISTED).contains(&list.len())) {
            write!(f, "\nno test for these {kind}: {}", list.join(", "))?;
        }
        Ok(())
    }
}
