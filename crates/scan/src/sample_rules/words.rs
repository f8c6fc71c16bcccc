//! The words that generated rules search for.

use std::collections::BTreeSet;

use super::random::SampleRandom;

/// Words that are common in source code, the most common ones last. Their frequencies are what makes generated rules as
/// costly as real ones, in which names of services are such words too.
const COMMON_WORDS: [&str; 58] = [
    "graph",
    "list",
    "stack",
    "base",
    "global",
    "messag",
    "work",
    "box",
    "page",
    "share",
    "bucket",
    "auth",
    "pipe",
    "frame",
    "signal",
    "launch",
    "client",
    "fast",
    "branch",
    "beacon",
    "linear",
    "square",
    "mail",
    "cloud",
    "vault",
    "sense",
    "drone",
    "chat",
    "easy",
    "post",
    "view",
    "credential",
    "link",
    "port",
    "access",
    "user",
    "api",
    "text",
    "app",
    "node",
    "token",
    "code",
    "path",
    "call",
    "map",
    "key",
    "file",
    "age",
    "data",
    "line",
    "test",
    "form",
    "time",
    "name",
    "ext",
    "doc",
    "mon",
    "type",
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

/// Yields words, each once: every so often a common one, as long as there are any.
pub(super) struct ServiceWords {
    common: std::slice::Iter<'static, &'static str>,
    period: usize,
    taken: usize,
    random: SampleRandom,
    known: BTreeSet<String>,
}

impl ServiceWords {
    /// Begins with the first word. Every `period`-th one is a common one.
    pub(super) fn new(period: usize) -> ServiceWords {
        ServiceWords {
            common: COMMON_WORDS.iter(),
            period,
            taken: 0,
            random: SampleRandom::new(7),
            known: BTreeSet::new(),
        }
    }

    /// Returns the next word, now and then a common one.
    pub(super) fn next_word(&mut self) -> String {
        self.taken += 1;
        let common = if self.taken.is_multiple_of(self.period) { self.common.next() } else { None };
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
