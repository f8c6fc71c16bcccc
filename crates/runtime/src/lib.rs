//! Pelton: a kernel that is launched once and fed for ever.
//!
//! Host threads publish small tasks into rings; a kernel resident on a device claims them, runs the handler of their
//! opcode, and posts the result microseconds later. The modules are in the order in which a task passes them.

pub mod protocol;

pub mod kernel;

pub mod ring;
pub mod task;

pub mod drain;
pub mod session;
pub mod telemetry;
pub mod workspace;

mod deadline;
#[doc(hidden)]
pub mod doc_examples;
mod error;

pub use deadline::Deadline;
pub use drain::{Batch, Drain};
pub use error::{EndReason, Error, LossReason, SessionEnd, SubmitError, TaskError};
pub use kernel::{Claim, Geometry, Handler, Placement, Region, Spec, Tenant, TenantId};
pub use pelton_device as device;
pub use pelton_ir as ir;
pub use protocol::{Opcode, Priority};
pub use session::{Aim, Producer, Session, Span, Ticket};
pub use task::Task;
pub use telemetry::Snapshot;

/// What the README shows, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
