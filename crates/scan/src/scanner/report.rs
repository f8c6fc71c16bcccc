//! Makes findings of matches: secret, filters, lines.

use std::ops::ControlFlow;
use std::path::Path;

use memchr::{memchr, memrchr};
use rustc_hash::FxHashMap;

use super::Scanner;
use super::lines::{LineCursor, LinePosition};
use crate::filter::{FilterView, entropy, secret_of};
use crate::finding::{Finding, Match};

/// A match with the text around it.
pub(super) struct MatchInText<'t> {
    /// The match: the rule, where it begins and where it ends.
    pub(super) found: Match,
    /// A stretch of the input that contains the match, or at least its beginning.
    pub(super) text: &'t [u8],
    /// The position of the stretch in the input.
    pub(super) base: u64,
    /// Where the match begins.
    pub(super) position: LinePosition,
    /// The line in which the match ends.
    pub(super) end_line: u64,
}

impl Scanner {
    /// Returns the findings of rules that find files by their path.
    pub(super) fn path_findings(&self, path: &Path) -> Vec<Finding> {
        let finds = |rule: &usize| self.searches[*rule].is_none() && self.filters.searches(*rule, path);
        let finding = |rule| Finding {
            found: Match { rule: rule as u32, start: 0, end: 0 },
            line: 1,
            column: 1,
            end_line: 1,
            text: vec![],
            secret: 0..0,
            entropy: 0.0,
            context: vec![],
            context_start: 0,
        };
        (0..self.searches.len()).filter(finds).map(finding).collect()
    }

    /// Calls a function for each finding among the matches in a text that is in memory as a whole. Matches are sorted by
    /// their start.
    pub(super) fn report_whole(
        &self,
        path: &Path,
        text: &[u8],
        matches: &[Match],
        visit: &mut dyn FnMut(Finding) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut cursor = LineCursor::default();
        let mut has_keyword = FxHashMap::default();
        for &found in matches {
            let position = cursor.locate(text, found.start as usize);
            let last = found.start.max(found.end.saturating_sub(1));
            let end_line = cursor.clone().locate(text, last as usize).line;
            let Some(finding) =
                self.make_finding(path, &MatchInText { found, text, base: 0, position, end_line })
            else {
                continue;
            };
            let rule = found.rule as usize;
            if *has_keyword.entry(rule).or_insert_with(|| self.filters.has_keyword(rule, text)) {
                visit(finding)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Makes a finding of a match, unless a filter drops it.
    pub(super) fn make_finding(&self, path: &Path, place: &MatchInText<'_>) -> Option<Finding> {
        let found = place.found;
        let start = (found.start - place.base) as usize;
        let whole_end = (found.end - place.base) as usize;
        let secret = self.secret(found.rule, place.text, start, whole_end);
        let shown_end = whole_end.min(place.text.len()).min(start + Finding::TEXT_MAX);
        let (context_from, context_to) = context(place.text, start, shown_end);
        let view = FilterView {
            path,
            matched: &place.text[start..shown_end],
            secret: &place.text[secret.start.min(shown_end)..secret.end.min(shown_end)],
            lines: &place.text[context_from..context_to],
        };
        if self.filters.drop_reason(found.rule as usize, view).is_some() {
            return None;
        }
        Some(Finding {
            found,
            line: place.position.line,
            column: place.position.column,
            end_line: place.end_line,
            text: view.matched.to_vec(),
            secret: secret.start.min(shown_end) - start..secret.end.min(shown_end) - start,
            entropy: entropy(view.secret),
            context: view.lines.to_vec(),
            context_start: start - context_from,
        })
    }

    /// Returns which bytes of a text are the secret of a match.
    fn secret(&self, rule: u32, text: &[u8], start: usize, end: usize) -> std::ops::Range<usize> {
        match &self.searches[rule as usize] {
            // The best match from `start` on ends at `end`, so it is also the best of those that end by then.
            Some(search) if end <= text.len() => {
                let groups = search.matcher.groups(text, start, end);
                let groups: Vec<_> =
                    groups.into_iter().map(|group| group.map(|(start, end)| start..end)).collect();
                match groups.first() {
                    Some(Some(_)) => secret_of(self.rules.rules[rule as usize].secret_group, &groups),
                    _ => start..end,
                }
            }
            _ => start..end,
        }
    }
}

/// Returns the bounds of the lines that a stretch lies in, cut off far from it.
fn context(text: &[u8], start: usize, end: usize) -> (usize, usize) {
    let earliest = start.saturating_sub(Finding::CONTEXT_MAX);
    let from = memrchr(b'\n', &text[earliest..start]).map_or(earliest, |at| earliest + at + 1);
    // A match that ends with a line break ends in the line before it.
    let last = if end > start && text[end - 1] == b'\n' { end - 1 } else { end };
    let latest = text.len().min(end + Finding::CONTEXT_MAX);
    let to = memchr(b'\n', &text[last..latest]).map_or(latest, |at| last + at);
    (from, to.max(end))
}
