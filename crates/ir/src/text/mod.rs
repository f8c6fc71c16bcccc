//! The textual form of modules, in which people read and write the language.
//!
//! [`parse()`] and [`print()`] are inverse: `parse(&print(&m)) == m` for every module within the
//! [limits](crate::limits) whose names are distinct. Names of values and labels are kept. Where a name is missing or
//! is taken twice, the handle is printed instead.
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
//! The [form](crate::op::OpForm) of an op defines what follows its name; for control ops, the row of the op table does.
//! White space and line ends only separate tokens. A comment starts with `;` and ends with its line. The results of ops
//! with regions must have their types written. The types of other results follow from the op; a type that is written
//! nevertheless is taken over, and the validator checks it. An empty `yield` or `return` at the end of a region is not
//! written, and neither is an empty `else` or `default`.

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

/// What a line of a printed module shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum PrintedLine {
    /// The need with this index.
    Need(usize),
    /// A buffer's declaration.
    Buffer(Buffer),
    /// The head of a function.
    Head(Func),
    /// An instruction. Of an instruction with regions, the line shows the head.
    Inst(Func, Inst),
    /// The head of a region that has one of its own: `} else {`, `} do {`, `case 1 {`, `default {`.
    Arm(Func, Region),
    /// The brace that ends a region.
    End(Func, Region),
    /// The brace that ends a switch.
    Close(Func, Inst),
}
