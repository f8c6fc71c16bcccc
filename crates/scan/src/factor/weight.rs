//! How often a literal is expected in text: the weight by which factors are chosen.
//!
//! The estimate rests on a table of how often three bytes follow each other in a large sample of source code, its
//! documentation and its data. `examples/count-trigrams.rs` made the table. A bad estimate costs time and never a
//! match.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::{ByteSet, Symbol};

/// The table, as `examples/count-trigrams.rs` describes it.
static TABLE: &[u8] = include_bytes!("trigrams.bin");

/// How often single bytes, pairs and triples occur, per MiB.
struct Rates {
    triples: FxHashMap<[u8; 3], f64>,
    pairs: FxHashMap<[u8; 2], f64>,
    bytes: [f64; 256],
}

static RATES: LazyLock<Rates> = LazyLock::new(|| {
    let mut rates = Rates { triples: FxHashMap::default(), pairs: FxHashMap::default(), bytes: [RARE; 256] };
    for entry in TABLE.chunks_exact(4) {
        let rate = (f64::from(entry[3]) / 4.0 - 10.0).exp2();
        rates.triples.insert([entry[0], entry[1], entry[2]], rate);
        *rates.pairs.entry([entry[0], entry[1]]).or_insert(RARE) += rate;
        rates.bytes[usize::from(entry[0])] += rate;
    }
    rates
});

/// How often a trigram that is not in the table is assumed to occur per MiB.
const RARE: f64 = 1.0;

/// Estimates how often a literal occurs per MiB of text.
pub(super) fn literal_rate(literal: &[Symbol]) -> f64 {
    let bytes: Vec<u8> = literal.iter().map(|symbol| symbol.folded()).collect();
    match bytes[..] {
        [] => f64::from(1 << 20),
        [byte] => RATES.bytes[usize::from(byte)],
        [first, second] => RATES.pairs.get(&[first, second]).copied().unwrap_or(RARE),
        _ => longer_rate(&bytes),
    }
}

/// Estimates how often three bytes or more occur: the first triple, times the chance of each further byte given the two
/// before it. The rarest triple is an upper limit.
fn longer_rate(bytes: &[u8]) -> f64 {
    let triple =
        |at: usize| RATES.triples.get(&[bytes[at], bytes[at + 1], bytes[at + 2]]).copied().unwrap_or(RARE);
    let pair = |at: usize| RATES.pairs.get(&[bytes[at], bytes[at + 1]]).copied().unwrap_or(RARE);
    let mut rate = triple(0);
    let mut rarest = rate;
    for at in 1..bytes.len() - 2 {
        rate *= (triple(at) / pair(at)).min(1.0);
        rarest = rarest.min(triple(at));
    }
    rate.min(rarest)
}

/// Estimates how often a run of at least `length` bytes of a class occurs per MiB.
pub(super) fn run_rate(class: &ByteSet, length: u32) -> f64 {
    let inside: f64 = (0..=255u8)
        .filter(|&byte| class.contains(byte.to_ascii_lowercase()))
        .map(|byte| RATES.bytes[usize::from(byte)])
        .sum();
    let chance = (inside / f64::from(1 << 20)).clamp(0.0, 1.0);
    // The bytes of a word are not independent, so a run goes on more often than the share of the class suggests.
    let goes_on = chance + (1.0 - chance) * 0.4;
    f64::from(1 << 20) * chance * goes_on.powi(length as i32 - 1) * (1.0 - goes_on).max(0.01)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> f64 {
        literal_rate(&text.bytes().map(Symbol::exact).collect::<Vec<_>>())
    }

    #[test]
    fn common_words_weigh_more_than_prefixes_of_tokens() {
        assert!(rate("the ") > 100.0);
        assert!(rate("e") > rate("the"));
        assert!(rate("ghp_") < rate("token"));
        assert!(rate("xoxb-") < 1.5);
    }

    #[test]
    fn long_runs_of_small_classes_are_rare() {
        let mut hex = ByteSet::default();
        b"0123456789abcdef".iter().for_each(|&byte| hex.insert(byte));
        assert!(run_rate(&hex, 40) < run_rate(&hex, 8));
        assert!(run_rate(&hex, 40) < 100.0);
    }
}
