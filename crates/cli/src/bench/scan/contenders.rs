//! Everything that is measured for one set of rules.

use pelton_scan::Scanner;
use regex::bytes::Regex;

use super::cases::{ScanCase, Who};
use super::found::FoundSummary;
use super::hyperscan::{self, HyperscanPeer};
use super::ours::{ReadyScan, ScanTurn};
use super::peers::{LiteralPeer, SetPeer, compile_oracle, count_literal_ends};
use super::ripgrep::{self, RipgrepPeer};
use super::scratch::ScratchText;
use super::text::BenchText;
use crate::error::CliError;
use crate::term::Term;

/// How much of the text peers scan that are too slow for all of it, in bytes.
#[derive(Clone, Copy)]
pub(super) struct PeerSlices {
    /// For the set of the `regex` crate.
    pub regex_set: usize,
    /// For `aho-corasick` and `regex`.
    pub literals_and_regex: usize,
    /// For ripgrep.
    pub ripgrep: usize,
}

/// The contenders for one set of rules. Peers that no case needs, or that are not installed, are absent.
pub(super) struct Contenders<'t> {
    text: &'t BenchText,
    scratch: &'t ScratchText,
    slices: PeerSlices,
    ready: ReadyScan,
    regexes: Vec<Regex>,
    literals: Option<LiteralPeer>,
    regex_set: Option<SetPeer>,
    hyperscan: Option<HyperscanPeer>,
    ripgrep: Option<RipgrepPeer>,
    literal_ends: u64,
    /// How often someone was measured. It decides which slices slow peers get, so that they do not profit from what
    /// they have cached for the same text.
    turn: usize,
}

impl<'t> Contenders<'t> {
    /// Compiles the rules for everyone whom the cases need, and finds out what is there to be found.
    pub(super) fn new(
        scanner: Scanner,
        cases: &[&ScanCase],
        slices: PeerSlices,
        text: &'t BenchText,
        scratch: &'t ScratchText,
    ) -> Result<Contenders<'t>, CliError> {
        let needs = |who: Who| cases.iter().any(|case| case.who == who);
        let is_oracle =
            |case: &&ScanCase| matches!(case.who, Who::Hyperscan | Who::LiteralsAndRegex | Who::RegexSet);
        let regexes = if cases.iter().any(is_oracle) { compile_oracle(&scanner)? } else { Vec::new() };
        let has_literals = needs(Who::Literals) || needs(Who::LiteralsAndRegex);
        let has_hyperscan = needs(Who::Hyperscan) && hyperscan::is_installed();
        let has_ripgrep = needs(Who::Ripgrep) && ripgrep::is_installed();
        let literals = has_literals.then(|| LiteralPeer::new(&scanner)).transpose()?;
        let regex_set = needs(Who::RegexSet).then(|| SetPeer::new(&scanner)).transpose()?;
        let hyperscan = has_hyperscan.then(|| HyperscanPeer::start(&scanner, text, scratch)).transpose()?;
        let ripgrep = has_ripgrep.then(|| RipgrepPeer::new(&scanner, scratch)).transpose()?;
        let literal_ends = count_literal_ends(&scanner, &text.bytes);
        let piece_len = scanner.engine().piece_len();
        let ready = ReadyScan::new(scanner, text, piece_len)?;
        Ok(Contenders {
            text,
            scratch,
            slices,
            ready,
            regexes,
            literals,
            regex_set,
            hyperscan,
            ripgrep,
            literal_ends,
            turn: 0,
        })
    }

    /// Whether a contender can be measured.
    pub(super) fn has(&self, who: Who) -> bool {
        match who {
            Who::Hyperscan => self.hyperscan.is_some(),
            Who::Ripgrep => self.ripgrep.is_some(),
            _ => true,
        }
    }

    /// The number of literals, candidates and matches in the text, with what they are called.
    pub(super) fn counts(&self) -> [(&'static str, u64); 3] {
        let found = self.ready.found_in_files().count;
        [
            ("literal hits", self.literal_ends),
            ("candidates", self.ready.candidates().count),
            ("findings", found),
        ]
    }

    /// Hyperscan, if it is there.
    pub(super) fn hyperscan(&self) -> Option<&HyperscanPeer> {
        self.hyperscan.as_ref()
    }

    /// Says how the engine and the peers work.
    pub(super) fn describe(&self, set: &str, term: &Term) {
        let catalog = self.ready.scanner.catalog();
        let states: u32 = catalog.factors().iter().map(|table| table.state_count).sum();
        term.note(format_args!(
            "{set}: {} rules, {states} states of literals, {} kB of windows, {}",
            self.ready.scanner.rules().rules.len(),
            catalog.windows().next.len() * 2 / 1000,
            self.ready.scanner.engine().describe()
        ));
        if let Some(peer) = &self.hyperscan {
            term.note(format_args!("{set}: {}", peer.describe()));
        }
    }

    /// Measures a contender, and checks what it found.
    pub(super) fn measure(&mut self, who: Who) -> Result<ScanTurn, CliError> {
        self.turn += 1;
        let ready = &self.ready;
        let (turn, wanted) = match who {
            Who::Literals => {
                (self.literal_peer()?.find_literals(self.text), FoundSummary::count_only(self.literal_ends))
            }
            Who::Candidates => (ready.find_candidates(1)?, ready.candidates()),
            Who::Memory(threads) => (ready.scan_memory(threads.count())?, ready.found_in_files()),
            Who::LargeFile(threads) => {
                (ready.scan_large_file(self.scratch, threads.count())?, ready.found_joined())
            }
            Who::Tree(threads) => (ready.scan_tree(self.scratch, threads.count())?, ready.found_in_files()),
            Who::Hyperscan => {
                let peer = self.hyperscan.as_mut().ok_or_else(absent)?;
                (peer.scan(&self.regexes, self.text)?, ready.found_in_files())
            }
            Who::LiteralsAndRegex => {
                let files = self.text.slice(self.slices.literals_and_regex, self.turn);
                let turn = self.literal_peer()?.scan(&self.regexes, self.text, files.clone());
                (turn, ready.found_in(&files))
            }
            Who::RegexSet => {
                let files = self.text.slice(self.slices.regex_set, self.turn);
                let peer = self.regex_set.as_ref().ok_or_else(absent)?;
                (peer.scan(&self.regexes, self.text, files.clone()), ready.found_in(&files))
            }
            Who::Ripgrep => return self.measure_ripgrep(),
        };
        turn.found.same_as(&wanted, &format!("{who:?}"), "the scan in memory on one thread")?;
        Ok(turn)
    }

    fn literal_peer(&self) -> Result<&LiteralPeer, CliError> {
        self.literals.as_ref().ok_or_else(absent)
    }

    /// Measures ripgrep, which must find something in every file in which we do. It takes `$` for the end of a line,
    /// so it may find more.
    fn measure_ripgrep(&self) -> Result<ScanTurn, CliError> {
        let files = self.text.slice(self.slices.ripgrep, self.turn);
        let peer = self.ripgrep.as_ref().ok_or_else(absent)?;
        let paths = self.scratch.tree_files();
        let (seconds, hits) = peer.scan(&paths[files.clone()])?;
        let mut ours = self.ready.files_with_matches().filter(|file| files.contains(file));
        if let Some(missed) = ours.find(|file| !hits.contains(&paths[*file])) {
            let name = self.text.files[missed].name.display();
            return Err(CliError::Wrong(format!("ripgrep finds nothing in {name}, where we find something")));
        }
        let bytes = self.text.bytes_of(files);
        Ok(ScanTurn { seconds, bytes, found: FoundSummary::count_only(hits.len() as u64) })
    }
}

fn absent() -> CliError {
    CliError::Wrong("a peer that is measured was not prepared".into())
}
