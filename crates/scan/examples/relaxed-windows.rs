//! Compares the windows of a catalog with exact ones: `relaxed-windows RULES TEXT`, where RULES is `easy`, `hard`,
//! `starter` or a file with one expression per line.
//!
//! A window whose automaton would be too large is made from a simpler expression, which allows more. This says for
//! how many windows the text shows a difference, how many more bytes they read, and how many more candidates they leave.

use std::{env, fs};

use pelton_scan::catalog::{WINDOW_MAYBE, WINDOW_NO, WINDOW_START, WindowInfo, WindowTables};
use pelton_scan::factor::{RuleFactors, extract_factors};
use pelton_scan::sample_rules::SampleRules;
use pelton_scan::{Catalog, Expression, rules};
use regex_automata::nfa::thompson::{Compiler, Config, NFA, State, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_syntax::hir::Hir;
use rustc_hash::{FxHashMap, FxHashSet};

/// The states of windows that have a meaning.
const NO: u32 = WINDOW_NO as u32;
const MAYBE: u32 = WINDOW_MAYBE as u32;
const START: u32 = WINDOW_START as u32;

/// What became of the hits of a window.
#[derive(Default)]
struct HitCounts {
    hits: u64,
    /// The bytes that the window reads, and those that an exact one would read.
    steps: [u64; 2],
    /// The hits that the window allows, and those that an exact one would allow.
    allowed: [u64; 2],
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args().skip(1);
    let (Some(rules), Some(text)) = (arguments.next(), arguments.next()) else {
        return Err("usage: relaxed-windows RULES TEXT".into());
    };
    let text = fs::read(text)?;
    let factors: Vec<RuleFactors> = read_expressions(&rules)?.iter().map(extract_factors).collect();
    let catalog = Catalog::build(&factors)?;
    let branches = factors.iter().flat_map(|rule| match rule {
        RuleFactors::Branches(branches) => branches.as_slice(),
        RuleFactors::Always => &[],
    });
    let mut exact = branches.map(|branch| ExactWindow::new(&branch.suffix)).collect::<Result<Vec<_>, _>>()?;
    let tables = catalog.windows();
    let mut counts: Vec<HitCounts> = tables.windows.iter().map(|_| HitCounts::default()).collect();
    for_each_hit(&catalog, &text, |branch, first| {
        let (window, count) = (&tables.windows[branch], &mut counts[branch]);
        count.hits += 1;
        let answers = [
            run(window, &text[first..], |state, byte| step(tables, window, state, byte)),
            run(window, &text[first..], |state, byte| exact[branch].step(state, byte)),
        ];
        for (kind, (allowed, steps)) in answers.into_iter().enumerate() {
            count.steps[kind] += steps;
            count.allowed[kind] += u64::from(allowed);
        }
    });
    let (relaxed, same): (Vec<_>, Vec<_>) = counts
        .into_iter()
        .partition(|count| count.steps[0] != count.steps[1] || count.allowed[0] != count.allowed[1]);
    println!("per MB      windows     hits  bytes read  if exact  allowed  if exact");
    for (name, counts) in [("same", same), ("relaxed", relaxed)] {
        let rate = |part: fn(&HitCounts) -> u64| {
            counts.iter().map(part).sum::<u64>() as f64 / (text.len() as f64 * 1e-6)
        };
        println!(
            "{name:11} {:7} {:8.1} {:11.0} {:9.0} {:8.1} {:9.1}",
            counts.len(),
            rate(|count| count.hits),
            rate(|count| count.steps[0]),
            rate(|count| count.steps[1]),
            rate(|count| count.allowed[0]),
            rate(|count| count.allowed[1])
        );
    }
    Ok(())
}

fn read_expressions(rules: &str) -> Result<Vec<Expression>, Box<dyn std::error::Error>> {
    let set = match rules {
        "easy" => SampleRules::easy().set(),
        "hard" => SampleRules::hard().set(),
        "starter" => rules::starter(),
        file => {
            return Ok(fs::read_to_string(file)?.lines().map(Expression::parse).collect::<Result<_, _>>()?);
        }
    };
    Ok(set.rules.into_iter().filter_map(|rule| rule.expression).collect())
}

/// Calls `found` with the branch and the beginning of the part for every literal that occurs in a text.
fn for_each_hit(catalog: &Catalog, text: &[u8], mut found: impl FnMut(usize, usize)) {
    for table in catalog.factors() {
        let mut state = 0;
        for (end, &byte) in text.iter().enumerate() {
            let class = usize::from(table.classes[usize::from(byte)]);
            state = usize::from(table.next[state * table.class_count as usize + class]);
            let Some(row) = state.checked_sub(table.first_accepting as usize) else { continue };
            for output in &table.outputs[table.output_rows[row] as usize..table.output_rows[row + 1] as usize]
            {
                let agrees =
                    output.mask.iter().zip(&output.value).rev().enumerate().all(|(back, (mask, value))| {
                        *mask == 0 || (end >= back && text[end - back] & mask == *value)
                    });
                if let Some(first) = (end + 1).checked_sub(output.back as usize).filter(|_| agrees) {
                    found(output.branch as usize, first);
                }
            }
        }
    }
}

/// Returns the state of a window after a byte.
fn step(tables: &WindowTables, window: &WindowInfo, state: u32, byte: u8) -> u32 {
    let class = u32::from(tables.classes[window.class_map as usize * 256 + usize::from(byte)]);
    u32::from(tables.next[(window.base + state * window.class_count + class) as usize])
}

/// Reads a text until the answer is known. Returns whether it is *maybe*, and the number of bytes read.
fn run(window: &WindowInfo, text: &[u8], mut step: impl FnMut(u32, u8) -> u32) -> (bool, u64) {
    if window.class_count == 0 {
        return (true, 0);
    }
    let mut state = START;
    for (read, &byte) in (1..).zip(text.iter().take(window.limit as usize)) {
        state = step(state, byte);
        if state == NO || state == MAYBE {
            return (state == MAYBE, read);
        }
    }
    let read = text.len().min(window.limit as usize);
    (read < window.limit as usize || window.at_limit, read as u64)
}

/// An automaton of the whole expression, which is made deterministic as far as texts need it.
struct ExactWindow {
    nfa: NFA,
    numbers: FxHashMap<Vec<StateID>, u32>,
    /// The sets of states, from the one of the initial state on.
    subsets: Vec<Vec<StateID>>,
    next: FxHashMap<(u32, u8), u32>,
}

impl ExactWindow {
    fn new(suffix: &Hir) -> Result<ExactWindow, Box<dyn std::error::Error>> {
        let config = Config::new().utf8(false).which_captures(WhichCaptures::None);
        let nfa = Compiler::new().configure(config).build_from_hir(suffix)?;
        let mut window = ExactWindow {
            nfa,
            numbers: FxHashMap::default(),
            subsets: Vec::new(),
            next: FxHashMap::default(),
        };
        let start = window.nfa.start_anchored();
        window.number(&[start]);
        Ok(window)
    }

    /// Returns the state after a byte.
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        if let Some(&next) = self.next.get(&(state, byte)) {
            return next;
        }
        let subset = &self.subsets[(state - START) as usize];
        let targets: Vec<StateID> = subset
            .iter()
            .filter_map(|&state| match self.nfa.state(state) {
                State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
                State::Sparse(transitions) => transitions.matches_byte(byte),
                State::Dense(transitions) => transitions.matches_byte(byte),
                _ => None,
            })
            .collect();
        let next = self.number(&targets);
        self.next.insert((state, byte), next);
        next
    }

    /// Returns the number of the set of all states that are reached without reading a byte. Look-arounds always hold.
    fn number(&mut self, from: &[StateID]) -> u32 {
        let mut stack = from.to_vec();
        let (mut seen, mut subset) = (FxHashSet::default(), Vec::new());
        while let Some(state) = stack.pop() {
            if !seen.insert(state) {
                continue;
            }
            match self.nfa.state(state) {
                State::Look { next, .. } | State::Capture { next, .. } => stack.push(*next),
                State::Union { alternates } => stack.extend(alternates),
                State::BinaryUnion { alt1, alt2 } => stack.extend([*alt1, *alt2]),
                State::Match { .. } => return MAYBE,
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) => subset.push(state),
                State::Fail => {}
            }
        }
        if subset.is_empty() {
            return NO;
        }
        subset.sort_unstable();
        *self.numbers.entry(subset).or_insert_with_key(|subset| {
            self.subsets.push(subset.clone());
            START + self.subsets.len() as u32 - 1
        })
    }
}
