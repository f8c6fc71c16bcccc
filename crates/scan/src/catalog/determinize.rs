//! Making a window automaton of an expression by the subset construction.

use regex_automata::nfa::thompson::{Compiler, Config, NFA, State, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_syntax::hir::Hir;
use rustc_hash::FxHashMap;

use super::dominate::{Dominance, Reached};
use super::tables::{WINDOW_MAYBE, WINDOW_NO, WINDOW_START};

/// The largest size of the automaton that the construction starts from, in bytes.
const NFA_SIZE_MAX: usize = 4 << 20;

/// What a construction may cost. Costs are counted rather than timed, so that the same rules always give the same
/// tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// The largest number of states.
    pub(super) states: usize,
    /// The largest number of elementary steps; one takes a few nanoseconds.
    pub(super) steps: usize,
}

/// How a window ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct WindowEnd {
    /// The number of bytes that are read at most.
    pub(super) limit: u32,
    /// Whether the answer after that many bytes is *maybe*.
    pub(super) at_limit: bool,
}

/// A window automaton with the states [`WINDOW_NO`], [`WINDOW_MAYBE`], [`WINDOW_START`] and others.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct WindowAutomaton {
    /// The class of each byte.
    pub(super) classes: Box<[u8; 256]>,
    /// The number of classes.
    pub(super) class_count: usize,
    /// The next state for `state * class_count + class`.
    pub(super) next: Vec<u16>,
}

impl WindowAutomaton {
    /// Returns the number of states.
    pub(super) fn state_count(&self) -> usize {
        self.next.len() / self.class_count
    }
}

/// What came of a construction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Determinized {
    /// The automaton.
    Automaton(WindowAutomaton),
    /// The expression matches the empty text, so the answer is *maybe* before any byte is read.
    MatchesEmpty,
    /// The budget did not suffice.
    OverBudget,
}

/// Makes the automaton that answers *maybe* as soon as what it has read is a match of an expression, and *no* as soon as
/// no match can follow. Look-arounds in the expression always hold.
///
/// States that are first reached after `end.limit` bytes are not made: the answer there is known.
pub(super) fn determinize(hir: &Hir, end: WindowEnd, budget: Budget) -> Determinized {
    let config =
        Config::new().utf8(false).which_captures(WhichCaptures::None).nfa_size_limit(Some(NFA_SIZE_MAX));
    match Compiler::new().configure(config).build_from_hir(hir) {
        Ok(nfa) => Construction::new(&nfa, budget).without_dominated().run(end),
        Err(_) => Determinized::OverBudget,
    }
}

/// The state of a subset construction.
struct Construction<'n> {
    nfa: &'n NFA,
    budget: Budget,
    /// Which states are superfluous in subsets.
    dominance: Option<Dominance>,
    /// The subset that is being made.
    closure: StateSet,
    /// The states that remain to be followed while a subset is made.
    stack: Vec<StateID>,
    /// The number of each subset that was made.
    numbers: FxHashMap<Box<[StateID]>, u16>,
    /// The subsets, from the one of [`WINDOW_START`] on.
    subsets: Vec<Box<[StateID]>>,
}

impl<'n> Construction<'n> {
    fn new(nfa: &'n NFA, budget: Budget) -> Construction<'n> {
        Construction {
            nfa,
            budget,
            dominance: None,
            closure: StateSet::new(nfa.states().len()),
            stack: Vec::new(),
            numbers: FxHashMap::default(),
            subsets: Vec::new(),
        }
    }

    /// Leaves states out of subsets that are superfluous there.
    fn without_dominated(mut self) -> Construction<'n> {
        let nfa = self.nfa;
        let reads =
            |state: &State| matches!(state, State::ByteRange { .. } | State::Sparse(_) | State::Dense(_));
        let numbered = (0..).map(StateID::new_unchecked).zip(nfa.states());
        let readers: Vec<StateID> = numbered.filter(|(_, state)| reads(state)).map(|(id, _)| id).collect();
        let (_, representatives) = byte_classes(nfa);
        self.dominance = Dominance::find(nfa, &readers, &representatives, |state, byte| {
            self.closure.clear();
            match read_byte(nfa, state, byte) {
                Some(target) if self.follow(target) => Reached::Match,
                _ => Reached::States(self.closure.members.clone()),
            }
        });
        self
    }

    fn run(mut self, end: WindowEnd) -> Determinized {
        let (classes, representatives) = byte_classes(self.nfa);
        self.closure.clear();
        if self.follow(self.nfa.start_anchored()) {
            return Determinized::MatchesEmpty;
        }
        if self.intern().is_none() {
            return Determinized::OverBudget;
        }
        let mut next = vec![WINDOW_NO; representatives.len()];
        next.resize(2 * representatives.len(), WINDOW_MAYBE);
        // Breadth first, so `depth` is the smallest number of bytes that lead to a state.
        let (mut at, mut depth) = (0, 0);
        let mut level_end = self.subsets.len();
        while at < self.subsets.len() {
            if at == level_end {
                (depth, level_end) = (depth + 1, self.subsets.len());
            }
            for &byte in &representatives {
                let target = match self.step(at, byte) {
                    Some(WINDOW_NO) => WINDOW_NO,
                    Some(WINDOW_MAYBE) => WINDOW_MAYBE,
                    _ if depth + 1 >= end.limit => [WINDOW_NO, WINDOW_MAYBE][usize::from(end.at_limit)],
                    Some(_) => match self.intern() {
                        Some(number) => number,
                        None => return Determinized::OverBudget,
                    },
                    None => return Determinized::OverBudget,
                };
                next.push(target);
            }
            at += 1;
        }
        let class_count = representatives.len();
        Determinized::Automaton(WindowAutomaton { classes, class_count, next })
    }

    /// Makes the subset that a byte leads to, in `closure`. Returns [`WINDOW_NO`] if it is empty, [`WINDOW_MAYBE`] if it
    /// is a match, any other number if it is neither, and `None` if the budget is used up.
    fn step(&mut self, from: usize, byte: u8) -> Option<u16> {
        self.closure.clear();
        for place in 0..self.subsets[from].len() {
            if let Some(target) = read_byte(self.nfa, self.subsets[from][place], byte)
                && self.follow(target)
            {
                return Some(WINDOW_MAYBE);
            }
        }
        self.budget.steps =
            self.budget.steps.checked_sub(self.subsets[from].len() + self.closure.members.len())?;
        Some(if self.closure.members.is_empty() { WINDOW_NO } else { WINDOW_START })
    }

    /// Adds the states that read a byte and are reached from a state without reading one. Returns whether a match is
    /// reached.
    fn follow(&mut self, state: StateID) -> bool {
        self.stack.push(state);
        while let Some(state) = self.stack.pop() {
            if !self.closure.visit(state) {
                continue;
            }
            match self.nfa.state(state) {
                State::Look { next, .. } | State::Capture { next, .. } => self.stack.push(*next),
                State::Union { alternates } => self.stack.extend(alternates),
                State::BinaryUnion { alt1, alt2 } => self.stack.extend([*alt1, *alt2]),
                State::Match { .. } => {
                    self.stack.clear();
                    return true;
                }
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) => {
                    self.closure.members.push(state);
                }
                State::Fail => {}
            }
        }
        false
    }

    /// Returns the number of the subset in `closure`, or `None` if it would be one state too many.
    fn intern(&mut self) -> Option<u16> {
        self.closure.members.sort_unstable();
        if let Some(dominance) = &self.dominance {
            dominance.prune(&mut self.closure.members);
        }
        if let Some(&number) = self.numbers.get(&*self.closure.members) {
            return Some(number);
        }
        let number = WINDOW_START as usize + self.subsets.len();
        if number >= self.budget.states {
            return None;
        }
        let subset: Box<[StateID]> = self.closure.members.as_slice().into();
        self.subsets.push(subset.clone());
        self.numbers.insert(subset, number as u16);
        Some(number as u16)
    }
}

/// Returns the state that a byte leads to, if there is one.
fn read_byte(nfa: &NFA, state: StateID, byte: u8) -> Option<StateID> {
    match nfa.state(state) {
        State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
        State::Sparse(transitions) => transitions.matches_byte(byte),
        State::Dense(transitions) => transitions.matches_byte(byte),
        _ => None,
    }
}

/// A set of states that is cheap to clear.
struct StateSet {
    /// The round in which each state was last visited.
    visited: Vec<u32>,
    /// The current round.
    round: u32,
    /// The states of the set, which are some of those that were visited in this round.
    members: Vec<StateID>,
}

impl StateSet {
    fn new(states: usize) -> StateSet {
        StateSet { visited: vec![0; states], round: 1, members: Vec::new() }
    }

    fn clear(&mut self) {
        self.members.clear();
        // The budget ends a construction long before the rounds are used up.
        self.round += 1;
    }

    /// Returns whether a state is visited for the first time in this round.
    fn visit(&mut self, state: StateID) -> bool {
        let seen = &mut self.visited[state.as_usize()];
        let fresh = *seen != self.round;
        *seen = self.round;
        fresh
    }
}

/// Returns the byte classes of an automaton, and a byte of each class.
fn byte_classes(nfa: &NFA) -> (Box<[u8; 256]>, Vec<u8>) {
    let mut classes = Box::new([0; 256]);
    let mut representatives = Vec::new();
    let mut numbers = FxHashMap::default();
    for byte in 0..=255u8 {
        let number = *numbers.entry(nfa.byte_classes().get(byte)).or_insert_with(|| {
            representatives.push(byte);
            (representatives.len() - 1) as u8
        });
        classes[usize::from(byte)] = number;
    }
    (classes, representatives)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::minimize::minimize;

    /// Expressions, and whether fewer states are made without dominated ones.
    const EXPRESSIONS: [(&str, bool); 8] = [
        ("key[a-z]{3}", false),
        ("(?s)k.{0,20}[a-c]{12}", true),
        ("(?s)k.{0,9}(?:ab|abc|cb).{0,6}[a-b]{5}", true),
        ("k(?:[ab]{2,9}c|x{1,30}y|[a-x]{4}z)", false),
        ("(?:a|b|ab)*c{3}", false),
        (r"[\w.-]{0,20}(?:=|>|:{1,3}=|\|\||,)['\s=]{0,5}[a-z0-9]{32}['\s;]", false),
        ("(?:aa|a)(?:a|b)*?x|b*", false),
        ("[^a]*a[^b]*b", false),
    ];

    #[test]
    fn automata_without_dominated_states_are_the_same() {
        let budget = Budget { states: 60_000, steps: usize::MAX };
        let end = WindowEnd { limit: 512, at_limit: true };
        for (text, fewer) in EXPRESSIONS {
            let hir =
                regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(text).unwrap();
            let nfa = Compiler::new().build_from_hir(&hir).unwrap();
            let all = Construction::new(&nfa, budget).run(end);
            let pruned = Construction::new(&nfa, budget).without_dominated().run(end);
            match (all, pruned) {
                (Determinized::Automaton(all), Determinized::Automaton(pruned)) => {
                    assert_eq!(minimize(&all, 60_000), minimize(&pruned, 60_000), "{text}");
                    let (all, pruned) = (all.state_count(), pruned.state_count());
                    assert!(if fewer { pruned < all } else { pruned <= all }, "{text}: {pruned} of {all}");
                }
                (all, pruned) => assert_eq!(all, pruned, "{text}"),
            }
        }
    }
}
