//! The protocol between host and device, as data.
//!
//! Every word that crosses between the two is a row of a table in one of these modules: the [slot], the [completion
//! record](record), the [control words](control), the [debug log](log), the [IO queue](io), the [graph], and the
//! numbers in them ([status], [priority], [opcode], [fault]). The constants that kernels use, the accessors that the host uses, and
//! the tables of `docs/protocol.md` are made from those rows. A further table, the [steps](step), says who accesses
//! which word in what order.
//!
//! The layout has two uses. The host fills a *drained batch*, a kernel runs it in one pass, and the host reads it
//! back, so only one side accesses it at a time; [`drained`] encodes and decodes it. The host feeds a *live ring*
//! while the kernel runs, so every word has one writer, and every slot carries a generation and a check.
//!
//! Decoding is strict: words that no writer of the protocol can have written are [`Malformed`], and the error names
//! the word.

mod check;
mod error;
mod table;

pub mod control;
pub mod drained;
pub mod fault;
pub mod graph;
pub mod io;
pub mod log;
pub mod manual;
pub mod opcode;
pub mod packed;
pub mod priority;
pub mod record;
pub mod slot;
pub mod status;
pub mod step;

pub use error::{Malformed, WirePlace};
pub use fault::{FaultCode, TaskFault};
pub use opcode::Opcode;
pub use priority::Priority;
pub use record::CompletionRecord;
pub use slot::Slot;
pub use status::{ForbiddenMove, Status, StatusMove, WindowState};
pub use table::{UNBOUNDED, WordRow};
