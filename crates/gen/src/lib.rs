//! Generates valid modules from choices, for laws, fuzzers and benchmarks to run on.
//!
//! A [`Choose`](choose::Choose) answers with small numbers, and [`make::module`] turns its answers into a module.
//! The answers may come from a seed, from the bytes of a fuzzer, or from a property test, whose bytes [`shrink`]
//! makes fewer. A [`case`] is a module together with a launch, a [`law`] is what must hold for every case, and
//! [`hold`](mod@hold) tries a law on many cases. A case that breaks a law is saved as a filetest: see [`regress`].
//!
//! ```
//! use pelton_gen::{case::GeneratedCase, choose::Seed, config::GeneratorConfig, law};
//!
//! let case = GeneratedCase::new(&mut Seed(7), &GeneratorConfig::DEFAULT);
//! law::passes(&case)?;
//! # Ok::<(), law::BrokenLaw>(())
//! ```
//!
//! A device is compared with the reference in the same way: run `case.module` over `case.data()`, and call
//! [`CaseOutcome::differs`](case::CaseOutcome::differs) on the two outcomes.

pub mod case;
pub mod choose;
pub mod config;
pub mod constant;
pub mod fuzz;
pub mod hold;
pub mod law;
pub mod make;
pub mod mutate;
pub mod regress;
pub mod shrink;
pub mod split;

mod body;
mod buffers;
mod frame;
mod loops;
mod memory;
mod nest;
mod plain;
mod scope;
mod wild;
