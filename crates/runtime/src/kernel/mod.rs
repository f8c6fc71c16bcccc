//! The megakernel: from a [`Spec`] to a module that every device runs.
//!
//! [`assemble`] writes the kernel from its parts. What comes out is a module of the language like any other. The files
//! of this folder are best read in this order:
//!
//! 1. What is wanted: [`spec`] with [`tenant`], [`handler`], [`handler_steps`], [`handler_trees`] and `placement`; [`text`] is the same as TOML, and `error`
//!    says why a `Spec` is refused.
//! 2. Where everything lies: [`layout`] and `bank` work out the numbers, `buffers` is the table of the kernel's
//!    buffers, `declare` declares them, and `mode` says which of them a kernel has.
//! 3. The step itself: `assemble` checks the `Spec` and puts the parts together. `context` is what all parts share, and
//!    `slots` and `line` say where a task's slot is and how it is read.
//! 4. What runs a single task: `adapt` makes handlers safe, `import` binds what they import, `builtin`, `print` and
//!    `packed` are the opcodes that every kernel has, and `dispatch` chooses among all of these. `payload` says where
//!    the bytes lie that tasks bring and give back.
//! 5. What runs many tasks: `window` takes tasks from the first handler to the last record, `steps` runs tasks that
//!    take several steps in a drained batch, `cells`, `home` and `ready` run those of a session, `tree`, `spawn`,
//!    `event` and `graphs` let tasks make others and wait for them, `arrivals` says which of these come next, `claim` chooses
//!    the ring that is served next, `fence` ends fences, and `recovery` passes over what has ended before a device was lost.
//!    `kept` says who may write regions that are restored after that.
//! 6. The outer loops: `live` says which group does what in a kernel that stays, `near` and `far` serve its two kinds
//!    of rings, and `drain` runs one pass over a batch.
//! 7. What polls: `watch` looks at near rings and `route` at far ones, `light` runs small tasks on the spot, and
//!    `notice` tells pollers about changed control words.

pub mod handler;
pub mod handler_steps;
pub mod handler_trees;
pub mod layout;
pub mod spec;
pub mod tenant;
pub mod text;

mod adapt;
mod arrivals;
mod assemble;
mod bank;
pub(crate) mod buffers;
mod builtin;
pub(crate) mod cells;
mod claim;
mod context;
mod declare;
mod dispatch;
pub(crate) mod drain;
mod error;
mod event;
mod far;
pub(crate) mod fence;
pub(crate) mod graphs;
mod home;
mod import;
pub(crate) mod kept;
mod light;
mod line;
mod live;
mod mode;
mod near;
mod notice;
mod packed;
pub(crate) mod payload;
mod placement;
mod print;
mod ready;
pub(crate) mod recovery;
pub(crate) mod ring_shares;
mod route;
mod slots;
pub(crate) mod spawn;
pub(crate) mod steps;
pub(crate) mod stride;
pub(crate) mod tree;
mod tree_end;
mod watch;
mod window;

pub use assemble::{Assembled, assemble};
pub(crate) use assemble::{PreviousKernel, assemble_after};
pub use buffers::BufferId;
pub(crate) use buffers::STRIDE;
pub use builtin::{PROVIDED_OPS, UNIMPLEMENTED_OPS};
pub(crate) use builtin::{
    check_provided, is_builtin_function, lives_in_no_cell, provided_index, why_missing,
};
pub use claim::longest_rest;
pub use error::{AssembleError, UnknownOpcode};
pub use handler::{Class, GroupHandlerBody, Handler, HandlerBody, NamedHandler, Visible, Width};
pub use import::{VERBS, Verb, VerbAction};
pub use layout::Layout;
pub(crate) use layout::worker_count;
pub(crate) use light::FEW_TASKS;
pub use payload::PlaceSizes;
pub use placement::Placement;
pub use spec::{Claim, Geometry, Io, Lifetime, Recovery, Report, SlotBody, Spec, TaskOrder, Telemetry};
pub use tenant::{Region, RegionMemory, Retention, Tenant, TenantId};
pub use text::{SpecFiles, TextError};
