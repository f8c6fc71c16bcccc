//! The entropy of bytes, by which random text can be distinguished from words.

/// Returns the Shannon entropy of bytes, in bits per byte: 0 for no bytes or equal bytes, at most 8.
pub fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0u64; 256];
    for &byte in bytes {
        counts[usize::from(byte)] += 1;
    }
    let total = bytes.len() as f64;
    let shares = counts.iter().filter(|&&count| count > 0).map(|&count| count as f64 / total);
    // A single byte value yields a negative zero, which adding zero makes positive: it is printed without a sign then.
    shares.map(|share| -share * share.log2()).sum::<f64>() + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_is_known_for_known_texts() {
        let near = |text: &str, want: f64| {
            let found = entropy(text.as_bytes());
            assert!((found - want).abs() < 1e-9, "{text:?} has {found}, not {want}");
        };
        near("", 0.0);
        near("aaaaaaaa", 0.0);
        near("abab", 1.0);
        near("0123456789abcdef", 4.0);
        // Two bytes of probability 1/4 each and one of 1/2.
        near("aabc", 1.5);
        assert_eq!(entropy(&(0..=255).collect::<Vec<u8>>()), 8.0);
    }

    #[test]
    fn the_order_of_bytes_does_not_matter() {
        assert_eq!(entropy(b"abcabcab"), entropy(b"aaabbbcc"));
    }

    #[test]
    fn no_entropy_is_printed_with_a_minus_sign() {
        assert_eq!(format!("{:.1}", entropy(b"")), "0.0");
        assert_eq!(format!("{:.1}", entropy(b"aaa")), "0.0");
    }
}
