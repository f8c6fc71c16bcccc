//! The text of modules: how people read and write the language.
//!
//! [`parse()`] and [`print()`] are inverse: `parse(&print(&m)) == m` for every module within the
//! [limits](crate::limits) whose names can be told apart. Names of values and labels survive; where they are missing
//! or taken twice, the handle stands in their place.
//!
//! ```text
//! module   = need* (import | buffer)* (import | function)*
//! need     = "need" WORD
//! buffer   = "buffer" NAME ":" "[" TYPE ";" (NUMBER | "?") "]" SPACE ACCESS
//! import   = "import" ["uniform"] "fn" head
//! function = ("fn" | "kernel") head region
//! head     = NAME ["(" [%NAME ":" TYPE ","…] ")"] ["->" (TYPE | "(" [TYPE ","…] ")")]
//! region   = "{" inst* "}"
//! inst     = [results "="] OP …
//! results  = %NAME [":" TYPE] ","…
//! operand  = %NAME | constant
//! constant = 7 | 0xff | -7i32 | 7u64 | 0.5 | 1e30 | inf | -inf | nan | nan:0x7fc00001 | true | false
//! NAME     = letters, digits, "_" and ".", the first no digit and no dot
//! ```
//!
//! What follows an op is said by its [form](crate::op::OpForm), or, of control ops, by its row in the op table. White
//! space and line ends only separate; a comment goes from `;` to the end of its line. Results of ops with regions
//! have their types written; those of others are given by the op, and a type that is written anyway is believed,
//! for the validator to judge. The empty `yield` or `return` at the end of a region is not written, nor an empty
//! `else` or `default`.

mod diagnostic;
mod format;
mod lex;
mod listing;
mod names;
mod parse;
mod print;
mod spell;

pub use diagnostic::{ColorMode, Diagnostic, render_diagnostics};
pub use format::format;
pub(crate) use lex::is_name;
pub use listing::{Listing, print_annotated, print_listing};
pub(crate) use parse::{PartialModule, UnsureInsts, partial};
pub use parse::{nearest_name, parse, parse_constant};
pub use print::print;

use crate::arena::{Buffer, Func, Inst, Region};

/// What a line of the text shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum PrintedLine {
    /// The k-th need.
    Need(usize),
    /// A buffer's declaration.
    Buffer(Buffer),
    /// The head of a function.
    Head(Func),
    /// An instruction, of one with regions the head.
    Inst(Func, Inst),
    /// The head of a region that has one of its own: `} else {`, `} do {`, `case 1 {`, `default {`.
    Arm(Func, Region),
    /// The brace that ends a region.
    End(Func, Region),
    /// The brace that ends a switch.
    Close(Func, Inst),
}
