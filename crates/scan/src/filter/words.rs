//! Words that are looked up in bytes, in upper or lower case.

use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use memchr::memmem;

/// Finds whether bytes contain one of some words, where both cases of an ASCII letter are equal.
///
/// The automaton is built at the first search, because most rules of a large set never match anything.
#[derive(Debug, Default)]
pub(super) struct WordFinder {
    words: Vec<String>,
    automaton: OnceLock<Option<AhoCorasick>>,
}

impl WordFinder {
    /// Makes a finder. Empty words are left out, since they are contained in everything.
    pub(super) fn new(words: &[String]) -> WordFinder {
        let words = words.iter().filter(|word| !word.is_empty()).map(|word| word.to_lowercase()).collect();
        WordFinder { words, automaton: OnceLock::new() }
    }

    /// Returns whether there are no words.
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the length of the longest word, in bytes.
    pub(super) fn longest(&self) -> usize {
        self.words.iter().map(String::len).max().unwrap_or(0)
    }

    /// Returns whether `text` contains one of the words.
    pub(super) fn is_in(&self, text: &[u8]) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let build = || AhoCorasick::builder().ascii_case_insensitive(true).build(&self.words).ok();
        match self.automaton.get_or_init(build) {
            Some(automaton) => automaton.is_match(text),
            // The words are too many or too long for one automaton, so they are searched for one after the other.
            None => {
                let lower = text.to_ascii_lowercase();
                self.words.iter().any(|word| memmem::find(&lower, word.as_bytes()).is_some())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finder(words: &[&str]) -> WordFinder {
        WordFinder::new(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_found_in_any_case_and_anywhere() {
        let words = finder(&["ExAmple", "key"]);
        assert!(words.is_in(b"an eXAMPLE of it"));
        assert!(words.is_in(b"\xffmonKEYs"));
        assert!(!words.is_in(b"exampl ke y"));
        assert_eq!(words.longest(), 7);
    }

    #[test]
    fn no_words_are_in_nothing_and_empty_words_do_not_count() {
        assert!(!finder(&[]).is_in(b"abc"));
        assert!(finder(&[""]).is_empty());
        assert!(!finder(&[""]).is_in(b""));
    }
}
