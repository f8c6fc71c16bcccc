//! Changes texts so that they are almost right.

use crate::choose::Choose;

/// Words to insert anywhere, and numbers at the edges of what the language can spell.
const WORDS: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "%",
    "@",
    "^",
    ",",
    ":",
    "=",
    "->",
    ";",
    "\n",
    "yield",
    "break",
    "continue",
    "return",
    "if",
    "else",
    "loop",
    "while",
    "do",
    "forever",
    "with",
    "to",
    "step",
    "switch",
    "case",
    "default",
    "block",
    "call",
    "barrier",
    "load",
    "store",
    "atomic_add",
    "relaxed",
    "seq_cst",
    "group",
    "system",
    "buffer",
    "fn",
    "kernel",
    "need",
    "u32",
    "bool",
    "f32",
    "u64",
    "true",
    "nan",
    "nan:0x7f800001",
    "-inf",
    "1e999",
    "0xffffffffffffffff",
    "-0.0",
    "4294967296",
    "18446744073709551616",
    "-2147483649i32",
    "0x",
    "1_0",
    "%0",
    "@0",
    "^0",
    "%x",
    "?",
    "\u{e9}",
    "\0",
];

/// Changes a text in one to three places.
pub fn mutate(choose: &mut dyn Choose, text: &mut Vec<u8>) {
    for _ in 0..1 + choose.below(3) {
        mutate_once(choose, text);
    }
}

fn mutate_once(choose: &mut dyn Choose, text: &mut Vec<u8>) {
    let word = word_at_random(choose, text);
    match choose.below(8) {
        0 => drop(text.drain(word)),
        1 => {
            let copy = text[word.clone()].to_vec();
            text.splice(word.end..word.end, [b" ", &copy[..]].concat());
        }
        2 => text.truncate(word.start),
        3 => {
            if let Some(byte) = text.get_mut(word.start) {
                *byte ^= 1 << choose.below(8);
            }
        }
        4 => drop(text.splice(word, choose.pick(WORDS).bytes())),
        5 => drop(text.splice(word.start..word.start, format!(" {} ", choose.pick(WORDS)).into_bytes())),
        6 => {
            let copy = text[word_at_random(choose, text)].to_vec();
            text.splice(word, copy);
        }
        _ => {
            let line = line_around(text, word.start);
            let copy = text[line.clone()].to_vec();
            let other = line_around(text, choose.below(text.len() + 1));
            text.splice(other.start..other.start, copy);
        }
    }
}

/// The range of a randomly chosen word, or of a single character outside words.
fn word_at_random(choose: &mut dyn Choose, text: &[u8]) -> std::ops::Range<usize> {
    let at = choose.below(text.len());
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.%@^-".contains(byte);
    let start = at - text[..at].iter().rev().take_while(|byte| part(byte)).count();
    let end = at + text[at..].iter().take_while(|byte| part(byte)).count();
    start..end.max(at + 1).min(text.len())
}

/// The range of the line around a place, including its end.
fn line_around(text: &[u8], at: usize) -> std::ops::Range<usize> {
    let start = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |k| k + 1);
    let end = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |k| at + k + 1);
    start..end
}
