//! The catalog: the tables by which engines find candidates, made from the factors of all rules.

mod bytes;
mod cache;
mod check;
mod determinize;
mod dominate;
mod error;
mod literals;
mod minimize;
mod relax;
mod stored;
mod tables;
mod windows;

pub use cache::{CatalogCache, StoredCatalog};
pub use error::CatalogError;
pub use tables::{
    ClassRun, FactorOutput, FactorTable, WINDOW_MAYBE, WINDOW_NO, WINDOW_START, WindowInfo, WindowTables,
};

use crate::error::ScanError;
use crate::factor::{Factor, FactorBranch, LITERAL_MAX, RuleFactors};

/// A branch of a rule, as the exact stage has to know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BranchInfo {
    /// The rule, as an index of the list that the catalog was built from.
    pub rule: u32,
    /// The largest number of bytes of a match before the part begins; `None` if there is no limit.
    pub prefix_max: Option<u32>,
    /// The largest number of bytes of a match from the beginning of the part on; `None` if there is no limit.
    pub suffix_max: Option<u32>,
}

/// The tables by which engines find candidates.
///
/// Every index and every state in the tables is valid: [`build`](Self::build) makes only such tables, and
/// [`from_bytes`](Self::from_bytes) checks what it reads. Engines rely on this.
#[derive(Clone, PartialEq, Debug)]
pub struct Catalog {
    branches: Vec<BranchInfo>,
    factors: Vec<FactorTable>,
    windows: WindowTables,
    class_runs: Vec<ClassRun>,
}

impl Catalog {
    /// Builds the tables, on all cores. `rules` has one entry per rule.
    pub fn build(rules: &[RuleFactors]) -> Result<Catalog, ScanError> {
        let sources: Vec<(u32, &FactorBranch)> = (0u32..)
            .zip(rules)
            .flat_map(|(rule, factors)| {
                let branches: &[FactorBranch] = match factors {
                    RuleFactors::Branches(branches) => branches,
                    RuleFactors::Always => &[],
                };
                branches.iter().map(move |branch| (rule, branch))
            })
            .collect();
        let branches = sources
            .iter()
            .map(|&(rule, source)| BranchInfo {
                rule,
                prefix_max: source.prefix_max,
                suffix_max: source.suffix_max,
            })
            .collect();
        let mut class_runs = Vec::new();
        let mut literals = Vec::new();
        for (branch, (_, source)) in (0u32..).zip(&sources) {
            match &source.factor {
                Factor::Literals(list) => {
                    for literal in list {
                        literals.push(literals::FoldedLiteral::new(branch, literal)?);
                    }
                }
                Factor::ClassRun { length: 0, .. } => return Err(CatalogError::EmptyRun { branch }.into()),
                &Factor::ClassRun { class, length } => class_runs.push(ClassRun { branch, class, length }),
            }
        }
        let factors = literals::build_tables(literals)?;
        let sources: Vec<&FactorBranch> = sources.into_iter().map(|(_, source)| source).collect();
        let catalog = Catalog { branches, factors, windows: windows::build_windows(&sources), class_runs };
        debug_assert!(check::is_valid(&catalog), "a catalog that was built is valid");
        Ok(catalog)
    }

    /// Returns the branches of all rules, to which candidates refer by their index.
    pub fn branches(&self) -> &[BranchInfo] {
        &self.branches
    }

    /// Returns the automata of stage one. Each reads every byte. There is more than one only for very many rules.
    pub fn factors(&self) -> &[FactorTable] {
        &self.factors
    }

    /// Returns the automata of stage two, one per branch.
    pub fn windows(&self) -> &WindowTables {
        &self.windows
    }

    /// Returns the runs of a class that are searched for in addition to the literals.
    pub fn class_runs(&self) -> &[ClassRun] {
        &self.class_runs
    }

    /// Returns the number of bytes before a piece of an input that an engine must see, so that no candidate of the piece
    /// is missed.
    pub fn lead(&self) -> usize {
        let backs = self.factors.iter().flat_map(|table| &table.outputs).map(|output| output.back);
        let runs = self.class_runs.iter().map(|run| run.length);
        backs.chain(runs).max().unwrap_or(0).max(LITERAL_MAX as u32) as usize
    }

    /// Returns the number of bytes after a piece of an input that an engine must see, so that windows give the answer
    /// that they would give in the whole input.
    pub fn tail(&self) -> usize {
        self.windows.windows.iter().map(|window| window.limit).max().unwrap_or(0) as usize
    }
}
