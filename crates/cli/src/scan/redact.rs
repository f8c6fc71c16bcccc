//! Redacts secrets: what is left is enough to recognise a secret, but not to use it.

use pelton_scan::Finding;

/// The largest number of a secret's first bytes that are left.
const KEPT: usize = 4;

/// Whether secrets are printed in full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SecretMode {
    /// Only the beginning of each secret is printed, with its length.
    Redacted,
    /// Matches are printed as they are.
    Shown,
}

/// Returns what is printed instead of a secret: its first bytes, at most a quarter of it, and its length.
///
/// The rest of the match is left out, because another rule may find a secret in it.
pub(super) fn redacted(finding: &Finding) -> Vec<u8> {
    let secret = secret_bytes(finding);
    let kept = KEPT.min(secret.len() / 4);
    let whole = finding.found.end - finding.found.start;
    // The finding keeps only the first bytes of a very long match. Such a secret goes on to the end of the match.
    let cut = finding.text.len() as u64 != whole && finding.secret.end == finding.text.len();
    let length = if cut { whole - finding.secret.start as u64 } else { secret.len() as u64 };
    let mut text: Vec<u8> = secret[..kept].iter().copied().take_while(u8::is_ascii_graphic).collect();
    let unit = if length == 1 { "byte" } else { "bytes" };
    text.extend_from_slice(format!("…({length} {unit})").as_bytes());
    text
}

/// Returns the bytes of the secret.
pub(super) fn secret_bytes(finding: &Finding) -> &[u8] {
    finding.text.get(finding.secret.clone()).unwrap_or(&finding.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::format::sample_finding;

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(redacted(&sample_finding(bytes))).expect("it is UTF-8")
    }

    #[test]
    fn at_most_a_quarter_is_left() {
        assert_eq!(text(b"TOKEN-BCDEFGHIJKLMNO"), "TOKE…(20 bytes)");
        assert_eq!(text(b"hunter22"), "hu…(8 bytes)");
        assert_eq!(text(b"abc"), "…(3 bytes)");
        assert_eq!(text(b"x"), "…(1 byte)");
        assert_eq!(text(b""), "…(0 bytes)");
        assert_eq!(text(b"a\xffbcdefghijklmnopqrstuv"), "a…(23 bytes)");
    }

    #[test]
    fn only_the_secret_is_left_of_a_match() {
        let mut finding = sample_finding(b"password = 'correct horse'");
        finding.secret = 12..25;
        assert_eq!(redacted(&finding), "cor…(13 bytes)".as_bytes());
    }

    #[test]
    fn the_length_is_that_of_the_whole_secret() {
        let mut finding = sample_finding(&[b'x'; 100]);
        finding.found.end += 1000;
        assert_eq!(redacted(&finding), "xxxx…(1100 bytes)".as_bytes());
    }
}
