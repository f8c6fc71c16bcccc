//! Factors: for each rule a few literals, one of which every match contains.

mod extract;
mod language;
mod weight;

use regex_syntax::hir::Hir;

pub use extract::extract_factors;

/// The longest literal of a factor, in bytes. An output of the automaton compares this many bytes at most.
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

/// A literal of a factor.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FactorLiteral {
    /// The bytes of the literal, at most [`LITERAL_MAX`] and at least one.
    pub symbols: Vec<Symbol>,
    /// The number of bytes from the beginning of the part to the end of the literal.
    pub back: u32,
}

/// What every match of a branch contains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Factor {
    /// One of these literals.
    Literals(Vec<FactorLiteral>),
    /// At least `length` consecutive bytes of a class; the part begins with them.
    ClassRun {
        /// The bytes of the class.
        class: ByteSet,
        /// The number of bytes.
        length: u32,
    },
}

/// A branch of a rule: some of its matches, and what each of these contains. Every match of a rule with branches
/// belongs to one of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FactorBranch {
    /// What every match of the branch contains.
    pub factor: Factor,
    /// The largest number of bytes of a match before the part begins; `None` if there is no limit.
    pub prefix_max: Option<u32>,
    /// The largest number of bytes of a match from the beginning of the part on; `None` if there is no limit.
    pub suffix_max: Option<u32>,
    /// What a match consists of from the beginning of the part on, with the look-arounds still in it.
    pub suffix: Hir,
}

/// What a rule is searched by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleFactors {
    /// Candidates of these branches.
    Branches(Vec<FactorBranch>),
    /// The whole input: no useful factor is contained in every match.
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
