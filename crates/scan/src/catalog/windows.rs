//! The automata of stage two, made from the suffixes of all branches.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use regex_syntax::hir::Hir;
use rustc_hash::FxHashMap;

use super::determinize::{Budget, Determinized, WindowAutomaton, WindowEnd, determinize};
use super::minimize::minimize;
use super::relax::{largest_bound, relax};
use super::tables::{WindowInfo, WindowTables};
use crate::factor::{Factor, FactorBranch};

/// The largest number of bytes that a window reads.
const WINDOW_MAX: u32 = 512;

/// The largest number of states of a window.
const STATE_MAX: usize = 512;

/// The largest number of entries of all windows together, so that they are numbered by 32 bits.
const ENTRY_MAX: usize = u32::MAX as usize;

/// What one construction may cost before states are merged.
const BUDGET: Budget = Budget { states: 4096, steps: 8_000_000 };

/// The bounds of repeats above which they are dropped, one after the other, until a window is small enough.
const BOUNDS: [u32; 9] = [u32::MAX, 64, 32, 16, 8, 4, 2, 1, 0];

/// A window that many branches can share.
#[derive(Clone, Copy, Debug)]
struct WindowSource<'b> {
    suffix: &'b Hir,
    end: WindowEnd,
}

/// Builds the windows of all branches, on all processors.
pub(super) fn build_windows(branches: &[&FactorBranch]) -> WindowTables {
    let mut sources: Vec<WindowSource<'_>> = Vec::new();
    let mut known: FxHashMap<(String, WindowEnd), usize> = FxHashMap::default();
    let places: Vec<Option<usize>> = branches
        .iter()
        .map(|branch| {
            let Factor::Literals(_) = branch.factor else { return None };
            let end = window_end(branch.suffix_max);
            Some(*known.entry((format!("{:?}", branch.suffix), end)).or_insert_with(|| {
                sources.push(WindowSource { suffix: &branch.suffix, end });
                sources.len() - 1
            }))
        })
        .collect();
    let built = build_all(&sources);
    let mut packer = WindowPacker::default();
    for place in places {
        let window = place.and_then(|place| Some((built[place].as_ref()?, sources[place].end)));
        packer.push(window);
    }
    packer.tables
}

/// Returns how the window of a suffix of at most `suffix_max` bytes ends.
fn window_end(suffix_max: Option<u32>) -> WindowEnd {
    match suffix_max {
        // A match is seen with its last byte, so none is left after this many.
        Some(limit) if limit <= WINDOW_MAX => WindowEnd { limit, at_limit: false },
        _ => WindowEnd { limit: WINDOW_MAX, at_limit: true },
    }
}

/// Builds windows on all processors. `None` stands for one that always answers *maybe*.
fn build_all(sources: &[WindowSource<'_>]) -> Vec<Option<WindowAutomaton>> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(sources.len());
    let built = Mutex::new(vec![None; sources.len()]);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    // Relaxed: the number alone decides who builds what; results are published by the lock.
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(source) = sources.get(at) else { break };
                    let window = build_window(source.suffix, source.end);
                    built.lock().unwrap_or_else(PoisonError::into_inner)[at] = window;
                }
            });
        }
    });
    built.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Builds a window, with relaxed bounds if it would be too large otherwise.
fn build_window(suffix: &Hir, end: WindowEnd) -> Option<WindowAutomaton> {
    let largest = largest_bound(suffix);
    let useful = BOUNDS.into_iter().filter(|&bound| bound == u32::MAX || bound < largest);
    for bound in useful {
        match determinize(&relax(suffix, bound), end, BUDGET) {
            Determinized::MatchesEmpty => return None,
            Determinized::OverBudget => {}
            Determinized::Automaton(automaton) => {
                let window = minimize(&automaton);
                if window.state_count() <= STATE_MAX {
                    return Some(window);
                }
            }
        }
    }
    None
}

/// Puts windows into tables, equal ones only once.
#[derive(Default)]
struct WindowPacker {
    tables: WindowTables,
    bases: FxHashMap<Vec<u16>, u32>,
    class_maps: FxHashMap<[u8; 256], u32>,
}

impl WindowPacker {
    /// Adds the window of the next branch; `None` is one that always answers *maybe*.
    fn push(&mut self, window: Option<(&WindowAutomaton, WindowEnd)>) {
        let fits = |automaton: &WindowAutomaton| self.tables.next.len() + automaton.next.len() <= ENTRY_MAX;
        let Some((automaton, end)) = window.filter(|(automaton, _)| fits(automaton)) else {
            let always = WindowInfo { base: 0, class_count: 0, class_map: 0, limit: 0, at_limit: true };
            return self.tables.windows.push(always);
        };
        let base = *self.bases.entry(automaton.next.clone()).or_insert_with(|| {
            let base = self.tables.next.len() as u32;
            self.tables.next.extend(&automaton.next);
            base
        });
        let class_map = *self.class_maps.entry(*automaton.classes).or_insert_with(|| {
            let class_map = self.tables.classes.len() as u32 / 256;
            self.tables.classes.extend(*automaton.classes);
            class_map
        });
        let class_count = automaton.class_count as u32;
        let WindowEnd { limit, at_limit } = end;
        self.tables.windows.push(WindowInfo { base, class_count, class_map, limit, at_limit });
    }
}
