//! An exact search that reads its text piece by piece.
//!
//! A lazy automaton reads every byte once. It says when a match is complete, that is when nothing that follows can
//! change it, and when no match is under way, so that earlier text can be forgotten. The start of a match is found by a
//! second automaton, which reads backwards from its end.
//!
//! That no match is under way is told by the automaton being back in a start state, and this holds only if no byte of a
//! match can lead back to where matches begin: after the `a` of `a*b` the automaton is in its start state, although a
//! match has begun. [`IncrementalMatcher::new`] decides this by looking at the automaton. Where it does not hold, nothing
//! is forgotten early.

use std::io;

use regex_automata::hybrid::{LazyStateID, dfa, regex};
use regex_automata::nfa::thompson::{self, NFA, State};
use regex_automata::util::primitives::StateID;
use regex_automata::util::{start, syntax};
use regex_automata::{Anchored, MatchKind};

use super::StartRange;
use super::source::TextSource;
use crate::expression::Expression;

/// The number of bytes that are read backwards at once.
const BACK_BLOCK: u64 = 4096;
/// The number of bytes that are read first to see whether a match may begin in a range.
const FIRST_BLOCK: usize = 64;

/// An expression that can be searched for in a text that comes in pieces.
#[derive(Debug)]
pub struct IncrementalMatcher {
    automata: regex::Regex,
    can_forget: bool,
}

/// The state of a search with an [`IncrementalMatcher`]: which byte is read next, and what is known so far.
#[derive(Debug)]
pub struct IncrementalSearch {
    cache: regex::Cache,
    state: Option<LazyStateID>,
    /// The position from which the search began.
    from: u64,
    /// The position of the next byte.
    position: u64,
    /// No match that is still to be found begins before this position.
    live_from: u64,
    /// The end of the best match so far.
    best_end: Option<u64>,
    /// The byte before `from`.
    before: Option<u8>,
}

/// What an [`IncrementalSearch`] knows after it has read some text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SearchProgress {
    /// More text is needed.
    NeedsMore,
    /// A match ends here, and nothing that follows can change that.
    Ends(u64),
    /// There is no further match.
    Nothing,
}

/// Why an [`IncrementalSearch`] cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum IncrementalError {
    /// The expression has a Unicode word boundary and the text has a byte that is not ASCII, which the automaton cannot
    /// decide.
    #[error(
        "a Unicode word boundary next to a non-ASCII character can be decided only in inputs that are in memory as a whole"
    )]
    CannotDecide,
    /// The match begins in text that is no longer there.
    #[error("a match may have begun in text that is no longer kept")]
    Forgotten,
    /// The text could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl IncrementalMatcher {
    /// Builds the automata of an expression.
    pub fn new(expression: &Expression) -> Result<IncrementalMatcher, String> {
        let config = dfa::Config::new()
            .match_kind(MatchKind::LeftmostFirst)
            .unicode_word_boundary(true)
            .specialize_start_states(true)
            .skip_cache_capacity_check(true);
        let syntax = syntax::Config::new().unicode(expression.unicode()).utf8(false);
        let automata = regex::Builder::new()
            .dfa(config)
            .syntax(syntax)
            .thompson(thompson::Config::new().utf8(false))
            .build(expression.text())
            .map_err(|error| error.to_string())?;
        let can_forget = !leads_back_to_start(automata.forward().get_nfa());
        Ok(IncrementalMatcher { automata, can_forget })
    }

    /// Returns whether it is known when no match is under way.
    pub fn can_forget(&self) -> bool {
        self.can_forget
    }

    /// Begins a search at a position; `before` is the byte before it.
    pub fn begin(&self, from: u64, before: Option<u8>) -> IncrementalSearch {
        let cache = self.automata.create_cache();
        IncrementalSearch {
            cache,
            state: None,
            from,
            position: from,
            live_from: from,
            best_end: None,
            before,
        }
    }
}

/// Returns whether some byte of a match leads to a state in which matches begin.
fn leads_back_to_start(nfa: &NFA) -> bool {
    let mut begins = vec![false; nfa.states().len()];
    let mut reached = begins.clone();
    let mut waiting = vec![nfa.start_anchored()];
    while let Some(state) = waiting.pop() {
        if !std::mem::replace(&mut begins[state], true) {
            follow(nfa.state(state), &mut waiting, None);
        }
    }
    for state in (0..begins.len()).filter(|&state| begins[state]) {
        follow(&nfa.states()[state], &mut vec![], Some(&mut waiting));
    }
    while let Some(state) = waiting.pop() {
        if !std::mem::replace(&mut reached[state], true) {
            let mut free = vec![];
            follow(nfa.state(state), &mut free, Some(&mut waiting));
            waiting.extend(free);
        }
    }
    let reads = |state: &State| {
        matches!(state, State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) | State::Look { .. })
    };
    (0..begins.len()).any(|state| begins[state] && reached[state] && reads(&nfa.states()[state]))
}

/// Adds the states that follow without a byte to `free`, and those that follow a byte to `read`.
fn follow(state: &State, free: &mut Vec<StateID>, read: Option<&mut Vec<StateID>>) {
    match state {
        State::Look { next, .. } | State::Capture { next, .. } => free.push(*next),
        State::Union { alternates } => free.extend(alternates.iter().copied()),
        State::BinaryUnion { alt1, alt2 } => free.extend([*alt1, *alt2]),
        State::Fail | State::Match { .. } => {}
        State::ByteRange { trans } => read.into_iter().for_each(|read| read.push(trans.next)),
        State::Sparse(sparse) => {
            read.into_iter().for_each(|read| read.extend(sparse.transitions.iter().map(|trans| trans.next)));
        }
        State::Dense(dense) => {
            read.into_iter().for_each(|read| read.extend(dense.transitions.iter().copied()));
        }
    }
}

impl IncrementalSearch {
    /// Returns the position of the byte that is read next.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the position from which text must be kept, because a match may have begun there.
    pub fn keep_from(&self) -> u64 {
        self.live_from
    }

    /// Returns whether no match is under way.
    pub fn is_idle(&self) -> bool {
        self.live_from == self.position && self.best_end.is_none()
    }

    /// Begins again at a position, with the byte before it.
    pub fn restart(&mut self, from: u64, before: Option<u8>) {
        (self.state, self.best_end, self.before) = (None, None, before);
        (self.from, self.position, self.live_from) = (from, from, from);
    }

    /// Returns the state, which is a start state at first.
    fn state(&mut self, matcher: &IncrementalMatcher) -> Result<LazyStateID, IncrementalError> {
        if let Some(state) = self.state {
            return Ok(state);
        }
        let config = start::Config::new().look_behind(self.before).anchored(Anchored::No);
        let cache = self.cache.as_parts_mut().0;
        matcher.automata.forward().start_state(cache, &config).map_err(|_| IncrementalError::CannotDecide)
    }

    /// Reads text that begins at [`position`](Self::position).
    pub fn read(
        &mut self,
        matcher: &IncrementalMatcher,
        text: &[u8],
    ) -> Result<SearchProgress, IncrementalError> {
        let mut state = self.state(matcher)?;
        let automaton = matcher.automata.forward();
        let cache = self.cache.as_parts_mut().0;
        for &byte in text {
            state = automaton.next_state(cache, state, byte).map_err(|_| IncrementalError::CannotDecide)?;
            if state.is_tagged() {
                if state.is_match() {
                    self.best_end = Some(self.position);
                } else if state.is_dead() {
                    self.state = Some(state);
                    return Ok(self.best_end.map_or(SearchProgress::Nothing, SearchProgress::Ends));
                } else if state.is_quit() {
                    return Err(IncrementalError::CannotDecide);
                } else if state.is_start() && self.best_end.is_none() && matcher.can_forget {
                    self.live_from = self.position + 1;
                }
            }
            self.position += 1;
        }
        self.state = Some(state);
        Ok(SearchProgress::NeedsMore)
    }

    /// Tells the search that the text has ended, and returns what it knows then.
    pub fn finish(&mut self, matcher: &IncrementalMatcher) -> Result<SearchProgress, IncrementalError> {
        let state = self.state(matcher)?;
        if !state.is_dead() {
            let automaton = matcher.automata.forward();
            let cache = self.cache.as_parts_mut().0;
            let end = automaton.next_eoi_state(cache, state).map_err(|_| IncrementalError::CannotDecide)?;
            if end.is_match() {
                self.best_end = Some(self.position);
            }
        }
        Ok(self.best_end.map_or(SearchProgress::Nothing, SearchProgress::Ends))
    }

    /// Returns whether a match may begin in a range, as far as a text shows that begins at `base` and before the range.
    pub fn may_match_in(
        &mut self,
        matcher: &IncrementalMatcher,
        text: &[u8],
        base: u64,
        range: StartRange,
    ) -> bool {
        let mut at = ((range.lo - base) as usize).min(text.len());
        self.restart(range.lo, at.checked_sub(1).map(|before| text[before]));
        let mut block = FIRST_BLOCK;
        while at < text.len() {
            let end = (at + block).min(text.len());
            match self.read(matcher, &text[at..end]) {
                Ok(SearchProgress::NeedsMore) => {}
                Ok(SearchProgress::Nothing) => return false,
                Ok(SearchProgress::Ends(_)) | Err(_) => return true,
            }
            if self.is_idle() && self.position > range.hi {
                return false;
            }
            (at, block) = (end, 2 * block);
        }
        true
    }

    /// Finds the start of the match that ends at `end`. `after` is the byte at `end`, or `None` at the end of the text.
    pub fn find_start(
        &mut self,
        matcher: &IncrementalMatcher,
        end: u64,
        after: Option<u8>,
        source: &mut dyn TextSource,
    ) -> Result<u64, IncrementalError> {
        let automaton = matcher.automata.reverse();
        let cache = self.cache.as_parts_mut().1;
        let config = start::Config::new().look_behind(after).anchored(Anchored::Yes);
        let mut state = automaton.start_state(cache, &config).map_err(|_| IncrementalError::CannotDecide)?;
        // No match begins earlier; if that text is gone, the reverse automaton may still find that none began in it.
        let floor = self.live_from.max(source.available().start);
        let (mut position, mut start, mut text) = (end, None, vec![]);
        while position > floor {
            let block = floor.max(position.saturating_sub(BACK_BLOCK))..position;
            source.fetch(block.clone(), &mut text)?;
            if (text.len() as u64) < block.end - block.start {
                return Err(IncrementalError::Forgotten); // the file has become shorter
            }
            for &byte in text.iter().rev() {
                state =
                    automaton.next_state(cache, state, byte).map_err(|_| IncrementalError::CannotDecide)?;
                if state.is_match() {
                    start = Some(position);
                } else if state.is_dead() {
                    return start.ok_or(IncrementalError::Forgotten);
                } else if state.is_quit() {
                    return Err(IncrementalError::CannotDecide);
                }
                position -= 1;
            }
        }
        if floor > self.live_from {
            return Err(IncrementalError::Forgotten);
        }
        let before = if floor == self.from { self.before } else { source.byte_before(floor)? };
        let last = match before {
            Some(byte) => automaton.next_state(cache, state, byte),
            None => automaton.next_eoi_state(cache, state),
        };
        if last.map_err(|_| IncrementalError::CannotDecide)?.is_match() {
            start = Some(position);
        }
        start.ok_or(IncrementalError::Forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::TextInMemory;
    use super::*;

    fn matcher(text: &str) -> IncrementalMatcher {
        IncrementalMatcher::new(&Expression::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn it_is_known_which_expressions_can_be_forgotten_early() {
        for text in ["abc", "a{2,5}b", r"\bab+", "ab*", r"(?s)a.*b", "(?:ab|cd)e+"] {
            assert!(matcher(text).can_forget, "{text}");
        }
        for text in ["a*b", "a+b", r"(?:ab)+c", r".*x", r"(?:x|y*)z", r"a?b*c"] {
            assert!(!matcher(text).can_forget, "{text}");
        }
    }

    /// Searches a text in pieces of `step` bytes from a position on.
    fn first(expression: &str, text: &str, from: u64, step: usize) -> Option<(u64, u64)> {
        let matcher = matcher(expression);
        let mut source = TextInMemory { base: 0, text: text.as_bytes() };
        let before = source.byte_before(from).unwrap();
        let mut search = matcher.begin(from, before);
        let mut progress = SearchProgress::NeedsMore;
        for piece in text.as_bytes()[from as usize..].chunks(step) {
            progress = search.read(&matcher, piece).unwrap();
            if progress != SearchProgress::NeedsMore {
                break;
            }
        }
        if progress == SearchProgress::NeedsMore {
            progress = search.finish(&matcher).unwrap();
        }
        let SearchProgress::Ends(end) = progress else { return None };
        let after = text.as_bytes().get(end as usize).copied();
        Some((search.find_start(&matcher, end, after, &mut source).unwrap(), end))
    }

    #[test]
    fn pieces_do_not_matter() {
        for expression in ["a(?:.*b)?", r"\bab\b", "a+b", "(?m)^b$", "x*", r"b\z", "(?:a|ab)(?:c|bcd)?"] {
            for text in ["", "a", "aab abcd", "xx\nb\nab", "ab", "a b\na....b..b"] {
                let oracle = ::regex::bytes::RegexBuilder::new(expression).unicode(false).build().unwrap();
                for from in 0..=text.len() {
                    let wanted = oracle
                        .find_at(text.as_bytes(), from)
                        .map(|found| (found.start() as u64, found.end() as u64));
                    for step in 1..4 {
                        assert_eq!(
                            first(expression, text, from as u64, step),
                            wanted,
                            "{expression} in {text:?} from {from}"
                        );
                    }
                }
            }
        }
    }
}
