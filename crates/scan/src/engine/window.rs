//! Running the windows of stage two over text.

use crate::candidate::Candidate;
use crate::catalog::{Catalog, FactorOutput, WINDOW_MAYBE, WINDOW_NO, WINDOW_START};
use crate::factor::LITERAL_MAX;

/// Appends the candidate of an output if the literal agrees in case and the window answers *maybe*. `end` is the
/// position of the literal's last byte.
#[inline]
pub(super) fn push_candidate(
    catalog: &Catalog,
    text: &[u8],
    end: usize,
    output: &FactorOutput,
    out: &mut Vec<Candidate>,
) {
    let Some(first) = (end + 1).checked_sub(output.back as usize) else { return };
    if agrees(output, text, end) && window_allows(catalog, output.branch, &text[first..]) {
        let first = first as u32;
        out.push(Candidate { first, last: first, branch: output.branch });
    }
}

/// Returns whether the bytes that end at `end` are those of the literal, with its case.
#[inline]
fn agrees(output: &FactorOutput, text: &[u8], end: usize) -> bool {
    let mut bytes = [0; LITERAL_MAX];
    match (end + 1).checked_sub(LITERAL_MAX) {
        Some(start) => bytes.copy_from_slice(&text[start..=end]),
        // Before the text there is nothing, and the literal does not begin there, so these bytes are not compared.
        None => bytes[LITERAL_MAX - 1 - end..].copy_from_slice(&text[..=end]),
    }
    u128::from_ne_bytes(bytes) & u128::from_ne_bytes(output.mask) == u128::from_ne_bytes(output.value)
}

/// Returns whether the window of a branch answers *maybe* for a text that begins where the part does.
#[inline]
fn window_allows(catalog: &Catalog, branch: u32, text: &[u8]) -> bool {
    let tables = catalog.windows();
    let window = &tables.windows[branch as usize];
    if window.class_count == 0 {
        return true;
    }
    let classes = &tables.classes[window.class_map as usize * 256..][..256];
    let next = &tables.next[window.base as usize..];
    let mut state = WINDOW_START;
    for &byte in text.iter().take(window.limit as usize) {
        let class = usize::from(classes[usize::from(byte)]);
        state = next[usize::from(state) * window.class_count as usize + class];
        match state {
            WINDOW_NO => return false,
            WINDOW_MAYBE => return true,
            _ => {}
        }
    }
    text.len() < window.limit as usize || window.at_limit
}
