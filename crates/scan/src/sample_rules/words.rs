//! The words that generated rules search for.

use std::collections::BTreeSet;

use super::random::SampleRandom;

/// Words that are common in source code, more common ones first. Their frequencies are what makes generated rules as
/// costly as real ones, in which names of services are such words too.
const COMMON_WORDS: [&str; 48] = [
    "secret",
    "access",
    "token",
    "linear",
    "square",
    "credential",
    "passw",
    "global",
    "vault",
    "drone",
    "beacon",
    "signal",
    "client",
    "branch",
    "bucket",
    "stack",
    "mail",
    "page",
    "chat",
    "cloud",
    "sense",
    "pipe",
    "share",
    "work",
    "graph",
    "form",
    "data",
    "code",
    "time",
    "user",
    "list",
    "file",
    "test",
    "name",
    "type",
    "line",
    "text",
    "call",
    "port",
    "node",
    "path",
    "link",
    "post",
    "view",
    "base",
    "box",
    "app",
    "map",
];

/// The first parts of invented names.
const BEGINNINGS: [&str; 24] = [
    "ak", "bro", "cal", "dex", "el", "fin", "gry", "hal", "ix", "jor", "kel", "lum", "mer", "nov", "or",
    "pra", "quin", "ras", "sol", "tav", "ul", "ver", "wex", "zan",
];

/// The middle parts of invented names.
const MIDDLES: [&str; 16] =
    ["a", "bi", "co", "du", "ebra", "fo", "gi", "hu", "iri", "jo", "ka", "lo", "mi", "nu", "ope", "ru"];

/// The last parts of invented names.
const ENDINGS: [&str; 16] = [
    "bly", "cast", "dex", "flux", "gate", "hub", "ify", "kit", "lytic", "mint", "nest", "pay", "quo", "ry",
    "sync", "vox",
];

/// Yields words, each once: now and then a common one, as long as there are any.
pub(super) struct ServiceWords {
    common: std::slice::Iter<'static, &'static str>,
    taken: usize,
    random: SampleRandom,
    known: BTreeSet<String>,
}

impl ServiceWords {
    /// Begins with the first word.
    pub(super) fn new() -> ServiceWords {
        ServiceWords {
            common: COMMON_WORDS.iter(),
            taken: 0,
            random: SampleRandom::new(7),
            known: BTreeSet::new(),
        }
    }

    /// Returns the next word, every twelfth time a common one.
    pub(super) fn next_word(&mut self) -> String {
        self.taken += 1;
        let common = if self.taken.is_multiple_of(12) { self.common.next() } else { None };
        common.map_or_else(|| self.invented(), |word| word.to_string())
    }

    /// Returns the next invented name.
    pub(super) fn invented(&mut self) -> String {
        loop {
            let mut name = self.random.pick::<&str>(&BEGINNINGS).to_string();
            name.push_str(self.random.pick::<&str>(&MIDDLES));
            // There are about 6,000 names of three parts, so large sets need more.
            for _ in 0..self.known.len() / 2000 {
                name.push_str(self.random.pick::<&str>(&MIDDLES));
            }
            name.push_str(self.random.pick::<&str>(&ENDINGS));
            if self.known.insert(name.clone()) {
                return name;
            }
        }
    }
}
