//! What tasks can do without a handler of anyone's own.

use pelton_ir::valid::{Valid, validate};
use pelton_ir::{pass, text};

use super::adapt::Checked;
use super::handler::{Visible, Width};
use crate::protocol::Opcode;

/// What is built in and counted, in the order of its counters.
pub(super) const BUILTIN_OPS: &[Opcode] = &[
    Opcode::NOP,
    Opcode::STORE_U32,
    Opcode::ATOMIC_ADD,
    Opcode::LOAD_U32,
    Opcode::COMPARE_SWAP,
    Opcode::MEMCPY,
    Opcode::BATCH_FENCE,
    Opcode::PRINTF,
    Opcode::PACKED_SLOT,
];

/// Those that are functions of the language.
const FUNCTIONS: &[(Opcode, &str, Visible)] = &[
    (Opcode::NOP, "nop", Visible::Result),
    (Opcode::STORE_U32, "store_u32", Visible::Memory),
    (Opcode::ATOMIC_ADD, "atomic_add", Visible::Memory),
    (Opcode::LOAD_U32, "load_u32", Visible::Memory),
    (Opcode::COMPARE_SWAP, "compare_swap", Visible::Memory),
    (Opcode::MEMCPY, "memcpy", Visible::Memory),
];

/// What has an opcode but does not run yet.
pub const UNIMPLEMENTED_OPS: &[Opcode] = &[Opcode::DFA_STEP, Opcode::LOAD_MISS];

/// The functions that are built in.
pub(super) fn builtin_functions() -> Vec<(Opcode, &'static str, Visible, Checked)> {
    let module = text::parse(include_str!("builtin.pel")).expect("the built-in handlers parse");
    let module: Valid = pass::inline::inline(&validate(module).expect("they are valid"), usize::MAX).module;
    let checked = |name: &str| {
        let func = module.functions.iter().find(|(_, f)| f.name == name).expect("it is there").0;
        Checked { module: module.clone(), func, width: Width::Lane, fueled: false, agreed: false }
    };
    FUNCTIONS.iter().map(|&(op, name, visible)| (op, name, visible, checked(name))).collect()
}
