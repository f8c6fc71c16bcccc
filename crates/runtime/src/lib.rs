//! Pelton: a kernel that is launched once and fed for ever.
//!
//! What a host and a kernel say to each other is the [`protocol`]: slots, completions, control words, the debug log,
//! all as data.

pub mod kernel;
pub mod protocol;
