//! Checking a catalog: every index and every state must be valid, because engines rely on it.

use super::tables::{FactorTable, WINDOW_MAYBE, WINDOW_NO, WINDOW_START, WindowInfo, WindowTables};
use super::{Catalog, ClassRun};
use crate::factor::LITERAL_MAX;

/// Returns whether a catalog is valid.
pub(super) fn is_valid(catalog: &Catalog) -> bool {
    let branches = catalog.branches.len();
    catalog.factors.iter().all(|table| is_factor_table(table, branches))
        && catalog.windows.windows.len() == branches
        && catalog.windows.classes.len().is_multiple_of(256)
        && are_windows(&catalog.windows)
        && catalog.class_runs.iter().all(|run: &ClassRun| (run.branch as usize) < branches && run.length > 0)
}

/// Returns whether an automaton of stage one is valid.
fn is_factor_table(table: &FactorTable, branches: usize) -> bool {
    let (states, width) = (table.state_count as usize, table.class_count as usize);
    let Some(accepting) = states.checked_sub(table.first_accepting as usize) else { return false };
    let rows = &table.output_rows;
    table.first_accepting > 0
        && states <= 1 << 16
        && table.classes.len() == 256
        && table.classes.iter().all(|&class| usize::from(class) < width)
        && Some(table.next.len()) == states.checked_mul(width)
        && table.next.iter().all(|&next| usize::from(next) < states)
        && rows.len() == accepting + 1
        && rows.first() == Some(&0)
        && rows.is_sorted()
        && rows.last().is_some_and(|&last| last as usize == table.outputs.len())
        && table.outputs.iter().all(|output| {
            let length = LITERAL_MAX - output.mask.iter().take_while(|&&mask| mask == 0).count();
            let fits = output.value.iter().zip(&output.mask).all(|(value, mask)| value & mask == *value);
            (output.branch as usize) < branches && fits && length > 0 && output.back as usize >= length
        })
}

/// Returns whether the automata of stage two are valid.
///
/// The tables lie one after the other without gaps, so each ends where the next begins.
fn are_windows(tables: &WindowTables) -> bool {
    let mut windows: Vec<&WindowInfo> =
        tables.windows.iter().filter(|window| window.class_count != 0).collect();
    windows.sort_unstable_by_key(|window| window.base);
    let groups: Vec<&[&WindowInfo]> = windows.chunk_by(|a, b| a.base == b.base).collect();
    let ends = groups.iter().skip(1).map(|group| group[0].base as usize).chain([tables.next.len()]);
    groups.iter().zip(ends).all(|(group, end)| {
        let Some(next) = tables.next.get(group[0].base as usize..end) else { return false };
        let largest = next.iter().copied().max().unwrap_or(0).max(WINDOW_START);
        group.iter().all(|window| {
            let width = window.class_count as usize;
            let whole = next.len().is_multiple_of(width) && usize::from(largest) < next.len() / width;
            whole && has_final_rows(next, width) && has_class_map(tables, window)
        })
    })
}

/// Returns whether a window never leaves the states in which it has answered.
fn has_final_rows(next: &[u16], width: usize) -> bool {
    let stays = |state: u16| next.iter().skip(usize::from(state) * width).take(width).all(|&to| to == state);
    stays(WINDOW_NO) && stays(WINDOW_MAYBE)
}

/// Returns whether a window's map of bytes to classes exists and has no class that the window does not have.
fn has_class_map(tables: &WindowTables, window: &WindowInfo) -> bool {
    let start = (window.class_map as usize).checked_mul(256);
    let classes = start.and_then(|start| tables.classes.get(start..start.checked_add(256)?));
    classes.is_some_and(|classes| classes.iter().all(|&class| u32::from(class) < window.class_count))
}
