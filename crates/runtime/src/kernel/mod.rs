//! The megakernel: from a [`Spec`] to a module that every device runs.
//!
//! [`assemble`] writes the kernel from parts: handlers made safe ([`handler`]), a switch over their opcodes, windows of tasks
//! with their completion records, fences, and the outer loops: near rings, far rings or both, or drained batches. What comes
//! out is a module of the language like any other.

pub mod handler;
pub mod layout;
pub mod spec;
pub mod tenant;
pub mod text;

mod adapt;
mod assemble;
mod bank;
pub(crate) mod buffers;
mod builtin;
mod claim;
mod context;
mod declare;
mod dispatch;
pub(crate) mod drain;
mod error;
mod far;
mod fence;
mod import;
mod light;
mod line;
mod live;
mod mode;
mod near;
mod notice;
mod packed;
mod placement;
mod print;
mod route;
mod slots;
mod watch;
mod window;

pub use assemble::{Assembled, assemble};
pub use buffers::BufferId;
pub(crate) use buffers::STRIDE;
pub use builtin::UNIMPLEMENTED_OPS;
pub use claim::idle;
pub use error::{AssembleError, UnknownOpcode};
pub use handler::{Class, GroupHandlerBody, Handler, HandlerBody, NamedHandler, Visible, Width};
pub use import::{VERBS, Verb};
pub use layout::Layout;
pub use placement::Placement;
pub use spec::{Claim, Geometry, Io, Lifetime, Report, SlotBody, Spec, Telemetry};
pub use tenant::{Region, Tenant, TenantId};
pub use text::TextError;
