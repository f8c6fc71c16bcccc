//! Generated text that resembles source code, for machines without any.

use pelton_scan::sample_rules::SampleRandom;

/// Words of source code, more frequent ones first.
const WORDS: [&str; 96] = [
    "self",
    "let",
    "the",
    "pub",
    "fn",
    "str",
    "impl",
    "mut",
    "use",
    "type",
    "for",
    "if",
    "is",
    "to",
    "of",
    "value",
    "as",
    "and",
    "len",
    "in",
    "name",
    "Some",
    "crate",
    "match",
    "test",
    "new",
    "data",
    "mod",
    "struct",
    "None",
    "a",
    "Self",
    "from",
    "not",
    "this",
    "with",
    "Result",
    "Option",
    "String",
    "file",
    "error",
    "index",
    "assert_eq",
    "unsafe",
    "Ok",
    "return",
    "where",
    "usize",
    "u8",
    "be",
    "cfg",
    "list",
    "default",
    "key",
    "into",
    "path",
    "state",
    "size",
    "feature",
    "code",
    "map",
    "const",
    "text",
    "line",
    "else",
    "iter",
    "Vec",
    "get",
    "std",
    "token",
    "node",
    "user",
    "buffer",
    "time",
    "read",
    "write",
    "Error",
    "inner",
    "derive",
    "doc",
    "it",
    "span",
    "context",
    "global",
    "client",
    "access",
    "config",
    "session",
    "thread",
    "handle",
    "linear",
    "auth",
    "secret",
    "stack",
    "cloud",
    "branch",
];

/// What stands between words, more frequent ones first.
const SEPARATORS: [&str; 16] =
    [" ", "_", ".", "(", "::", ", ", "\n    ", ": ", "()", " = ", ";\n", ")", " {\n", "\"", "<", "-> "];

/// Returns text of about `len` bytes.
pub(super) fn generated_source(len: usize, random: &mut SampleRandom) -> Vec<u8> {
    let mut text = Vec::with_capacity(len + 32);
    while text.len() < len {
        text.extend_from_slice(frequent_first(&WORDS, random).as_bytes());
        if random.below(12) == 0 {
            text.extend_from_slice(random.characters("0123456789abcdef", 4).as_bytes());
        }
        text.extend_from_slice(frequent_first(&SEPARATORS, random).as_bytes());
    }
    text.push(b'\n');
    text
}

/// Picks an item; the chance of the n-th is about proportional to 1/n, as it is with words.
fn frequent_first<'i>(items: &[&'i str], random: &mut SampleRandom) -> &'i str {
    let uniform = random.below(1 << 20) as f64 / f64::from(1 << 20);
    let place = ((items.len() + 1) as f64).powf(uniform) - 1.0;
    items[(place as usize).min(items.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_words_come_first() {
        let text = generated_source(200_000, &mut SampleRandom::new(1));
        let count = |word: &str| text.windows(word.len()).filter(|window| *window == word.as_bytes()).count();
        assert!(
            count("self") > 5 * count("handle") && count("handle") > 10,
            "{} {}",
            count("self"),
            count("handle")
        );
        assert!(text.len() >= 200_000 && text.len() < 200_100);
    }
}
