//! Which operations a node can run.

use std::collections::{HashMap, HashSet};

use super::{NodeOp, NodeOpError};
use crate::kernel::{SlotBody, Spec, UNIMPLEMENTED_OPS, is_builtin_function, provided_index, why_missing};
use crate::protocol::Opcode;

/// The opcodes of the protocol that a task can have and a node cannot, each with the reason.
const NOT_NODES: &[(Opcode, &str)] = &[
    (Opcode::BATCH_FENCE, "it waits for the slots before its own, and a node has no slot; edges order nodes"),
    (Opcode::PRINTF, "its line names the slot of the task, and a node has no slot"),
    (Opcode::PACKED_SLOT, "it packs several operations into one slot; make each of them a node"),
    (
        Opcode::LAUNCH_GRAPH,
        "only a task that was submitted can launch a graph; make the nodes of both one graph",
    ),
    (Opcode::SIGNAL, "only a task in a slot signals by an opcode; let the handler of a node call `signal`"),
    (Opcode::CANCEL, "it takes back a task that waits in a ring"),
    (Opcode::SHUTDOWN, "it ends the pass over a drained batch"),
];

/// Finds the opcodes of nodes in a `Spec`.
pub(crate) struct OpFinder<'s> {
    spec: &'s Spec,
    names: HashMap<&'s str, Opcode>,
    codes: HashSet<Opcode>,
}

impl<'s> OpFinder<'s> {
    /// Prepares to find the opcodes of any number of nodes.
    pub(crate) fn new(spec: &'s Spec) -> Self {
        // As everywhere, the first of several handlers with the same name counts.
        let names = spec.handlers.iter().rev().map(|known| (known.name.as_str(), known.op)).collect();
        OpFinder { spec, names, codes: spec.handlers.iter().map(|known| known.op).collect() }
    }

    /// Returns the opcode of an operation, or why a node cannot run it.
    pub(crate) fn find(&self, op: &NodeOp) -> Result<Opcode, NodeOpError> {
        let op = match op {
            NodeOp::Code(op) => *op,
            NodeOp::Named(name) => match self.names.get(name.as_str()) {
                Some(op) => *op,
                None => self.spec.opcode(name)?,
            },
        };
        let refuse = |why| Err(NodeOpError::NotNode { op, why });
        if let Some((_, why)) = NOT_NODES.iter().find(|(known, _)| *known == op) {
            return refuse(why);
        }
        if self.codes.contains(&op) {
            return Ok(op);
        }
        if UNIMPLEMENTED_OPS.contains(&op) || provided_index(op).is_some() {
            return refuse(why_missing(op));
        }
        match (is_builtin_function(op), self.spec.body) {
            (true, SlotBody::Dispatch) => Ok(op),
            (true, SlotBody::Fused) => refuse("a fused kernel has no built-in operations"),
            (false, _) => Err(NodeOpError::NoHandler(op)),
        }
    }
}
