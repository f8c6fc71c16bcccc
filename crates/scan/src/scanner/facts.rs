//! What is known about each rule once it has been compiled, as it is kept beside a catalog in the cache.

use std::fmt::Write;

use crate::exact::search::MatchStarts;
use crate::rule::RuleSet;

/// What is known about a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum RuleFacts {
    /// It finds files by their path.
    PathOnly,
    /// Its expression can be searched for.
    Usable {
        /// The length of the longest match, or `None` if matches can be arbitrarily long.
        max_len: Option<u64>,
        /// Where matches begin.
        starts: MatchStarts,
    },
    /// Its expression cannot be compiled, for this reason.
    Rejected(String),
}

/// Returns the key under which the catalog of a set is kept: everything that it depends on.
pub(super) fn cache_key(set: &RuleSet) -> Vec<u8> {
    let mut key = format!("pelton-scan {} rules 2\n", env!("CARGO_PKG_VERSION")).into_bytes();
    for rule in &set.rules {
        let (mode, text) = rule.expression.as_ref().map_or(('p', ""), |expression| {
            (if expression.unicode() { 'u' } else { 'b' }, expression.text())
        });
        key.extend(format!("{mode}{}\n{text}\n", text.len()).bytes());
    }
    key
}

/// Writes facts, one line per rule.
pub(super) fn write_facts(facts: &[RuleFacts]) -> Vec<u8> {
    let mut text = String::new();
    let number = |number: Option<u64>| number.map_or("-".into(), |number| number.to_string());
    for fact in facts {
        let _ = match fact {
            RuleFacts::PathOnly => writeln!(text, "path"),
            RuleFacts::Rejected(reason) => writeln!(text, "rejected {}", reason.replace('\n', " ")),
            RuleFacts::Usable { max_len, starts: MatchStarts::Everywhere } => {
                writeln!(text, "everywhere {}", number(*max_len))
            }
            RuleFacts::Usable { max_len, starts: MatchStarts::NearCandidates { prefix_max } } => {
                writeln!(text, "near {} {}", number(*max_len), number(*prefix_max))
            }
        };
    }
    text.into_bytes()
}

/// Reads what [`write_facts`] wrote, or returns `None` if it is something else.
pub(super) fn read_facts(bytes: &[u8]) -> Option<Vec<RuleFacts>> {
    let number = |word: &str| if word == "-" { Some(None) } else { word.parse().ok().map(Some) };
    let fact = |line: &str| {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        Some(match kind {
            "path" => RuleFacts::PathOnly,
            "rejected" => RuleFacts::Rejected(rest.into()),
            "everywhere" => RuleFacts::Usable { max_len: number(rest)?, starts: MatchStarts::Everywhere },
            "near" => {
                let (max_len, prefix_max) = rest.split_once(' ')?;
                let starts = MatchStarts::NearCandidates { prefix_max: number(prefix_max)? };
                RuleFacts::Usable { max_len: number(max_len)?, starts }
            }
            _ => return None,
        })
    };
    std::str::from_utf8(bytes).ok()?.lines().map(fact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_they_were_written() {
        let facts = vec![
            RuleFacts::PathOnly,
            RuleFacts::Rejected("it is too large".into()),
            RuleFacts::Usable { max_len: None, starts: MatchStarts::Everywhere },
            RuleFacts::Usable { max_len: Some(40), starts: MatchStarts::NearCandidates { prefix_max: None } },
            RuleFacts::Usable { max_len: None, starts: MatchStarts::NearCandidates { prefix_max: Some(3) } },
        ];
        assert_eq!(read_facts(&write_facts(&facts)), Some(facts));
        assert_eq!(read_facts(b"nonsense\n"), None);
        assert_eq!(read_facts(b"near 1\n"), None);
    }
}
