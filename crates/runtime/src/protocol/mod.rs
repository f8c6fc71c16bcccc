//! What host and device say to each other, as data.
//!
//! Every word that crosses between them is a row of a table here: the [slot], the [completion record](record),
//! the [control words](control), the [debug log](log), the [IO queue](io), and the numbers that stand in them
//! ([status], [priority], [opcode], [fault]). Constants for kernels, accessors for the host and the tables of
//! `docs/protocol.md` are made from those rows. Who touches which word in what order is a table too, the [steps](step).
//!
//! There are two uses of one layout. A *drained batch* is filled by the host, run in one pass and read back, so only
//! one side touches it at a time; [`drained`] reads and writes it. A *live ring* is fed while the kernel runs, so
//! every word has one writer, and a slot carries a generation and a check.
//!
//! Reading is strict: what no writer of the protocol can have written is [`Malformed`], and the error names the word.

mod check;
mod error;
mod table;

pub mod control;
pub mod drained;
pub mod fault;
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
