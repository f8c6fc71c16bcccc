//! How large handlers may be, alone and together.

use pelton_device::Caps;
use pelton_ir::arena::{Func, Region};
use pelton_ir::limits::{MAX_BUFFERS, MAX_DEPTH, MAX_INSTS, MAX_NAME, MAX_SHARED};
use pelton_ir::module::{BufferDecl, Function, Module, Node};
use pelton_ir::types::{Len, Space};
use pelton_ir::valid::Valid;

use super::refuse_handler;
use crate::kernel::dispatch::CheckedHandler;
use crate::kernel::error::AssembleError;
use crate::kernel::handler::NamedHandler;

/// How deep the regions of a handler may be nested. The kernel around it needs the rest of the depth that the language
/// allows.
const MAX_HANDLER_DEPTH: usize = MAX_DEPTH - 48;
/// The most instructions of all handlers together. A kernel has several copies of each handler.
const MAX_HANDLER_INSTS: usize = MAX_INSTS / 8;
/// How many instructions an access to memory counts for, because a checked access takes about this many.
const ACCESS_INSTS: usize = 24;
/// The longest name of a handler or of one of its shared buffers, in bytes. The kernel has names that are made of both.
const MAX_HANDLER_NAME: usize = MAX_NAME / 2 - 4;
/// The most shared buffers of all handlers together.
const MAX_HANDLER_BUFFERS: usize = MAX_BUFFERS / 2;

/// Refuses a handler that is too large for any kernel.
pub(super) fn check_size_alone(
    handler: &NamedHandler,
    module: &Valid,
    func: Func,
) -> Result<(), AssembleError> {
    let refuse = |why: String| Err(refuse_handler(handler, why));
    let function = &module.functions[func];
    let depth = nesting_depth(function, function.body);
    if depth > MAX_HANDLER_DEPTH {
        return refuse(format!(
            "its regions are nested {depth} deep; those of a handler may be at most {MAX_HANDLER_DEPTH} deep"
        ));
    }
    let shared = module.buffers.iter().filter(|(_, decl)| decl.space == Space::Shared);
    let mut names = shared.map(|(_, decl)| &*decl.name).chain([&*handler.name]);
    match names.find(|name| name.len() > MAX_HANDLER_NAME) {
        Some(name) => refuse(format!("the name {name:?} is longer than {MAX_HANDLER_NAME} bytes")),
        None => Ok(()),
    }
}

/// How deep regions are nested, this one included.
fn nesting_depth(function: &Function, region: Region) -> usize {
    let inner = function.region(region).insts.iter().flat_map(|inst| &function.inst(*inst).regions);
    1 + inner.map(|region| nesting_depth(function, *region)).max().unwrap_or(0)
}

/// Refuses handlers that are too large together, by the first handler with which they are.
pub(super) fn check_sizes_together(handlers: &[CheckedHandler<'_>]) -> Result<(), AssembleError> {
    let (mut insts, mut buffers) = (0, 0);
    for CheckedHandler { handler, code, .. } in handlers {
        let refuse = |what: &str, found: usize, most: usize| {
            let why = format!(
                "together with the handlers before it, it has {found} {what}; all handlers of a kernel may have {most}"
            );
            Err(refuse_handler(handler, why))
        };
        let weigh = |node: &Node| if node.buffer().is_some() { ACCESS_INSTS } else { 1 };
        insts += code.module.functions[code.func].insts().map(|(_, node)| weigh(node)).sum::<usize>();
        if insts > MAX_HANDLER_INSTS {
            return refuse("instructions", insts, MAX_HANDLER_INSTS);
        }
        buffers += shared_buffers(&code.module).count();
        if buffers > MAX_HANDLER_BUFFERS {
            return refuse("shared buffers", buffers, MAX_HANDLER_BUFFERS);
        }
    }
    Ok(())
}

/// Refuses a kernel that needs more shared memory than a group has: by the handler that takes most of it, or because there
/// are too many rings for a group even without handlers.
pub(super) fn check_shared_memory(
    caps: &Caps,
    handlers: &[CheckedHandler<'_>],
    module: &Module,
) -> Result<(), AssembleError> {
    let (all, most) = (shared_bytes(module), (caps.shared_bytes as u64).min(MAX_SHARED));
    let of_handlers = handlers.iter().map(|handler| shared_bytes(&handler.code.module)).sum();
    let found = all.saturating_sub(of_handlers);
    if found > most {
        let what = "the number of bytes of shared memory that a group needs for the rings that it polls and its window";
        return Err(AssembleError::Size { what, found, most });
    }
    match handlers.iter().max_by_key(|handler| shared_bytes(&handler.code.module)) {
        Some(largest) if all > most => {
            let own = shared_bytes(&largest.code.module);
            let why = format!(
                "it takes {own} of the {all} bytes of shared memory that this kernel needs, and a group of this device has {most}"
            );
            Err(refuse_handler(largest.handler, why))
        }
        _ => Ok(()),
    }
}

/// The shared buffers of a module.
fn shared_buffers(module: &Module) -> impl Iterator<Item = &BufferDecl> {
    module.buffers.iter().map(|(_, decl)| decl).filter(|decl| decl.space == Space::Shared)
}

/// How many bytes the shared buffers of a module take.
fn shared_bytes(module: &Module) -> u64 {
    let bytes = |decl: &BufferDecl| match decl.len {
        Len::Fixed(len) => len.saturating_mul(u64::from(decl.elem.bits() / 8)),
        Len::Launch => 0,
    };
    shared_buffers(module).map(bytes).fold(0, u64::saturating_add)
}
