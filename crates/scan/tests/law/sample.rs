//! Texts in which a rule matches, or nearly does. SampleRandom text almost never matches and would prove nothing.

use pelton_scan::Expression;
use pelton_scan::sample_rules::SampleRandom;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Appends a text that the expression matches, apart from its look-arounds.
pub(crate) fn sample(hir: &Hir, random: &mut SampleRandom, text: &mut Vec<u8>) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.extend_from_slice(&literal.0),
        HirKind::Class(Class::Bytes(class)) => {
            let ranges: Vec<_> = class.iter().collect();
            if let Some(range) = ranges.get(random.below(ranges.len())) {
                let width = usize::from(range.end() - range.start()) + 1;
                text.push(range.start() + random.below(width) as u8);
            }
        }
        HirKind::Class(Class::Unicode(class)) => {
            let ranges: Vec<_> = class.iter().collect();
            if let Some(range) = ranges.get(random.below(ranges.len())) {
                let width = range.end() as usize - range.start() as usize + 1;
                let character = char::from_u32(range.start() as u32 + random.below(width) as u32)
                    .unwrap_or(range.start());
                text.extend(character.to_string().bytes());
            }
        }
        HirKind::Capture(capture) => sample(&capture.sub, random, text),
        HirKind::Concat(parts) => parts.iter().for_each(|part| sample(part, random, text)),
        HirKind::Alternation(choices) => {
            sample(random.pick(choices), random, text);
        }
        HirKind::Repetition(repetition) => {
            let (min, max) =
                (repetition.min, repetition.max.unwrap_or(repetition.min + 5).min(repetition.min + 600));
            // The limits are where mistakes are.
            let count = *random.pick(&[
                min,
                max,
                min.min(max),
                (min + 1).min(max),
                max.saturating_sub(1).max(min),
                (min + max) / 2,
            ]);
            (0..count).for_each(|_| sample(&repetition.sub, random, text));
        }
    }
}

/// Returns a text made of samples of the expressions: abutting, truncated, repeated, with a byte inserted or removed,
/// with other cases, and with other text between them.
pub(crate) fn sampled_text(expressions: &[&Expression], random: &mut SampleRandom, len: usize) -> Vec<u8> {
    let hirs: Vec<Hir> = expressions.iter().map(|expression| expression.hir()).collect();
    let mut text = vec![];
    while text.len() < len {
        let mut one = vec![];
        sample(random.pick(&hirs), random, &mut one);
        match random.below(8) {
            0 => one.truncate(random.below(one.len() + 1)),
            1 => one = one.repeat(2 + random.below(3)),
            2 if !one.is_empty() => {
                let at = random.below(one.len());
                one.insert(at, *random.pick(b"a0 \n=\x00\xff_"));
            }
            3 if !one.is_empty() => {
                one.remove(random.below(one.len()));
            }
            4 => one.iter_mut().for_each(|byte| {
                if byte.is_ascii_alphabetic() && random.below(3) == 0 {
                    *byte ^= 0x20;
                }
            }),
            5 => {
                let skip = random.below(one.len() + 1);
                one.drain(..skip);
            }
            _ => {}
        }
        text.extend(one);
        let between: [&[u8]; 10] =
            [b"", b"", b"", b" ", b"\n", b"\r\n", b"\"", b";", b"let x = 'y';\n", b"\xc3\xa4\x00"];
        text.extend_from_slice(between[random.below(between.len())]);
    }
    if random.below(2) == 0 {
        text.truncate(len.max(1) + random.below(8));
    } else {
        // The end of the text is a place at which mistakes are made, so some texts end with a match.
        sample(random.pick(&hirs), random, &mut text);
    }
    text
}
