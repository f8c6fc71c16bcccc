//! How large things may be, all in one place.
//!
//! Every walk over a module is linear in its size and recursion follows regions, so these bounds are what keeps bad
//! input from taking the time, the memory or the stack of whoever reads it. The parser holds to those on text, depth
//! and counts as it reads; the validator holds every module to all of them.

/// Regions within regions, the function's body included.
pub const MAX_DEPTH: usize = 128;

/// Instructions of a module.
pub const MAX_INSTS: usize = 1 << 20;

/// Operands or results of an instruction, carried values of a loop, parameters or results of a function.
pub const MAX_ARGS: usize = 64;

/// Bytes of a name.
pub const MAX_NAME: usize = 64;

/// Buffers of a module.
pub const MAX_BUFFERS: usize = 256;

/// Functions of a module.
pub const MAX_FUNCTIONS: usize = 4096;

/// Elements that a buffer has. An index has 32 bits, and so has what `len` gives; so the highest index is out of range of
/// every buffer.
pub const MAX_LEN: u64 = u32::MAX as u64;

/// Bytes of all shared buffers together.
pub const MAX_SHARED: u64 = 1 << 18;

/// Values of all the cases of a `switch` together.
pub const MAX_CASES: usize = 4096;

/// Bytes of a text.
pub const MAX_TEXT: usize = 64 << 20;

/// Bytes of a number in a text.
pub const MAX_LITERAL: usize = 256;
