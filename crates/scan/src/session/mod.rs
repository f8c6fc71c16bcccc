//! The session engine: stages one and two as a handler of a Pelton session, on a GPU, on CPU threads, or interpreted.
//!
//! # What lies where
//!
//! A session has a kernel that stays on its device and runs tasks. This engine adds one handler, `scan`, and three
//! regions of the device's memory to it:
//!
//! - `scan_tables` holds images of catalogs. It has two halves, so that a new version of a catalog can be
//!   written while tasks still read the old one. All tenants of the session can read it.
//! - `scan_text` holds texts. Each caller has two places for texts there: one is filled while the other one is scanned.
//! - `scan_found` holds the candidates, in one list per place for a text.
//!
//! The last two belong to the tenant that scans. Other tenants of the same session can see neither the texts nor the
//! candidates, and their tasks run at the same time as those of a scan.
//!
//! # What happens in a call
//!
//! [`candidates`](crate::engine::CandidateEngine::candidates) takes one of the callers that are not in use, and cuts the
//! text into chunks. The device's copy engine copies a chunk to one of the caller's places, with the bytes before and
//! after it that the automata need. Then the chunk is submitted as many tasks, one for each piece of the chunk and each
//! automaton, which the groups of the kernel run at the same time. Meanwhile the next chunk is copied to the caller's
//! other place. Copies do not wait for the kernel, which never ends, and the kernel does not wait for copies of other
//! callers. When the tasks of a chunk have ended, their candidates are copied back.
//!
//! A counter in front of each list says how many candidates were found. It is never reset: a task is told what the
//! counter showed when the chunk began. So a chunk costs one copy there, and one or two back.
//!
//! # What can overflow
//!
//! Only the list of candidates. The counter shows it, and the chunk is scanned again in halves. The lists in a group's
//! own memory have room for everything that the lanes can add before they look at them. So a text that consists of
//! nothing but hits is scanned slowly, but correctly.
//!
//! # Replacing a catalog
//!
//! [`SessionEngine::replace`] writes a new version into the half of the table region that the current version does not
//! use, after the last call that used an older version there has ended. Each call uses the version that was current when
//! it began.
//! Regions are ordinary memory to the kernel, so a task that is submitted after the copy reads the new words.
//!
//! # Single steps
//!
//! A kernel that also serves others ([`SessionEngine::launch_beside`]) has the opcode `DFA_STEP`, with which tasks of every
//! tenant step the automata of stage two, one byte at a time. [`StepAutomata`] has their numbers, and says what their
//! states mean.

mod arena;
mod caller;
mod config;
mod engine;
mod found;
mod image;
mod kernel;
mod layout;
mod order;
mod pieces;
mod resident;
mod stage_two;
mod step;
mod versions;

pub use arena::HostArena;
pub use config::SessionConfig;
pub use engine::SessionEngine;
pub use layout::KernelShape;
pub use resident::{ResidentCounts, ResidentText};
pub use step::{StepAutomata, StepAutomaton};
