//! Which tasks may leave something in memory for others, and which may find it there.

use pelton::{Opcode, Spec};
use pelton_ir::module::{BufferDecl, Module};
use pelton_ir::types::{Access, Space};

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

/// The tasks whose results may depend on what other tasks have stored.
#[derive(Default)]
pub(super) struct ReadingOps {
    /// The names of handlers that find nothing but their own task.
    apart: Vec<String>,
}

impl ReadingOps {
    pub(super) fn new(spec: &Spec) -> Self {
        let stored: Vec<&str> =
            spec.handlers.iter().flat_map(|handler| stored_regions(&handler.module)).collect();
        // Built-in operations store in `data`.
        let may_change = |region: &str| region == "data" || stored.contains(&region);
        let is_apart =
            |module: &Module| module.imports().next().is_none() && !read_regions(module).any(may_change);
        let apart = spec.handlers.iter().filter(|handler| is_apart(&handler.module));
        ReadingOps { apart: apart.map(|handler| handler.name.clone()).collect() }
    }

    /// Whether a task of a recording, given as its line, is one of these. One that cannot be read counts as one.
    pub(super) fn include_named(&self, line: &str) -> bool {
        let task: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        task["op"].as_str().is_none_or(|op| !self.apart.iter().any(|apart| apart == op))
    }
}

/// The buffers of a handler that other tasks can reach: all but those that belong to its task.
fn regions(module: &Module) -> impl Iterator<Item = &BufferDecl> {
    let own = ["arg", "frame", "payload", "reply"];
    let buffers = module.buffers.iter().map(|(_, buffer)| buffer);
    buffers.filter(move |buffer| buffer.space != Space::Shared && !own.contains(&&*buffer.name))
}

fn stored_regions(module: &Module) -> impl Iterator<Item = &str> {
    regions(module).filter(|buffer| buffer.access != Access::Read).map(|buffer| &*buffer.name)
}

fn read_regions(module: &Module) -> impl Iterator<Item = &str> {
    regions(module).filter(|buffer| buffer.access != Access::Write).map(|buffer| &*buffer.name)
}
