//! SampleRandom expressions over few characters, so that literals, prefixes and matches overlap in every way.

use std::fmt::Write;

use pelton_scan::sample_rules::SampleRandom;

/// Returns a random expression.
pub(crate) fn expression(random: &mut SampleRandom) -> String {
    let flags = random.pick(&["", "", "", "(?i)", "(?s)", "(?m)", "(?is)"]);
    let mut text = flags.to_string();
    sequence(random, 3, &mut text);
    text
}

fn sequence(random: &mut SampleRandom, depth: usize, text: &mut String) {
    for _ in 0..1 + random.below(4) {
        element(random, depth, text);
    }
}

fn element(random: &mut SampleRandom, depth: usize, text: &mut String) {
    match random.below(if depth == 0 { 6 } else { 10 }) {
        0..=2 => {
            text.push_str(random.pick::<&str>(&["ab", "key", "aba", "K", "x=", "token", "kk", "0a", "aab"]))
        }
        3 => text.push_str(
            random.pick::<&str>(&["[ab]", r"\w", "[^a]", ".", "[a-f0-9]", r"\s", "[kK0]", "[^\n]"]),
        ),
        4 => repeated_class(random, text),
        5 => text.push_str(random.pick::<&str>(&[r"\b", "$", "^", r"\B", "", r"\z", "a"])),
        6 | 7 => {
            text.push_str("(?:");
            for number in 0..1 + random.below(3) {
                if number > 0 {
                    text.push('|');
                }
                sequence(random, depth - 1, text);
            }
            text.push(')');
        }
        _ => {
            text.push_str("(?:");
            sequence(random, depth - 1, text);
            text.push(')');
            text.push_str(random.pick::<&str>(&["?", "*", "+", "{2}", "{1,3}", "{0,2}?", "*?", "+?", "??"]));
        }
    }
}

fn repeated_class(random: &mut SampleRandom, text: &mut String) {
    text.push_str(random.pick::<&str>(&["[ab]", "[a-f0-9]", r"\w", "[^k]"]));
    let min = random.below(12);
    let _ = match random.below(3) {
        0 => write!(text, "{{{min}}}"),
        1 => write!(text, "{{{min},{}}}", min + random.below(9)),
        _ => write!(text, "{{{min},}}"),
    };
}
