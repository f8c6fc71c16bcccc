//! The built-in operations, which tasks can use without a handler of the user.

use pelton_ir::valid::{Valid, validate};
use pelton_ir::{pass, text};

use super::adapt::{HandlerCode, PlaceUse};
use super::handler::{Visible, Width};
use crate::protocol::Opcode;

/// The built-in opcodes that have a counter, in the order of their counters.
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

/// The built-in opcodes that are functions of the language.
const FUNCTIONS: &[(Opcode, &str, Visible)] = &[
    (Opcode::NOP, "nop", Visible::Result),
    (Opcode::STORE_U32, "store_u32", Visible::Memory),
    (Opcode::ATOMIC_ADD, "atomic_add", Visible::Memory),
    (Opcode::LOAD_U32, "load_u32", Visible::Memory),
    (Opcode::COMPARE_SWAP, "compare_swap", Visible::Memory),
    (Opcode::MEMCPY, "memcpy", Visible::Memory),
];

/// The opcodes that are part of the protocol but cannot be run yet. Submitting them is an error.
pub const UNIMPLEMENTED_OPS: &[Opcode] = &[Opcode::DFA_STEP, Opcode::LOAD_MISS];

/// Returns the built-in functions, ready to be put into a kernel.
pub(super) fn builtin_functions() -> Vec<(Opcode, &'static str, Visible, HandlerCode)> {
    let module = text::parse(include_str!("builtin.pel")).expect("the built-in handlers parse");
    let module: Valid =
        pass::inline::inline_calls(&validate(module).expect("the built-in handlers are valid"), usize::MAX)
            .module;
    let checked = |name: &str| {
        let func = module
            .functions
            .iter()
            .find(|(_, f)| f.name == name)
            .expect("every built-in function is in the text")
            .0;
        HandlerCode {
            module: module.clone(),
            func,
            width: Width::Lane,
            fueled: false,
            resumable: false,
            frame_words: 0,
            agreed: false,
            places: PlaceUse::default(),
        }
    };
    FUNCTIONS.iter().map(|&(op, name, visible)| (op, name, visible, checked(name))).collect()
}
