//! The automata of stage one, made from the literals of all branches.

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::noncontiguous::NFA;
use aho_corasick::{Anchored, MatchKind};
use rustc_hash::FxHashMap;

use super::error::CatalogError;
use super::tables::{FactorOutput, FactorTable};
use crate::factor::{FactorLiteral, LITERAL_MAX, Symbol};

/// The largest number of states of one table; states are 16-bit numbers.
const STATE_MAX: usize = 1 << 16;

/// A literal in lower case, and what its occurrence means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FoldedLiteral {
    folded: Vec<u8>,
    output: FactorOutput,
}

impl FoldedLiteral {
    /// Takes a literal of a branch.
    pub(super) fn new(branch: u32, literal: &FactorLiteral) -> Result<FoldedLiteral, CatalogError> {
        let (length, back) = (literal.symbols.len(), literal.back);
        if length == 0 || length > LITERAL_MAX || (back as usize) < length {
            return Err(CatalogError::LiteralLength { branch, length, back });
        }
        let mut output = FactorOutput { branch, back, value: [0; LITERAL_MAX], mask: [0; LITERAL_MAX] };
        let mut folded = Vec::with_capacity(length);
        for (at, &Symbol { value, mask }) in (LITERAL_MAX - length..).zip(&literal.symbols) {
            if !(mask == 0xff || mask == 0xdf && value.is_ascii_uppercase()) {
                return Err(CatalogError::Symbol { branch, value, mask });
            }
            output.value[at] = value;
            output.mask[at] = mask;
            folded.push(value.to_ascii_lowercase());
        }
        Ok(FoldedLiteral { folded, output })
    }
}

/// Builds as few tables as the limit of states allows.
pub(super) fn build_tables(literals: Vec<FoldedLiteral>) -> Result<Vec<FactorTable>, CatalogError> {
    build_tables_within(literals, STATE_MAX)
}

/// Builds tables with at most `state_max` states each.
fn build_tables_within(
    mut literals: Vec<FoldedLiteral>,
    state_max: usize,
) -> Result<Vec<FactorTable>, CatalogError> {
    let order = |literal: &FoldedLiteral| {
        let FactorOutput { branch, back, value, mask } = literal.output;
        (branch, back, value, mask)
    };
    literals.sort_by(|a, b| (&a.folded, order(a)).cmp(&(&b.folded, order(b))));
    literals.dedup();
    let mut tables = Vec::new();
    let (mut first, mut states) = (0, 1);
    for at in 0..literals.len() {
        // In sorted order a literal shares its longest prefix with the one before it.
        let shared = match at > first {
            true => shared_prefix(&literals[at - 1].folded, &literals[at].folded),
            false => 0,
        };
        let added = literals[at].folded.len() - shared;
        if states + added > state_max {
            tables.push(build_table(&literals[first..at])?);
            (first, states) = (at, 1 + literals[at].folded.len());
        } else {
            states += added;
        }
    }
    if first < literals.len() {
        tables.push(build_table(&literals[first..])?);
    }
    Ok(tables)
}

/// Returns the length of the longest common prefix.
fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Builds one table. The literals are sorted.
fn build_table(literals: &[FoldedLiteral]) -> Result<FactorTable, CatalogError> {
    // Several literals may have the same folded bytes; the automaton knows them as one pattern.
    let patterns: Vec<&[FoldedLiteral]> = literals.chunk_by(|a, b| a.folded == b.folded).collect();
    let nfa = NFA::builder()
        .match_kind(MatchKind::Standard)
        .prefilter(false)
        .build(patterns.iter().map(|pattern| &pattern[0].folded))
        .map_err(|error| CatalogError::Automaton { literals: literals.len(), reason: error.to_string() })?;
    let (classes, representatives) = fold_classes(literals);
    let (states, next) = enumerate(&nfa, &representatives);

    // Accepting states come last; otherwise the order stays, in which states near the initial one come first.
    let accepting: Vec<bool> = states.iter().map(|&state| nfa.is_match(state)).collect();
    let mut order: Vec<usize> = (0..states.len()).collect();
    order.sort_by_key(|&state| accepting[state]);
    let mut number = vec![0u16; states.len()];
    for (new, &old) in order.iter().enumerate() {
        number[old] = new as u16;
    }
    let first_accepting = accepting.iter().filter(|&&accepting| !accepting).count();

    let mut table = FactorTable {
        classes,
        class_count: representatives.len() as u32,
        state_count: states.len() as u32,
        first_accepting: first_accepting as u32,
        next: Vec::with_capacity(next.len()),
        output_rows: vec![0],
        outputs: Vec::new(),
    };
    for &old in &order {
        let row = &next[old * representatives.len()..][..representatives.len()];
        table.next.extend(row.iter().map(|&target| number[target]));
    }
    for &old in &order[first_accepting..] {
        let row = table.outputs.len();
        for index in 0..nfa.match_len(states[old]) {
            for literal in patterns[nfa.match_pattern(states[old], index).as_usize()] {
                if !table.outputs[row..].contains(&literal.output) {
                    table.outputs.push(literal.output);
                }
            }
        }
        table.output_rows.push(table.outputs.len() as u32);
    }
    Ok(table)
}

/// Maps bytes to classes: one per byte that occurs in a literal, with both cases of a letter together, and class 0 for
/// the others. Also returns a byte of each class.
fn fold_classes(literals: &[FoldedLiteral]) -> (Vec<u8>, Vec<u8>) {
    let mut used = [false; 256];
    for &byte in literals.iter().flat_map(|literal| &literal.folded) {
        used[usize::from(byte)] = true;
    }
    let other = (0..=255u8).find(|byte| !used[usize::from(byte.to_ascii_lowercase())]);
    let mut classes = vec![0u8; 256];
    let mut representatives: Vec<u8> = other.into_iter().collect();
    for byte in 0..=255u8 {
        if used[usize::from(byte)] {
            let class = representatives.len() as u8;
            classes[usize::from(byte)] = class;
            classes[usize::from(byte.to_ascii_uppercase())] = class;
            representatives.push(byte);
        }
    }
    (classes, representatives)
}

/// Returns the states of an automaton in breadth-first order, and for each state and representative the next state's
/// place in that order.
fn enumerate(nfa: &NFA, representatives: &[u8]) -> (Vec<StateID>, Vec<usize>) {
    let start = nfa.start_state(Anchored::No).expect("an automaton that searches unanchored was asked for");
    let mut places = FxHashMap::from_iter([(start, 0)]);
    let mut states = vec![start];
    let mut next = Vec::new();
    let mut at = 0;
    while at < states.len() {
        for &byte in representatives {
            let target = nfa.next_state(Anchored::No, states[at], byte);
            let place = *places.entry(target).or_insert_with(|| {
                states.push(target);
                states.len() - 1
            });
            next.push(place);
        }
        at += 1;
    }
    (states, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(branch: u32, text: &str) -> FoldedLiteral {
        let symbols: Vec<Symbol> = text.bytes().map(|value| Symbol { value, mask: 0xff }).collect();
        FoldedLiteral::new(branch, &FactorLiteral { back: symbols.len() as u32, symbols }).unwrap()
    }

    /// Returns the branches whose literals end at the last byte of a text, without the case compare.
    fn ending(table: &FactorTable, text: &str) -> Vec<u32> {
        let state = text.bytes().fold(0, |state, byte| {
            let class = usize::from(table.classes[usize::from(byte)]);
            usize::from(table.next[state * table.class_count as usize + class])
        });
        let Some(row) = state.checked_sub(table.first_accepting as usize) else { return vec![] };
        let outputs = table.output_rows[row] as usize..table.output_rows[row + 1] as usize;
        table.outputs[outputs].iter().map(|output| output.branch).collect()
    }

    #[test]
    fn outputs_include_those_of_suffixes() {
        let list = ["he", "she", "his", "hers", "E"].iter().zip(0..).map(|(text, at)| literal(at, text));
        let tables = build_tables(list.collect()).unwrap();
        let mut found = ending(&tables[0], "uSHe");
        found.sort_unstable();
        assert_eq!(found, [0, 1, 4]);
        assert_eq!(ending(&tables[0], "ushers"), [3]);
        assert_eq!(ending(&tables[0], "ushx"), []);
    }

    #[test]
    fn equal_outputs_are_merged_and_unequal_ones_are_not() {
        let list = vec![literal(3, "ab"), literal(3, "ab"), literal(3, "aB"), literal(4, "ab")];
        let tables = build_tables(list).unwrap();
        assert_eq!(tables[0].outputs.len(), 3);
        assert_eq!(tables[0].state_count, 3);
    }

    #[test]
    fn many_states_make_several_tables() {
        let words: Vec<String> = (0..60).map(|n| format!("w{n}x{}", n * 7)).collect();
        let list: Vec<FoldedLiteral> = words.iter().zip(0..).map(|(word, at)| literal(at, word)).collect();
        let tables = build_tables_within(list, 40).unwrap();
        assert!(tables.len() > 3);
        assert!(tables.iter().all(|table| table.state_count <= 40));
        for (word, at) in words.iter().zip(0u32..) {
            assert_eq!(tables.iter().filter(|table| ending(table, word).contains(&at)).count(), 1);
        }
    }

    #[test]
    fn every_byte_may_occur_in_literals() {
        let list: Vec<FoldedLiteral> = (0..=255u8)
            .map(|value| {
                let symbols = vec![Symbol { value, mask: 0xff }];
                FoldedLiteral::new(0, &FactorLiteral { symbols, back: 1 }).unwrap()
            })
            .collect();
        let tables = build_tables(list).unwrap();
        assert_eq!((tables[0].class_count, tables[0].first_accepting), (230, 1));
    }

    #[test]
    fn bad_literals_are_refused() {
        let refused = |symbols: Vec<Symbol>, back| FoldedLiteral::new(7, &FactorLiteral { symbols, back });
        let symbol = Symbol { value: b'a', mask: 0xff };
        assert!(refused(vec![], 0).is_err());
        assert!(refused(vec![symbol; 17], 17).is_err());
        assert!(refused(vec![symbol; 2], 1).is_err());
        assert!(refused(vec![Symbol { value: b'a', mask: 0xdf }], 1).is_err());
        assert!(refused(vec![Symbol { value: b'1', mask: 0xdf }], 1).is_err());
    }
}
