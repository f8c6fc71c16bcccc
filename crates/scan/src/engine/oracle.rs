//! What tests compare engines with: rules made by hand, random texts, and a search that tries every position.

use std::ops::Range;

use regex_syntax::ParserBuilder;

use crate::candidate::Candidate;
use crate::catalog::{Catalog, WINDOW_MAYBE, WINDOW_NO, WINDOW_START};
use crate::factor::{ByteSet, Factor, FactorBranch, FactorLiteral, RuleFactors, Symbol};

/// Makes a literal. `~` before a letter stands for the letter in either case, `ahead` is the number of bytes of the
/// part before it.
pub(crate) fn literal(text: &str, ahead: u32) -> FactorLiteral {
    let mut symbols = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        symbols.push(match byte {
            b'~' => Symbol { value: bytes.next().unwrap().to_ascii_uppercase(), mask: 0xdf },
            value => Symbol { value, mask: 0xff },
        });
    }
    FactorLiteral { back: ahead + symbols.len() as u32, symbols }
}

/// Makes a rule of one branch whose part begins with one of the literals. `suffix` is the expression from there on.
pub(crate) fn literal_rule(literals: &[FactorLiteral], suffix: &str) -> RuleFactors {
    branch_rule(Factor::Literals(literals.to_vec()), suffix)
}

/// Makes a rule of one branch that is searched by a run of a class.
pub(crate) fn run_rule(class: &str, length: u32) -> RuleFactors {
    let mut set = ByteSet::default();
    class.bytes().for_each(|byte| set.insert(byte));
    // A run has no window, so its suffix is never looked at.
    branch_rule(Factor::ClassRun { class: set, length }, "x+")
}

fn branch_rule(factor: Factor, suffix: &str) -> RuleFactors {
    let suffix = ParserBuilder::new().unicode(false).utf8(false).build().parse(suffix).unwrap();
    let suffix_max = suffix.properties().maximum_len().map(|len| len as u32);
    RuleFactors::Branches(vec![FactorBranch { factor, prefix_max: Some(0), suffix_max, suffix }])
}

/// A source of random numbers that is the same in every run.
pub(crate) struct FragmentRandom(pub(crate) u64);

impl FragmentRandom {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    /// Returns a text made of pieces of the fragments, in changing case.
    pub(crate) fn text(&mut self, fragments: &[&str], len: usize) -> Vec<u8> {
        let mut text = Vec::new();
        while text.len() < len {
            let fragment = fragments[self.below(fragments.len())].as_bytes();
            let from = if self.below(4) == 0 { self.below(fragment.len()) } else { 0 };
            let to = if self.below(4) == 0 {
                from + self.below(fragment.len() - from + 1)
            } else {
                fragment.len()
            };
            let upper = self.below(4) == 0;
            text.extend(fragment[from..to].iter().map(|byte| match upper {
                true => byte.to_ascii_uppercase(),
                false => *byte,
            }));
        }
        text.truncate(len);
        text
    }
}

/// Finds candidates by trying every position, from the factors themselves, and with every window.
pub(crate) fn find_naively(
    rules: &[RuleFactors],
    catalog: &Catalog,
    text: &[u8],
    own: Range<usize>,
) -> Vec<Candidate> {
    let mut found = Vec::new();
    let branches = rules.iter().flat_map(|rule| match rule {
        RuleFactors::Branches(branches) => branches.as_slice(),
        RuleFactors::Always => &[],
    });
    for (branch, source) in (0u32..).zip(branches) {
        for end in own.clone() {
            match &source.factor {
                Factor::Literals(literals) => {
                    for literal in literals {
                        let agrees = literal.symbols.iter().rev().enumerate().all(|(back, symbol)| {
                            end >= back && text[end - back] & symbol.mask == symbol.value
                        });
                        let Some(first) = (end + 1).checked_sub(literal.back as usize) else { continue };
                        if agrees && walk_window(catalog, branch, &text[first..]) {
                            found.push(Candidate { first: first as u32, last: first as u32, branch });
                        }
                    }
                }
                Factor::ClassRun { class, length } => {
                    let Some(first) = (end + 1).checked_sub(*length as usize) else { continue };
                    if text[first..=end].iter().all(|byte| class.contains(*byte)) {
                        found.push(Candidate { first: first as u32, last: first as u32, branch });
                    }
                }
            }
        }
    }
    found
}

/// Asks a window, as the documentation of the tables describes it.
pub(crate) fn walk_window(catalog: &Catalog, branch: u32, text: &[u8]) -> bool {
    let tables = catalog.windows();
    let window = tables.windows[branch as usize];
    let (mut state, mut read) = (WINDOW_START, 0);
    while window.class_count != 0 && state != WINDOW_NO && state != WINDOW_MAYBE {
        if read == window.limit as usize {
            return window.at_limit;
        }
        if read == text.len() {
            return true;
        }
        let class = tables.classes[window.class_map as usize * 256 + usize::from(text[read])];
        state =
            tables.next[(window.base + u32::from(state) * window.class_count) as usize + usize::from(class)];
        read += 1;
    }
    state != WINDOW_NO
}

/// Puts candidates into an order, with one per position at which a part can begin, so that lists can be compared.
pub(crate) fn normalize(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut list: Vec<Candidate> = candidates
        .into_iter()
        .flat_map(|candidate| {
            let one = move |at| Candidate { first: at, last: at, branch: candidate.branch };
            (candidate.first..=candidate.last).map(one)
        })
        .collect();
    list.sort_unstable();
    list.dedup();
    list
}
