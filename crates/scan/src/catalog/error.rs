//! What can be wrong with factors or with a stored catalog.

/// Why a catalog could not be built or read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// A literal is empty or too long, or it is longer than the distance to the beginning of its part.
    #[error("branch {branch} has a literal of {length} bytes that ends {back} bytes after its part begins")]
    LiteralLength {
        /// The branch, as an index of the branches of all rules in order.
        branch: u32,
        /// The length of the literal.
        length: usize,
        /// The distance from the beginning of the part to the end of the literal.
        back: u32,
    },
    /// A symbol of a literal stands neither for one byte nor for a letter in both cases.
    #[error("branch {branch} has a literal with the symbol {value:#04x} under the mask {mask:#04x}")]
    Symbol {
        /// The branch, as an index of the branches of all rules in order.
        branch: u32,
        /// The symbol's value.
        value: u8,
        /// The symbol's mask.
        mask: u8,
    },
    /// A run of a class has length 0.
    #[error("branch {branch} has a run of length 0")]
    EmptyRun {
        /// The branch, as an index of the branches of all rules in order.
        branch: u32,
    },
    /// The automaton of the literals could not be built.
    #[error("the automaton of {literals} literals could not be built: {reason}")]
    Automaton {
        /// The number of literals.
        literals: usize,
        /// The error of the library that builds it.
        reason: String,
    },
    /// Bytes are not a stored catalog of this version, or they are damaged.
    #[error("the stored catalog is of another version or damaged, so it must be built again")]
    NotACatalog,
}
