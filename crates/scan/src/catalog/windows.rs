//! The automata of stage two, made from the suffixes of all branches.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use regex_syntax::hir::Hir;
use rustc_hash::FxHashMap;

use super::determinize::{Budget, Determinized, WindowAutomaton, WindowEnd, determinize};
use super::minimize::minimize;
use super::relax::{Relaxation, count_ranges, largest_bound, relax};
use super::tables::{WindowInfo, WindowTables};
use crate::factor::{Factor, FactorBranch};

/// The largest number of bytes that a window reads.
const WINDOW_MAX: u32 = 512;

/// The largest number of states of a window.
const STATE_MAX: usize = 1024;

/// The largest number of entries of all windows together, so that they are numbered by 32 bits.
const ENTRY_MAX: usize = u32::MAX as usize;

/// What one construction may cost before states are merged.
const BUDGET: Budget = Budget { states: 2048, steps: 8_000_000 };

/// The bounds of repeats above which they are dropped, one after the other, until a window is small enough.
const BOUNDS: [u32; 8] = [64, 32, 16, 8, 4, 2, 1, 0];

/// The number of ranges whose upper bounds are dropped one by one.
const RANGES_MAX: usize = 4;

/// A window that many branches can share.
#[derive(Clone, Copy, Debug)]
struct WindowSource<'b> {
    suffix: &'b Hir,
    end: WindowEnd,
}

/// Builds the windows of all branches, on all cores.
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

/// Builds windows on all cores. `None` stands for one that always answers *maybe*.
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
                    let window = build_window(source.suffix, source.end, STATE_MAX);
                    built.lock().unwrap_or_else(PoisonError::into_inner)[at] = window;
                }
            });
        }
    });
    built.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Builds a window of at most `state_max` states, from a relaxed expression if it would be too large otherwise.
fn build_window(suffix: &Hir, end: WindowEnd, state_max: usize) -> Option<WindowAutomaton> {
    for relaxation in relaxations(suffix) {
        match determinize(&relax(suffix, relaxation), end, BUDGET) {
            Determinized::MatchesEmpty => return None,
            Determinized::OverBudget => {}
            Determinized::Automaton(automaton) => {
                if let Some(window) = minimize(&automaton, state_max) {
                    return Some(window);
                }
            }
        }
    }
    None
}

/// Returns how an expression may be relaxed, from not at all to what surely suffices.
///
/// Most texts that a window denies differ from the expression near the beginning. So first the upper bounds of the last
/// ranges go, and only then the larger bounds everywhere.
fn relaxations(suffix: &Hir) -> impl Iterator<Item = Relaxation> {
    let (ranges, largest) = (count_ranges(suffix), largest_bound(suffix));
    let by_ranges = (ranges.saturating_sub(RANGES_MAX)..=ranges).rev();
    let by_bounds = BOUNDS.into_iter().filter(move |&bound| bound < largest);
    by_ranges
        .map(|ranges_kept| Relaxation { bound_max: u32::MAX, ranges_kept })
        .chain(by_bounds.map(|bound_max| Relaxation { bound_max, ranges_kept: usize::MAX }))
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

#[cfg(test)]
mod tests {
    use regex_automata::{Anchored, Input, meta, util::syntax};
    use regex_syntax::ParserBuilder;

    use super::*;
    use crate::catalog::tables::{WINDOW_MAYBE, WINDOW_NO, WINDOW_START};
    use crate::engine::oracle::FragmentRandom;

    /// Expressions, and whether their windows are exact: without look-arounds and with an end.
    const SUFFIXES: [(&str, bool); 14] = [
        ("key[a-z]{3}", true),
        ("key(?:[ab]{2,9}c|x{1,300}y)", true),
        (r"(?i)key[\w.-]{0,20}[=:]{1,3}[a-z0-9]{8,12}", true),
        ("k(?:e(?:y|a{2}){1,3}){2,5}x", true),
        ("(?:key|ke.{0,9}b|k)", true),
        (r"key\b[a-z]?=", false),
        (r"\bkey$", false),
        (r"key\B(?:a|\z)", false),
        ("key[^=]*=[ab]+", false),
        (r"(?s)key.*=", false),
        ("key[a-c]{600}=", false),
        (r"(?-u:key[\x80-\xff]{1,4}a)", true),
        (r"(?s)key.{0,40}[a-c]{9}", true),
        (r"(?s)key.{0,9}(?:ab|x).{0,9}[1-5]{4}=", true),
    ];

    const FRAGMENTS: [&str; 14] =
        ["key", "k", "e", "abc", "a", "aa", "bbb", "x", "xxy", "=", ":", ".", "\u{e9}", "12345678"];

    fn answer(window: &WindowAutomaton, end: WindowEnd, text: &[u8]) -> bool {
        let mut state = WINDOW_START;
        for &byte in text.iter().take(end.limit as usize) {
            let class = usize::from(window.classes[usize::from(byte)]);
            state = window.next[usize::from(state) * window.class_count + class];
            if state == WINDOW_NO || state == WINDOW_MAYBE {
                return state == WINDOW_MAYBE;
            }
        }
        text.len() < end.limit as usize || end.at_limit
    }

    #[test]
    fn a_window_never_denies_a_match() {
        let mut random = FragmentRandom(5);
        let (mut denied, mut matched) = (0, 0);
        for (suffix, exact) in SUFFIXES {
            let config = syntax::Config::new().unicode(false).utf8(false);
            let mut builder = meta::Builder::new();
            let regex = builder.syntax(config).configure(meta::Config::new().utf8_empty(false));
            let regex = regex.build(suffix).unwrap();
            let hir = ParserBuilder::new().unicode(false).utf8(false).build().parse(suffix).unwrap();
            let end = window_end(hir.properties().maximum_len().map(|len| len as u32));
            for state_max in [STATE_MAX, 40, 20, 10, 5] {
                let Some(window) = build_window(&hir, end, state_max) else { continue };
                assert!(window.state_count() <= state_max);
                for _ in 0..20 {
                    let len = random.below(400);
                    let text = random.text(&FRAGMENTS, len);
                    for at in 0..text.len() {
                        let input = Input::new(&text).range(at..).anchored(Anchored::Yes);
                        let is_match = regex.is_match(input);
                        let maybe = answer(&window, end, &text[at..]);
                        assert!(maybe || !is_match, "{suffix} at {at} of {:?}", text.escape_ascii());
                        let decided =
                            exact && state_max == STATE_MAX && text.len() - at >= end.limit as usize;
                        assert!(
                            !decided || is_match == maybe,
                            "{suffix} at {at} of {:?}",
                            text.escape_ascii()
                        );
                        denied += usize::from(!maybe);
                        matched += usize::from(is_match);
                    }
                }
            }
        }
        assert!(denied > 10_000 && matched > 500, "{denied} denied, {matched} matched");
    }

    #[test]
    fn a_long_suffix_is_not_denied_at_the_limit() {
        let hir = ParserBuilder::new().build().parse("ka{600}").unwrap();
        let end = window_end(Some(601));
        assert_eq!(end, WindowEnd { limit: 512, at_limit: true });
        let window = build_window(&hir, end, STATE_MAX).unwrap();
        assert!(answer(&window, end, &[b"k", [b'a'; 600].as_slice()].concat()));
        assert!(!answer(&window, end, &[b"k", [b'a'; 50].as_slice(), &[b'b'; 600]].concat()));
    }

    #[test]
    fn a_suffix_that_matches_at_once_has_no_window() {
        let end = WindowEnd { limit: 4, at_limit: false };
        assert_eq!(build_window(&Hir::empty(), end, STATE_MAX), None);
        let nothing = build_window(&Hir::fail(), end, STATE_MAX).unwrap();
        assert_eq!((nothing.state_count(), nothing.class_count), (3, 1));
        assert!(!answer(&nothing, end, b"aaaa"));
    }

    fn parse(text: &str) -> Hir {
        ParserBuilder::new().unicode(false).utf8(false).build().parse(text).unwrap()
    }

    #[test]
    fn a_gap_before_a_long_run_is_exact() {
        let end = WindowEnd { limit: 107, at_limit: false };
        let window = build_window(&parse("(?s)key.{0,40}[a-z]{64}"), end, STATE_MAX).unwrap();
        let text = |gap: usize, run: usize| {
            [b"key".as_slice(), &vec![b'.'; gap], &vec![b'a'; run], &[b'.'; 200]].concat()
        };
        for gap in 0..50 {
            assert_eq!(answer(&window, end, &text(gap, 64)), gap <= 40, "{gap}");
            assert!(!answer(&window, end, &text(gap, 63)), "{gap}");
        }
    }

    #[test]
    fn the_first_of_two_gaps_keeps_its_bounds() {
        let end = WindowEnd { limit: 107, at_limit: false };
        let gaps = "(?s)key.{0,32}(?:secret|private|access|token).{0,32}[a-f0-9]{36}";
        let window = build_window(&parse(gaps), end, STATE_MAX).unwrap();
        let steps = |text: &[u8]| (0..end.limit as usize).find(|&len| !answer(&window, end, &text[..len]));
        assert_eq!(steps(&[b"key".as_slice(), &[b'.'; 200]].concat()), Some(36));
    }

    #[test]
    fn an_expression_that_bursts_is_relaxed() {
        let end = WindowEnd { limit: 512, at_limit: true };
        let hir = parse(r"key[a-z]{0,300}(?:[a-f]{200}|[c-z]{3,150}q[a-m]{30})[0-9]{200}");
        let window = build_window(&hir, end, STATE_MAX).unwrap();
        assert!(window.state_count() <= STATE_MAX);
        assert!(!answer(&window, end, b"key="));
        // Too large even before it is made deterministic, and again after every relaxation but the last ones.
        let hir = parse(r"key(?:(?:[a-z]{0,90}x){90}y){900}");
        assert!(!answer(&build_window(&hir, end, STATE_MAX).unwrap(), end, b"ky"));
    }

    #[test]
    fn equal_windows_and_class_maps_are_stored_once() {
        let branch = |text: &str| FactorBranch {
            factor: Factor::Literals(vec![]),
            prefix_max: None,
            suffix_max: Some(9),
            suffix: regex_syntax::parse(text).unwrap(),
        };
        let list = [branch("ab{1,8}c"), branch("ab{1,8}c"), branch("(ab{1,8}c)"), branch("ab{2,7}c")];
        let tables = build_windows(&list.iter().collect::<Vec<_>>());
        assert_eq!(tables.windows[0], tables.windows[1]);
        assert_eq!(tables.windows[0], tables.windows[2]);
        assert_ne!(tables.windows[0].base, tables.windows[3].base);
        assert_eq!(tables.classes.len(), 256);
    }
}
