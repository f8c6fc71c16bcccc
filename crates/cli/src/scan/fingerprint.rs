//! Fingerprints, by which a finding is recognised in a later scan even if it has moved to another line.

use std::fmt;
use std::path::Path;

use pelton_scan::Finding;
use sha2::{Digest as _, Sha256};

use crate::scan::redact::secret_bytes;

/// A hash of a rule's name, a path and a secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// Returns the fingerprint of a finding.
    pub(super) fn of(rule: &str, path: &Path, finding: &Finding) -> Fingerprint {
        Fingerprint::from_parts(rule, path, secret_bytes(finding))
    }

    /// Returns the fingerprint of a rule's name, a path and a secret.
    pub(super) fn from_parts(rule: &str, path: &Path, secret: &[u8]) -> Fingerprint {
        let mut hash = Sha256::new();
        for part in [rule.as_bytes(), path.as_os_str().as_encoded_bytes(), secret] {
            // The lengths keep two different lists of parts from being the same bytes.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        Fingerprint(bytes)
    }

    /// Parses the 32 hexadecimal digits that a fingerprint is printed as.
    pub(super) fn parse(text: &str) -> Option<Fingerprint> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|number| Fingerprint(number.to_be_bytes()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_it_is_printed() {
        let print = Fingerprint::from_parts("rule", Path::new("a/b"), b"secret");
        assert_eq!(print.to_string().len(), 32);
        assert_eq!(Fingerprint::parse(&print.to_string()), Some(print));
        assert_eq!(Fingerprint::parse("12"), None);
        assert_eq!(Fingerprint::parse("+1234567890123456789012345678901"), None);
    }

    #[test]
    fn every_part_counts() {
        let of = |rule, path: &str, secret| Fingerprint::from_parts(rule, Path::new(path), secret);
        let one = of("ab", "c", b"d");
        for other in [of("a", "bc", b"d"), of("ab", "cd", b""), of("ab", "c", b"e"), of("ab", "x", b"d")] {
            assert_ne!(one, other);
        }
    }
}
