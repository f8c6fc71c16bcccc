//! Behaviour as data: tests that are Pelton text with the expectation beside it.
//!
//! A filetest is a `.pel` file whose comments say what to do with it. It begins with what to test, may say how to
//! run it, and may end with what must come out:
//!
//! ```text
//! ; test run
//! ; test print
//! buffer out: [u32; 4] global write
//!
//! kernel main {
//!   %i = lane
//!   store @out[%i], %i
//! }
//! ; run: lanes=4 -> out=[0 1 2 3]
//!
//! ; output:
//! ;> buffer out: [u32; 4] global write
//! ;> …
//! ```
//!
//! | line | says |
//! |---|---|
//! | `; test COMMAND [ARG…]` | what to do; the file begins with one or more of them |
//! | `; run: [kernel=NAME] [groups=N] [lanes=N] [subgroup=N] [buf=INIT…] -> [buf=VALUES…] [done\|stopped\|trap=CODE] [fault=CODE]` | a launch and how it ends |
//! | `; litmus: rounds=N [as above]` | a launch to repeat under ever other schedules |
//! | `; forbidden: buf=VALUES…` | what no round of the litmus line above may give |
//! | `; seen: buf=VALUES…` | what some round of it must give |
//! | `; output:` and `;> …` | what the command prints, at the end of the file; `BLESS=1` rewrites it |
//!
//! What stands for INIT and VALUES is said in [`init`]. A buffer may be written `@buf`, and must be if it is called
//! like one of the settings. Buffers of fixed length that a line does not name start as zeros. Geometry that it does
//! not name is one group of one lane, in subgroups of 32.
//!
//! Each command is a file of its own behind the trait [`Command`](command::Command); each device is a
//! [`Target`](target::Target). A [`Suite`](suite::Suite) makes named tests of both, such as
//! `run/add.pel@reference`; a device that is not there has its tests listed as ignored.

pub mod bind;
pub mod command;
pub mod data;
pub mod device;
pub mod diff;
pub mod emit;
pub mod failure;
pub mod file;
pub mod init;
pub mod kernel;
pub mod line;
pub mod near;
pub mod opt;
pub mod ptxas;
pub mod replace;
pub mod suite;
pub mod target;
pub mod totals;

mod invalid;
mod litmus;
mod print;
mod run;
