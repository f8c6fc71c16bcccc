//! Feeds a kernel that stays on a GPU, or on CPU threads, with small tasks while it runs.
//!
//! Launching a GPU kernel and waiting for it costs about 9 µs, however little it does. This crate launches one kernel
//! and keeps it running. Host threads write tasks of 64 bytes into rings; the running kernel claims them, runs the
//! handler of each task, and writes a completion record that the host reads. One task takes 2 to 4 µs on an NVIDIA
//! H200, and eight threads push more than 700 million tasks per second through it; `docs/benchmarks.md` has the figures
//! with their commands.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//!
//! use pelton::{Handler, Session, Spec, Task, device};
//!
//! // What the kernel can do. The closure runs once, now, and writes down the function that the device will run for each task.
//! let add = Handler::lane_wide(|task| {
//!     let old = task.atomic_add(task.arg(0), task.arg(1)); // data[arg 0] += arg 1
//!     task.finish(old);
//! });
//! let spec = Spec::default().handler("add", add);
//!
//! // The only launch. "auto" is the best device that this machine has.
//! let session = Session::launch(&device::open("auto")?, &spec)?;
//! let add = session.opcode("add")?;
//!
//! // One task at a time, while the kernel runs.
//! let mut producer = session.producer(0)?;
//! for round in 0..3 {
//!     let mut ticket = producer.submit(Task::new(add).args([64, 5]))?;
//!     assert_eq!(ticket.wait(Duration::from_secs(5))?, round * 5);
//! }
//!
//! // Many tasks at once.
//! let mut span = producer.submit_all((0..1000).map(|k| Task::new(add).args([k % 10, 1])))?;
//! assert_eq!(span.wait(Duration::from_secs(5))?.done, 1000);
//! assert_eq!(session.view::<u32>(0, "data")?.read(0, 10)?, [100; 10]);
//! session.stop()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Should I use this?
//!
//! Use it for many small tasks that arrive over time and belong on a GPU, and for several users of one GPU whose
//! memory, rights and quotas must be kept apart. Develop and test on the CPU; the same handlers give the same results
//! on every device.
//!
//! Use something else for
//!
//! - large kernels of a millisecond or more: CUDA streams, since the cost of a launch does not matter there and a
//!   kernel that stays on the GPU takes up room;
//! - a fixed sequence of kernels that is run again and again: CUDA graphs;
//! - loops over data on the CPU: rayon;
//! - messages between CPU threads: crossbeam-channel or rtrb.
//!
//! # Tour
//!
//! In the order of use:
//!
//! 1. A [`Handler`] is what a task does: a function of a small language ([`ir`]), written by a closure or as text.
//!    Either one lane runs it, beside lanes that run other tasks, or a whole group of lanes runs it together. It reads
//!    the task's arguments and the tenant's memory, and returns one `u32`.
//! 2. A [`Spec`] describes the kernel as plain data: its handlers, its [`Geometry`] (slots, lanes, groups), its memory
//!    in named [`Region`]s, its [`Tenant`]s, and which tasks come first ([`Claim`]). [`kernel::assemble`] turns it into
//!    a program of the language and is the one place where a combination that cannot work is refused.
//! 3. [`device::open`] opens a device by its name: `cuda`, `cpu`, `reference` or `auto`.
//! 4. [`Session::launch`] starts the kernel. The session also changes rights and credit, reads and writes memory
//!    ([`Session::view`]), takes a [`Snapshot`] of counters and latencies, and stops the kernel.
//! 5. A [`Producer`] submits tasks for one tenant, from one thread at a time. If there is no room, it waits or returns
//!    an error, as [`Producer::patience`] says. It may prefer latency or throughput ([`Aim`]).
//! 6. A [`Task`] is an [`Opcode`], up to twelve argument words and a [`Priority`]; a [`PayloadTask`] also brings bytes.
//! 7. A [`Ticket`] stands for one submitted task, a [`Span`] for many. Both can be polled, waited for until a
//!    [`Deadline`], awaited as futures, and cancelled. They hold their slots until they are dropped, so no result is
//!    overwritten while its ticket or span exists.
//! 8. A [`TaskError`] says why a task has no result, a [`SubmitError`] why tasks were not submitted, and an [`Error`]
//!    why a session could not be launched or used. [`Session::session_end`] says how a session ended.
//!
//! A [`journal`] keeps records on disk, so that a program can go on after a crash.
//!
//! A [`Drain`] runs the same `Spec` differently: a [`Batch`] of tasks that are all known beforehand, in one launch.
//!
//! The guide, `docs/guide.md`, builds an application with these types in ten steps. [`protocol`] and [`ring`] define
//! what host and kernel write to each other, word by word; applications do not need them.
//!
//! # What always holds
//!
//! - **Every ticket ends**: with a result, with a fault, as cancelled, as stopped, or as lost if the device failed.
//! - **A task that goes wrong harms no other.** Accesses out of range do nothing, loops run out of fuel, and the task
//!   says why it failed.
//! - **Tenants are kept apart by the kernel itself**, even if handlers come from strangers. `docs/tenants.md` lists
//!   what is promised.
//! - **A change of rights holds when the call returns**: no task that is submitted afterwards begins under the old
//!   rights.
//! - **Nothing allocates or locks between submit and done**, with two small exceptions, which the documentation of
//!   [`session`] names.
//!
//! # Limits
//!
//! - A task has at most 12 argument words of 32 bits, and its result is one `u32`. Everything larger goes through
//!   regions.
//! - A session runs on one device and has at most 29 tenants. A ring has at most 2^24 slots.
//! - Near rings, which lie in the memory of a GPU, need Linux on x86-64, Vulkan, and a GPU with resizable BAR.
//!   Otherwise rings lie in host memory.
//! - Handlers cannot yet wait for files.
//! - This crate is tested on Linux on x86-64 only.
//!
//! # Feature flags
//!
//! | feature | default | what it does |
//! |---|---|---|
//! | `cuda` | yes | NVIDIA GPUs; the driver is loaded at run time, so programs also start on machines without one |
//! | `inject` | no | lets tests put wrong bits between host and kernel, lets groups sleep until they are woken, and lets a test simulate the clock, the disk and the session's thread; for this crate's own tests |
//! | `loom` | no | lets tests explore interleavings with loom; for this crate's own tests |

pub mod protocol;

pub mod graph;
pub mod kernel;

pub mod ring;
pub mod task;

pub mod drain;
pub mod journal;
pub mod session;
pub mod stream;
pub mod telemetry;
pub mod workspace;

mod after;
mod deadline;
#[doc(hidden)]
pub mod doc_examples;
mod error;
mod identifier;
mod payload;
#[cfg(feature = "inject")]
pub mod simulated;
#[cfg(not(feature = "inject"))]
mod simulated;

pub use after::{EventCondition, TaskAfter};
pub use deadline::Deadline;
pub use drain::{Batch, Drain};
pub use error::{EndReason, Error, HandOverError, LossReason, SessionEnd, SubmitError, TaskError};
pub use graph::{CheckedGraph, Graph, GraphEdge, GraphError, GraphNode, NodeArg, NodeId, NodeOp};
pub use kernel::{
    Claim, Class, Geometry, Handler, Placement, Recovery, Region, RegionMemory, Retention, Spec, TaskOrder,
    Tenant, TenantId,
};
pub use payload::{Payload, PayloadTask, Submission};
pub use pelton_device as device;
pub use pelton_ir as ir;
pub use protocol::{Opcode, Priority};
pub use session::{Aim, Producer, RecoveringSession, Session, SessionGraph, Span, Ticket};
pub use task::Task;
pub use telemetry::{Snapshot, TaskState};

/// The Rust snippets of the README, of the guide and of the page about journals are compiled and run as doctests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../README.md")]
    struct CrateReadme;
    #[doc = include_str!("../../../docs/guide.md")]
    struct Guide;
    #[doc = include_str!("../../../docs/journal.md")]
    struct JournalPage;
}
