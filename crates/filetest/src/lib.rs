//! Tests as data: a filetest is Pelton text with the expected behaviour written beside it.
//!
//! A filetest is a `.pel` file whose comments say how to test it. It begins with the commands to test it with, may
//! say how to launch it, and may end with the expected output:
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
//! | line | meaning |
//! |---|---|
//! | `; test COMMAND [ARG…]` | a command to test the file with; the file begins with one or more such lines |
//! | `; run: [kernel=NAME] [groups=N] [lanes=N] [subgroup=N] [buf=INIT…] -> [buf=VALUES…] [done\|stopped\|trap=CODE] [fault=CODE]` | a launch, and how it must end |
//! | `; library:` and `;\| …` | a module that imports are bound to before the command runs; a file may have several |
//! | `; litmus: rounds=N [as above]` | a launch to repeat, each time under another schedule |
//! | `; forbidden: buf=VALUES…` | an outcome that no round of the litmus line above may have |
//! | `; seen: buf=VALUES…` | an outcome that at least one of its rounds must have |
//! | `; output:` and `;> …` | what the command must print, at the end of the file; `BLESS=1` rewrites it |
//!
//! The module [`init`] describes what INIT and VALUES can be. A buffer may be written as `@buf`, and must be if it
//! has the same name as one of the settings. Buffers of fixed length that a line does not name start as zeros. A
//! line that does not say otherwise launches one group of one lane, in subgroups of 32.
//!
//! Each command is one file, behind the trait [`TestCommand`](command::TestCommand); each device is a
//! [`TestTarget`](target::TestTarget). A [`Suite`](suite::Suite) combines both into named tests, such as
//! `run/add.pel@reference`. The tests of an absent device are listed as ignored.

pub mod bind;
pub mod command;
pub mod data;
pub mod device;
pub mod diff;
pub mod emit;
pub mod failure;
pub mod file;
pub mod hint;
pub mod init;
pub mod kernel;
pub mod line;

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
mod verb;

pub use crate::run::valid_module;
