//! A candidate: a place at which a rule may match.

/// A place at which a branch of a rule may match.
///
/// An engine finds the factor of a branch, which lies somewhere within a match. The *part* is the stretch of the match
/// that contains the factor and begins at a known distance from it. What comes before the part is the prefix, and
/// everything from the beginning of the part on is the suffix. If the factor is a literal, it is known exactly where the
/// part begins, so [`first`](Self::first) and [`last`](Self::last) are equal. If it is a run of bytes of one class, the
/// part begins somewhere in the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Candidate {
    /// The first position at which the part can begin, counted from the start of the text that was scanned.
    pub first: u32,
    /// The last position at which the part can begin.
    pub last: u32,
    /// The branch, as an index of [`Catalog::branches`](crate::Catalog::branches).
    pub branch: u32,
}
