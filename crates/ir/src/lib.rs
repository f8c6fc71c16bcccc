//! The language of Pelton's kernels: a small typed compute IR.
//!
//! A program is a [`Module`](module::Module) of buffers and functions in SSA form with structured control flow. It
//! can be written in Rust with the [`builder`], or as [`text`]. The [validator](valid) turns it into a
//! [`Valid`](valid::Valid) module, which is the only kind of module that the [passes](pass), the reference
//! [interpreter](interp) and the devices of `pelton-device` accept.
//!
//! This example builds a kernel in Rust, prints it as text, and runs it:
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering};
//!
//! use pelton_ir::builder::Builder;
//! use pelton_ir::interp::{BoundWords, End, InterpKernel, InterpLaunch, Schedule};
//! use pelton_ir::types::{Access, Len, Space};
//! use pelton_ir::{text, valid};
//!
//! // Every lane squares its element.
//! let mut m = Builder::new();
//! let data = m.buffer::<u32>("data", Len::Launch, Space::Global, Access::ReadWrite);
//! m.kernel("squares", |f| {
//!     let at = f.lane();
//!     let x = f.load(data.at(at));
//!     f.store(data.at(at), x * x);
//! });
//! let module = m.finish();
//!
//! // The printed text parses to an equal module.
//! let printed = text::print(&module);
//! assert_eq!(
//!     printed,
//!     "buffer data: [u32; ?] global read_write
//!
//! kernel squares {
//!   %0 = lane
//!   %1 = load @data[%0]
//!   %2 = mul %1, %1
//!   store @data[%0], %2
//! }
//! "
//! );
//! assert_eq!(text::parse(&printed).unwrap(), module);
//!
//! // A valid module can be run.
//! let module = valid::validate(module).unwrap();
//! let words: Vec<AtomicU32> = [1, 2, 3, 4].map(AtomicU32::new).into();
//! let report = InterpKernel::new(&module, None)?.run(&InterpLaunch {
//!     groups: 1,
//!     lanes: 4,
//!     subgroup: 32,
//!     buffers: vec![BoundWords::W32(&words)],
//!     stop: None,
//!     deadline: None,
//!     schedule: Schedule::Threads(1),
//! })?;
//! assert_eq!(report.end, End::Done);
//! assert_eq!(words.iter().map(|word| word.load(Ordering::Relaxed)).collect::<Vec<_>>(), [1, 4, 9, 16]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Themes
//!
//! **Each fact is stated once.** The enum of ops, the builder's methods, the type rules, the printer, the parser and
//! the manual all derive from the [op table](op). [`eval`] has the only implementation of the arithmetic, and
//! [`limits`] has every limit.
//!
//! **Modules can be put together.** A module may import functions, and [`link`](mod@link) binds them to those of
//! libraries.
//!
//! **Nothing is undefined.** Every operation has one result on every device, out-of-range accesses and division by
//! zero included. `docs/ir.md` is the manual, `docs/memory.md` the memory model.
//!
//! **Bad input is an error.** No text and no module makes this crate panic, hang or run out of stack.
//!
//! Architecture invariant: this crate does not know any device and has no unsafe code.
#![forbid(unsafe_code)]

pub mod arena;
pub mod builder;
pub mod emit;
pub mod eval;
pub mod interp;
pub mod limits;
pub mod link;
pub mod manual;
pub mod module;
pub mod op;
pub mod pass;
pub mod text;
pub mod types;
pub mod valid;
pub mod write;
