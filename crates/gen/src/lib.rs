//! Valid modules from choices: what laws, fuzzers and benchmarks run on.

pub mod case;
pub mod choose;
pub mod config;
pub mod constant;
pub mod hold;
pub mod law;
pub mod make;
pub mod regress;
pub mod shrink;

mod body;
mod frame;
mod loops;
mod memory;
mod nest;
mod plain;
mod scope;
mod stock;
mod wild;
