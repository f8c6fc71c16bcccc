//! A candidate: a place at which a rule may match.

/// A place at which a branch of a rule may match.
///
/// The *part* of a branch is what its factor belongs to: the literal occurs at a known distance from the beginning of
/// the part, what comes before the part is the branch's prefix, and the part together with what follows it is the
/// branch's suffix. A factor that is a literal says exactly where the part begins, so [`first`](Self::first) and
/// [`last`](Self::last) are equal. A factor that is a run of bytes of one class says only that the part begins
/// somewhere in the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Candidate {
    /// The first position at which the part can begin, counted from the start of the text that was scanned.
    pub first: u32,
    /// The last position at which the part can begin.
    pub last: u32,
    /// The branch, as an index of [`Catalog::branches`](crate::Catalog::branches).
    pub branch: u32,
}
