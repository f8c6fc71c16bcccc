//! The language of Pelton's kernels.
#![forbid(unsafe_code)]

pub mod arena;
pub mod builder;
pub mod eval;
pub mod interp;
pub mod limits;
pub mod module;
pub mod op;
pub mod pass;
pub mod text;
pub mod types;
pub mod valid;
pub mod write;
