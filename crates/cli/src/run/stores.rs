//! Which tasks may leave something in memory for others.

use pelton::{Opcode, Spec};
use pelton_ir::module::Module;
use pelton_ir::types::Access;

use super::task::TaskOrder;

/// The built-in opcodes whose tasks change memory or an epoch, or may do so.
const BUILT_IN: [Opcode; 6] = [
    Opcode::STORE_U32,
    Opcode::ATOMIC_ADD,
    Opcode::COMPARE_SWAP,
    Opcode::MEMCPY,
    Opcode::PACKED_SLOT,
    Opcode::BATCH_FENCE,
];

/// The opcodes whose tasks may store something that later tasks find.
pub(super) struct StoringOps(Vec<Opcode>);

impl StoringOps {
    pub(super) fn new(spec: &Spec) -> Self {
        let handlers = spec.handlers.iter().filter(|handler| may_store(&handler.module));
        StoringOps(handlers.map(|handler| handler.op).chain(BUILT_IN).collect())
    }

    /// Whether the task is one of these. A graph counts as one, because its nodes may be.
    pub(super) fn include(&self, order: &TaskOrder) -> bool {
        order.graph.is_some() || self.0.contains(&order.task.op)
    }
}

/// Whether a handler can store anything in a region. Frames and replies belong to one task.
fn may_store(module: &Module) -> bool {
    let own = ["frame", "reply"];
    module.buffers.iter().any(|(_, buffer)| buffer.access != Access::Read && !own.contains(&&*buffer.name))
}
