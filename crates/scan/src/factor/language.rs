//! The strings that a small part of an expression can match, if they are few.

use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

use super::Symbol;

/// The largest number of strings in a language.
pub(super) const STRINGS_MAX: usize = 128;
/// The largest number of symbols in a string of a language.
const STRING_LEN_MAX: usize = 64;
/// The largest number of characters of a class that are told apart.
const CLASS_MAX: usize = 16;

/// A finite set of strings, in which both cases of an ASCII letter can be one symbol.
pub(super) type Language = Vec<Vec<Symbol>>;

impl Symbol {
    /// The symbol that agrees with one byte only.
    pub const fn exact(byte: u8) -> Symbol {
        Symbol { value: byte, mask: 0xff }
    }

    /// Returns the byte in lower case, which stands for the symbol where cases are not told apart.
    pub const fn folded(self) -> u8 {
        self.value.to_ascii_lowercase()
    }

    /// Returns whether a byte agrees with the symbol.
    pub const fn agrees(self, byte: u8) -> bool {
        byte & self.mask == self.value
    }
}

/// Returns the language of an expression, with look-arounds taken to hold everywhere, or `None` if it is infinite or
/// too large. Captures must have been removed.
pub(super) fn language(hir: &Hir) -> Option<Language> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(vec![vec![]]),
        HirKind::Literal(literal) => Some(vec![literal.0.iter().map(|&byte| Symbol::exact(byte)).collect()]),
        HirKind::Class(class) => class_language(class),
        HirKind::Capture(capture) => language(&capture.sub),
        HirKind::Concat(parts) => {
            parts.iter().try_fold(vec![vec![]], |so_far, part| product(&so_far, &language(part)?))
        }
        HirKind::Alternation(choices) => {
            let mut all = vec![];
            for choice in choices {
                all.extend(language(choice)?);
            }
            distinct(all)
        }
        HirKind::Repetition(repetition) => repetition_language(repetition),
    }
}

/// Returns every string of `heads` followed by every string of `tails`, or `None` if these are too many.
pub(super) fn product(heads: &Language, tails: &Language) -> Option<Language> {
    if heads.len() * tails.len() > STRINGS_MAX {
        return None;
    }
    let strings = heads.iter().flat_map(|head| tails.iter().map(move |tail| [&head[..], tail].concat()));
    distinct(strings.collect())
}

/// Removes what occurs twice; returns `None` if the language is too large.
fn distinct(mut strings: Language) -> Option<Language> {
    strings.sort();
    strings.dedup();
    let fits = strings.len() <= STRINGS_MAX && strings.iter().all(|string| string.len() <= STRING_LEN_MAX);
    fits.then_some(strings)
}

/// Returns the characters of a class as strings; an ASCII letter that is there in both cases is one symbol.
fn class_language(class: &Class) -> Option<Language> {
    let characters: Vec<Vec<u8>> = match class {
        Class::Bytes(class) => {
            let count: usize = class.iter().map(|range| range.len()).sum();
            if count > 2 * CLASS_MAX {
                return None;
            }
            class.iter().flat_map(|range| range.start()..=range.end()).map(|byte| vec![byte]).collect()
        }
        Class::Unicode(class) => {
            let count: usize = class.iter().map(|range| range.len()).sum();
            if count > 2 * CLASS_MAX {
                return None;
            }
            let characters = class.iter().flat_map(|range| range.start()..=range.end());
            characters.map(|character| character.to_string().into_bytes()).collect()
        }
    };
    let other_case = |byte: u8| {
        if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() }
    };
    let strings: Language = characters
        .iter()
        .map(|bytes| match bytes[..] {
            [byte] if byte.is_ascii_alphabetic() && characters.contains(&vec![other_case(byte)]) => {
                vec![Symbol { value: byte.to_ascii_uppercase(), mask: 0xdf }]
            }
            _ => bytes.iter().map(|&byte| Symbol::exact(byte)).collect(),
        })
        .collect();
    distinct(strings).filter(|strings| strings.len() <= CLASS_MAX)
}

/// Returns the language of a repetition with an upper limit.
fn repetition_language(repetition: &Repetition) -> Option<Language> {
    let max = repetition.max.filter(|&max| max as usize <= STRING_LEN_MAX)?;
    let once = language(&repetition.sub)?;
    let mut power = copies(&once, repetition.min)?;
    let mut all = power.clone();
    for _ in repetition.min..max {
        power = product(&power, &once)?;
        all.extend(power.iter().cloned());
        if all.len() > 4 * STRINGS_MAX {
            return None;
        }
    }
    distinct(all)
}

/// Returns every sequence of `count` strings of a language.
pub(super) fn copies(once: &Language, count: u32) -> Option<Language> {
    (0..count).try_fold(vec![vec![]], |so_far, _| product(&so_far, once))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Expression;

    fn strings(text: &str) -> Option<Vec<String>> {
        let shown = |symbol: &Symbol| {
            if symbol.mask == 0xdf {
                format!("({})", symbol.value as char)
            } else {
                (symbol.value as char).to_string()
            }
        };
        let mut all: Vec<String> = language(&Expression::parse(text).unwrap().hir())?
            .iter()
            .map(|string| string.iter().map(shown).collect())
            .collect();
        all.sort();
        Some(all)
    }

    #[test]
    fn finite_expressions_have_a_language() {
        assert_eq!(strings("a(?:bc|d)?").unwrap(), ["a", "abc", "ad"]);
        assert_eq!(strings("gh[pou]_").unwrap(), ["gho_", "ghp_", "ghu_"]);
        assert_eq!(strings("x{2,3}").unwrap(), ["xx", "xxx"]);
        assert_eq!(strings("(?i)k1").unwrap(), ["(K)1"]);
        assert_eq!(strings(r"\bab$").unwrap(), ["ab"]);
    }

    #[test]
    fn what_is_infinite_or_large_has_none() {
        assert_eq!(strings("a*"), None);
        assert_eq!(strings("[a-z]"), None);
        assert_eq!(strings("[ab]{8}"), None);
        assert_eq!(strings("(?:a{60}){60}"), None);
    }

    #[test]
    fn unicode_folding_is_not_only_ascii() {
        let kelvin = language(&Expression::parse(r"(?i)k\p{Greek}?").unwrap().hir());
        assert_eq!(kelvin, None);
        let kelvin = language(&regex_syntax::ParserBuilder::new().build().parse("(?i)k").unwrap()).unwrap();
        assert_eq!(kelvin.len(), 2);
        assert!(kelvin.contains(&"\u{212a}".bytes().map(Symbol::exact).collect()));
    }
}
