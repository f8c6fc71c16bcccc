//! What a contender found, so that contenders can be compared.

use std::fmt::{self, Display, Formatter};

use crate::error::CliError;

/// A summary of matches that does not depend on their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct FoundSummary {
    /// The number of matches.
    pub count: u64,
    /// The sum of the hashes of all matches.
    checksum: u64,
}

impl FoundSummary {
    /// A summary of things of which only the number is known.
    pub(super) fn count_only(count: u64) -> FoundSummary {
        FoundSummary { count, checksum: 0 }
    }

    /// Adds a match.
    pub(super) fn add(&mut self, file: u64, rule: u32, start: u64, end: u64) {
        let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let hash = [file, rule.into(), start, end].into_iter().fold(0x5bd1_e995, mix);
        self.count += 1;
        self.checksum = self.checksum.wrapping_add(mix(hash, hash >> 32));
    }

    /// Fails unless another contender found the same.
    pub(super) fn same_as(&self, other: &FoundSummary, case: &str, peer: &str) -> Result<(), CliError> {
        if self == other {
            return Ok(());
        }
        Err(CliError::Wrong(format!("{case} found {self}, but {peer} found {other}")))
    }
}

impl Display for FoundSummary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} matches (checksum {:016x})", self.count, self.checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::FoundSummary;

    #[test]
    fn the_order_does_not_matter_and_everything_else_does() {
        let summary = |list: &[(u64, u32, u64, u64)]| {
            let mut found = FoundSummary::default();
            list.iter().for_each(|&(file, rule, start, end)| found.add(file, rule, start, end));
            found
        };
        let (one, two) = ((0, 1, 2, 3), (3, 2, 1, 0));
        assert_eq!(summary(&[one, two]), summary(&[two, one]));
        for other in [(1, 1, 2, 3), (0, 0, 2, 3), (0, 1, 1, 3), (0, 1, 2, 4)] {
            assert_ne!(summary(&[one, two]), summary(&[other, two]));
        }
        assert!(summary(&[one]).same_as(&summary(&[two]), "a", "b").is_err());
    }
}
