//! Stepping the automata of a catalog with tasks of the opcode `DFA_STEP`, one byte at a time.
//!
//! The automata are those of stage two, the windows of [`catalog`](crate::catalog): one for each branch of a rule that
//! has one. A task has three arguments, which are the number of an automaton, a state and a byte, and its result is the
//! next state. So a user can run an automaton over bytes that arrive one by one, or many automata side by side, and
//! stop, store and resume each of them as a single number.
//!
//! # Which version a step sees
//!
//! A catalog can be replaced while tasks run. The number of an automaton says which version of the catalog it belongs to,
//! so a step is never made in another version than the one whose number it has: once that version is overwritten, the
//! task is a fault. [`StepAutomata`] keeps its version from being overwritten, as a call of the engine does. Numbers are
//! used again after 4,096 versions.
//!
//! # What is refused
//!
//! A task with a number that no automaton of a present version has, with a state that the automaton does not have, or
//! with a byte above 255 ends with the fault [`FaultCode::ARGUMENTS`](pelton::protocol::FaultCode::ARGUMENTS). Nothing
//! outside the tables of the automaton is read.

use std::sync::Arc;

use pelton::protocol::FaultCode;
use pelton::{Handler, Opcode, Task};

use super::engine::SessionEngine;
use super::layout::{RegionSizes, StepHeaderWord, TABLES};
use super::versions::LoadedCatalog;
use crate::catalog::{Catalog, WINDOW_MAYBE, WINDOW_NO, WINDOW_START, WindowInfo};

/// How many bits of an automaton's number are the branch. Those above are the version.
const BRANCH_BITS: u32 = 20;
/// The bits of a version that numbers contain.
const VERSION_MASK: u32 = u32::MAX >> BRANCH_BITS;
/// The bit of a stamp that says that the tables are complete.
const COMPLETE: u32 = 1 << 31;

/// The stamp of tables that are being written, which belong to no version.
pub(super) const NO_VERSION: u32 = 0;

/// The stamp by which a step recognises the tables of a version.
pub(super) fn version_stamp(version: u32) -> u32 {
    version & VERSION_MASK | COMPLETE
}

/// Which half of the table region a version lies in: versions take turns.
pub(super) fn version_half(version: u32) -> u32 {
    version & 1
}

/// The automata of the catalog that was current when this was made, to be stepped with tasks of the opcode `DFA_STEP`.
///
/// Keep this value until the last of its tasks has ended. As long as it exists, the tables stay where they are: the
/// engine can still be given a new catalog, but a second one has to wait, so do not
/// [replace](SessionEngine::replace) twice on the thread that keeps this. Tasks that run after it was dropped see their
/// tables unchanged, or end with a fault after a later replacement; only those that run during that replacement may have
/// any state as their result.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use pelton::{Geometry, Spec, device};
/// use pelton_scan::session::{SessionConfig, SessionEngine};
/// use pelton_scan::{Catalog, Expression, factor::extract_factors};
///
/// let factors = extract_factors(&Expression::parse("key-[0-9]{2}")?);
/// let catalog = Arc::new(Catalog::build(&[factors])?);
/// let beside = (Spec::new(Geometry::new(256)), 1);
/// let config = SessionConfig::default();
/// let engine = SessionEngine::launch_beside(device::open("cpu")?, catalog, config, beside)?;
/// let automata = engine.step_automata();
/// let automaton = automata.of_rule(0).next().expect("the rule has an automaton");
/// let mut producer = engine.session().producer(0)?;
/// let mut state = automaton.start_state();
/// for byte in *b"key-42" {
///     assert!(!automaton.is_accepting(state));
///     state = producer.submit(automaton.step_task(state, byte))?.wait(Duration::from_secs(60))?;
/// }
/// assert!(automaton.is_accepting(state));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct StepAutomata {
    version: Arc<LoadedCatalog>,
}

/// An automaton of [`StepAutomata`], which reads from the beginning of a branch's part on.
///
/// It begins in the state [`start_state`](Self::start_state) and is stepped with one byte after the other. In a state that is
/// [dead](Self::is_dead), no match of the branch begins where the automaton began. In one that is
/// [accepting](Self::is_accepting), there may be a match. Both are final: every step from there leads there again. The
/// automaton is not the whole expression; see [`WindowInfo`] for what its answers mean and after how many bytes an
/// undecided one ends.
#[derive(Clone, Copy, Debug)]
pub struct StepAutomaton<'a> {
    catalog: &'a Catalog,
    branch: u32,
    number: u32,
    state_count: u32,
}

impl SessionEngine {
    /// Returns the automata of the current catalog, to be stepped with tasks of the opcode `DFA_STEP`. Only kernels that
    /// choose among handlers have that opcode: those of [`launch_beside`](Self::launch_beside), unless the `Spec` asks
    /// for a fused kernel. A kernel of [`launch`](Self::launch) runs nothing but scans.
    pub fn step_automata(&self) -> StepAutomata {
        StepAutomata { version: self.current_version() }
    }
}

impl StepAutomata {
    /// Returns the catalog that the automata belong to.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.version.catalog
    }

    /// Returns the automata of a rule, one for each of its branches that has one. Branches that are found by a run of one
    /// class, and those whose automaton would be too large, have none.
    pub fn of_rule(&self, rule: u32) -> impl Iterator<Item = StepAutomaton<'_>> {
        let branches = (0..).zip(self.version.catalog.branches());
        branches.filter(move |(_, info)| info.rule == rule).filter_map(|(branch, _)| self.of_branch(branch))
    }

    /// Returns the automaton of a branch, or `None` if there is no such branch, it has no automaton, or it is beyond the
    /// first 2^20 branches, which are all that tasks can name.
    pub fn of_branch(&self, branch: u32) -> Option<StepAutomaton<'_>> {
        let state_count = *self.version.state_counts.get(branch as usize)?;
        let number = (self.version.number & VERSION_MASK) << BRANCH_BITS | branch;
        let exists = state_count > 0 && branch < 1 << BRANCH_BITS;
        exists.then_some(StepAutomaton { catalog: &self.version.catalog, branch, number, state_count })
    }
}

impl StepAutomaton<'_> {
    /// Returns the number of the automaton, which is the argument `rule` of a task.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the branch that the automaton belongs to, as an index of [`Catalog::branches`].
    pub fn branch(&self) -> u32 {
        self.branch
    }

    /// Returns how the automaton reads: after how many bytes it ends, and with which answer.
    pub fn window_info(&self) -> &WindowInfo {
        &self.catalog.windows().windows[self.branch as usize]
    }

    /// Returns the number of states. States are numbered from 0 on.
    pub fn state_count(&self) -> u32 {
        self.state_count
    }

    /// Returns the state in which the automaton begins.
    pub fn start_state(&self) -> u32 {
        WINDOW_START.into()
    }

    /// Returns whether a state says that there is no match.
    pub fn is_dead(&self, state: u32) -> bool {
        state == u32::from(WINDOW_NO)
    }

    /// Returns whether a state says that there may be a match.
    pub fn is_accepting(&self, state: u32) -> bool {
        state == u32::from(WINDOW_MAYBE)
    }

    /// Makes a step on the host, with the tables that the device has too. Returns `None` if there is no such state.
    pub fn next_state(&self, state: u32, byte: u8) -> Option<u32> {
        if state >= self.state_count {
            return None;
        }
        let (tables, window) = (self.catalog.windows(), self.window_info());
        let class = tables.classes[window.class_map as usize * 256 + usize::from(byte)];
        let entry = window.base as usize + state as usize * window.class_count as usize + usize::from(class);
        Some(tables.next[entry].into())
    }

    /// Returns a task that makes a step on the device. Its result is the next state.
    pub fn step_task(&self, state: u32, byte: u8) -> Task {
        Task::new(Opcode::DFA_STEP).args([self.number, state, byte.into()])
    }
}

/// The name of the handler.
pub(super) const STEP: &str = "dfa_step";

/// Makes the handler, which one lane runs.
pub(super) fn step_handler(sizes: RegionSizes) -> Handler {
    Handler::lane_wide(|task| {
        let f = task.body();
        let tables = task.region::<u32>(TABLES);
        let word = |at| f.load(tables.at(at & (sizes.tables - 1)));
        let (number, state, byte) = (task.arg(0), task.arg(1), task.arg(2));
        let (version, branch) = (number >> BRANCH_BITS, number & ((1 << BRANCH_BITS) - 1));
        let header = (version & 1) * (sizes.tables / 2);
        let header_word = |at: StepHeaderWord| word(header + at as u32);
        let known = header_word(StepHeaderWord::Stamp).eq(version | COMPLETE)
            & branch.lt(header_word(StepHeaderWord::Branches));
        f.when(known & byte.lt(256), || {
            let states = word(header_word(StepHeaderWord::StateCounts) + branch);
            f.when(state.lt(states), || {
                let info = header_word(StepHeaderWord::Windows) + branch * 4;
                let [next, classes, map] = [0, 1, 2].map(|at| word(info + at));
                let class = f.load_byte(tables.at((map + (byte >> 2)) & (sizes.tables - 1)), byte & 3);
                let entry = next + state * classes + class;
                task.finish((word(entry >> 1) >> ((entry & 1) << 4)) & 0xffff);
            });
        });
        task.fault(FaultCode::ARGUMENTS.code());
    })
}
