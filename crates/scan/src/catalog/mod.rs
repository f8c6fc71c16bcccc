//! The catalog: the tables that find candidates, made from the factors of all rules.

mod tables;

pub use tables::{
    ClassRun, FactorOutput, FactorTable, WINDOW_NO, WINDOW_START, WINDOW_YES, WindowInfo, WindowTables,
};

use crate::error::ScanError;
use crate::factor::RuleFactors;

/// What the exact stage must know about a branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BranchInfo {
    /// The rule, as an index of the list that the catalog was built from.
    pub rule: u32,
    /// The largest number of bytes of a match before the part begins; `None` if there is no limit.
    pub prefix_max: Option<u32>,
    /// The largest number of bytes of a match from the beginning of the part on; `None` if there is no limit.
    pub suffix_max: Option<u32>,
}

/// The tables that find candidates.
#[derive(Clone, PartialEq, Debug)]
pub struct Catalog {
    branches: Vec<BranchInfo>,
    factors: Vec<FactorTable>,
    windows: WindowTables,
    class_runs: Vec<ClassRun>,
}

impl Catalog {
    /// Builds the tables. `rules` has one entry per rule.
    pub fn build(rules: &[RuleFactors]) -> Result<Catalog, ScanError> {
        let _ = rules;
        todo!()
    }

    /// The branches of all rules, to which candidates refer.
    pub fn branches(&self) -> &[BranchInfo] {
        &self.branches
    }

    /// The automata of stage one. Each reads every byte; there is more than one only for very many rules.
    pub fn factors(&self) -> &[FactorTable] {
        &self.factors
    }

    /// The automata of stage two, one per branch.
    pub fn windows(&self) -> &WindowTables {
        &self.windows
    }

    /// The runs of a class that are searched beside the literals.
    pub fn class_runs(&self) -> &[ClassRun] {
        &self.class_runs
    }

    /// The number of bytes that must stand before a piece of an input, so that no candidate of the piece is missed.
    pub fn lead(&self) -> usize {
        todo!()
    }

    /// The number of bytes that must follow a piece of an input, so that windows give the answer that they would give
    /// in the whole input.
    pub fn tail(&self) -> usize {
        todo!()
    }
}
