//! The limits on the size of texts and modules.
//!
//! Every walk over a module is linear in its size and recursion follows regions, so these bounds are what keeps bad
//! input from exhausting the time, the memory or the stack of the program that reads it. The parser enforces the
//! limits on text, depth and counts while it reads, and the validator enforces all limits on every module.

/// The most regions that may be nested in each other, the function's body included.
pub const MAX_DEPTH: usize = 128;

/// The most instructions that a module may have.
pub const MAX_INSTS: usize = 1 << 20;

/// The most operands or results that an instruction may have. The same limit holds for the carried values of a loop and
/// for the parameters and results of a function.
pub const MAX_ARGS: usize = 64;

/// The most bytes that a name may have.
pub const MAX_NAME: usize = 64;

/// The most buffers that a module may have.
pub const MAX_BUFFERS: usize = 256;

/// The most functions that a module may have.
pub const MAX_FUNCTIONS: usize = 4096;

/// The most elements that a buffer may have. An index and the result of `len` have 32 bits, so the highest index is out
/// of range of every buffer.
pub const MAX_LEN: u64 = u32::MAX as u64;

/// The most bytes that all shared buffers of a module may take together.
pub const MAX_SHARED: u64 = 1 << 18;

/// The most values that all cases of a `switch` may have together.
pub const MAX_CASES: usize = 4096;

/// The most bytes that a text may have.
pub const MAX_TEXT: usize = 64 << 20;

/// The most bytes that a number in a text may have.
pub const MAX_LITERAL: usize = 256;
