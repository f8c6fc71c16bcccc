//! Valid modules from choices: what laws, fuzzers and benchmarks run on.
//!
//! A [`Choose`](choose::Choose) is asked for small numbers, and [`make::module`] makes a module of its answers. It may
//! be a seed, the bytes of a fuzzer, or those of a property test, which [`shrink`] makes smaller. A [`case`] is a
//! module with a launch, a [`law`] is what must hold of a case, and [`hold`](mod@hold) tries a law on many of them. What
//! breaks one ends as a filetest: see [`regress`].
//!
//! ```
//! use pelton_gen::{case::Case, choose::Seed, config::Config, law};
//!
//! let case = Case::new(&mut Seed(7), &Config::DEFAULT);
//! law::passes(&case)?;
//! # Ok::<(), law::Broken>(())
//! ```
//!
//! A device is held against the reference likewise: run `case.module` over `case.data()`, and ask what
//! [`Outcome::differs`](case::Outcome::differs) has to say.

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

mod body;
mod frame;
mod loops;
mod memory;
mod nest;
mod plain;
mod scope;
mod stock;
mod wild;
