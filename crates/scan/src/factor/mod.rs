//! Factors: what every match of a rule contains, which is usually one of a few literals.
//!
//! [`extract_factors`] finds them in an expression. [`Catalog::build`](crate::Catalog::build) makes tables of the factors
//! of all rules, by which an engine finds the places that are worth an exact search.

mod extract;
mod language;
mod weight;

use regex_syntax::hir::Hir;

pub use extract::extract_factors;

/// The length of the longest literal that a factor can have, in bytes.
pub const LITERAL_MAX: usize = 16;

/// One byte of a literal: `byte & mask == value` says whether a byte of the text agrees with it.
///
/// The mask is `0xff`, or `0xdf` for an ASCII letter in either case, whose value is then the upper-case letter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Symbol {
    /// The bits that the byte must have.
    pub value: u8,
    /// The bits that are compared.
    pub mask: u8,
}

/// A literal that a match may contain, and where in the match it lies.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FactorLiteral {
    /// The bytes of the literal, at most [`LITERAL_MAX`] and at least one.
    pub symbols: Vec<Symbol>,
    /// The number of bytes from the beginning of the part, which [`Candidate`](crate::Candidate) explains, to the end of
    /// the literal.
    pub back: u32,
}

/// What every match of a branch contains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Factor {
    /// One of these literals.
    Literals(Vec<FactorLiteral>),
    /// At least `length` consecutive bytes of a class, with which the part begins.
    ClassRun {
        /// The bytes of the class.
        class: ByteSet,
        /// The smallest number of bytes.
        length: u32,
    },
}

/// A branch of a rule: one of the alternatives that a match can be, and what each match of that kind contains. Every
/// match of a rule belongs to one of the rule's branches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FactorBranch {
    /// What every match of the branch contains.
    pub factor: Factor,
    /// The largest number of bytes of a match before the part begins; `None` if there is no limit.
    pub prefix_max: Option<u32>,
    /// The largest number of bytes of a match from the beginning of the part on; `None` if there is no limit.
    pub suffix_max: Option<u32>,
    /// The expression from the beginning of the part on, including its look-arounds.
    pub suffix: Hir,
}

/// How matches of a rule are searched for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleFactors {
    /// Only near candidates of these branches.
    Branches(Vec<FactorBranch>),
    /// In the whole input, because no useful factor is contained in every match.
    Always,
}

/// A set of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ByteSet {
    words: [u64; 4],
}

impl ByteSet {
    /// Adds a byte.
    pub fn insert(&mut self, byte: u8) {
        self.words[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    /// Returns whether the set contains a byte.
    pub fn contains(&self, byte: u8) -> bool {
        self.words[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }
    /// Returns the number of bytes in the set.
    pub fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }
    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
