//! The built-in operations, which tasks can use without a handler of the user.

use pelton_ir::valid::{Valid, validate};
use pelton_ir::{pass, text};

use super::adapt::{HandlerCode, PlaceUse};
use super::handler::{Visible, Width};
use super::layout::Layout;
use crate::error::SubmitError;
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
pub const UNIMPLEMENTED_OPS: &[Opcode] = &[Opcode::LOAD_MISS];

/// The opcodes of the protocol that are not built in, and for which a `Spec` may give a handler. Submitting one of them to
/// a kernel without such a handler is an error. The text says which kernels have a handler.
pub const PROVIDED_OPS: &[(Opcode, &str)] =
    &[(Opcode::DFA_STEP, "this kernel has no automata; kernels with a catalog of rules have them")];

/// The opcodes of the protocol that only kernels with a certain axis have. Submitting one of them to another kernel is an
/// error. The text says which kernels have it.
const AXIS_OPS: &[(Opcode, &str)] = &[
    (Opcode::LAUNCH_GRAPH, "this kernel has no graphs; `Spec::graph` and `Spec::graph_nodes` give it some"),
    (Opcode::SIGNAL, "the tenants of this kernel have no events; `Spec::events` gives them some"),
];

/// Returns the index of an opcode in [`PROVIDED_OPS`], or `None` if it is not there.
pub(crate) fn provided_index(op: Opcode) -> Option<usize> {
    PROVIDED_OPS.iter().position(|(provided, _)| *provided == op)
}

/// Refuses an opcode of the protocol that only some kernels have, if this kernel is none of them.
pub(crate) fn check_provided(op: Opcode, layout: &Layout) -> Result<(), SubmitError> {
    let conditional = provided_index(op).is_some() || AXIS_OPS.iter().any(|(known, _)| *known == op);
    let missing = conditional && !layout.ops.contains(&op);
    if missing { Err(SubmitError::NotImplemented(op)) } else { Ok(()) }
}

/// Returns whether tasks of an opcode run in their slots only, because the opcode is part of the protocol and no function of
/// the language.
pub(crate) fn lives_in_no_cell(op: Opcode) -> bool {
    let function = is_builtin_function(op) || provided_index(op).is_some();
    op.is_reserved() && !function && op != Opcode::LAUNCH_GRAPH
}

/// Returns why a kernel may lack an operation of the protocol, as a clause.
pub(crate) fn why_missing(op: Opcode) -> &'static str {
    let mut known = PROVIDED_OPS.iter().chain(AXIS_OPS);
    known.find(|(known, _)| *known == op).map_or("it is not implemented yet", |(_, why)| why)
}

/// Returns whether an opcode is that of a built-in function, which needs nothing but its arguments and its tenant.
pub(crate) fn is_builtin_function(op: Opcode) -> bool {
    FUNCTIONS.iter().any(|(known, ..)| *known == op)
}

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
            sees_faults: false,
            frame_words: 0,
            agreed: false,
            places: PlaceUse::default(),
        }
    };
    FUNCTIONS.iter().map(|&(op, name, visible)| (op, name, visible, checked(name))).collect()
}
