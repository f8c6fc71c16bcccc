//! The checks of memory accesses: the buffer's access and space, and the order, the scope and the index.

use super::Rule;
use super::error::{CheckResult, fail};
use super::types::either;
use super::walk::FunctionCheck;
use crate::arena::Buffer;
use crate::module::{Attr, BufferDecl, Node, Operand, elements_per_wide};
use crate::op::{Op, OpEffect, OpForm};
use crate::types::{Len, Order, Scope, Space, Type};

impl FunctionCheck<'_> {
    /// Checks that the buffers that an instruction names are declared.
    pub(crate) fn buffers(&self, node: &Node) -> CheckResult {
        let (first, second) = match node.attr {
            Attr::Buffer(b) | Attr::Atomic(b, ..) => (b, b),
            Attr::Copy { to, from } => (to, from),
            _ => return Ok(()),
        };
        match [first, second].into_iter().find(|b| self.module.buffers.get(*b).is_none()) {
            Some(b) => fail(Rule::Buffer, format!("the module has no buffer `{b}`")),
            None => Ok(()),
        }
    }

    /// Checks that an instruction may access its buffers in this way. Its types have been checked before.
    pub(crate) fn memory(&self, node: &Node) -> CheckResult {
        let row = node.op.row();
        match (row.form, &node.attr) {
            (OpForm::Fence, Attr::Fence(Order::Relaxed, _)) => {
                fail(Rule::FenceOrder, "a relaxed fence orders nothing: write `acq_rel`")
            }
            (OpForm::Place | OpForm::Wide | OpForm::Atomic, Attr::Buffer(b) | Attr::Atomic(b, ..)) => {
                let decl = &self.module.buffers[*b];
                // An op that has a result loads, and an op that has more operands than an index stores.
                let stores = row.effect != OpEffect::Read && row.args.len() > 1;
                self.access(node, *b, !row.results.is_empty(), stores)?;
                if let Attr::Atomic(_, order, scope) = node.attr {
                    atomic(node.op, decl, order, scope)?;
                }
                index(node, decl, node.args.first(), row.form == OpForm::Wide)?;
                byte(node, decl)
            }
            (OpForm::Copy, Attr::Copy { to, from }) => {
                let (a, b) = (&self.module.buffers[*to], &self.module.buffers[*from]);
                let (to_elem, from_elem) = (a.elem, b.elem);
                if to_elem != from_elem && ![to_elem, from_elem].contains(&Type::Bool) {
                    return fail(
                        Rule::Copy,
                        format!(
                            "`async_load` copies {from_elem} elements to {to_elem} elements: both must be of one type"
                        ),
                    );
                }
                self.access(node, *to, false, true)?;
                self.access(node, *from, true, false)?;
                index(node, a, node.args.first(), false)?;
                index(node, b, node.args.get(1), false)
            }
            _ => Ok(()),
        }
    }

    fn access(&self, node: &Node, buffer: Buffer, reads: bool, writes: bool) -> CheckResult {
        let BufferDecl { name, access, space, .. } = &self.module.buffers[buffer];
        // A shared buffer with another access has been refused at its declaration.
        if *space == Space::Shared {
            return Ok(());
        }
        let op = node.op.row().name;
        if reads && !access.reads() {
            return fail(
                Rule::Read,
                format!("`{op}` reads `@{name}`, which is `{access}`: declare it `read_write`"),
            );
        }
        if writes && !access.writes() {
            return fail(
                Rule::Write,
                format!("`{op}` writes `@{name}`, which is `{access}`: declare it `read_write`"),
            );
        }
        Ok(())
    }
}

/// Checks that a buffer allows an atomic op with this order and scope.
fn atomic(op: Op, decl: &BufferDecl, order: Order, scope: Scope) -> CheckResult {
    let name = op.row().name;
    if op.is_read_modify_write() && decl.space == Space::Host {
        let buffer = &decl.name;
        let hint = "each word of it has one writer, so use `atomic_load` and `atomic_store`";
        return fail(
            Rule::HostAtomic,
            format!("`{name}` modifies `@{buffer}`, which is a host buffer: {hint}"),
        );
    }
    let allowed: &[Order] = match op {
        Op::AtomicLoad => &[Order::Relaxed, Order::Acquire],
        Op::AtomicStore => &[Order::Relaxed, Order::Release],
        Op::LoadWide | Op::StoreWide => &[Order::Relaxed],
        _ => &[Order::Relaxed, Order::Acquire, Order::Release, Order::AcqRel],
    };
    if !allowed.contains(&order) {
        let words: Vec<String> = allowed.iter().map(|order| format!("`{order}`")).collect();
        let fence = if matches!(order, Order::SeqCst) { "; only fences are `seq_cst`" } else { "" };
        let text = format!("`{name}` cannot be `{order}`: write {}{fence}", either(&words));
        return fail(Rule::AtomicOrder, text);
    }
    if decl.space == Space::Shared && scope != Scope::Group {
        let buffer = &decl.name;
        let text =
            format!("`@{buffer}` is shared, so only its group sees it: write `group` instead of `{scope}`");
        return fail(Rule::SharedScope, text);
    }
    Ok(())
}

/// Checks that a constant index is in range, if the length of the buffer is known.
fn index(node: &Node, decl: &BufferDecl, at: Option<&Operand>, whole: bool) -> CheckResult {
    let (Len::Fixed(len), Some(Operand::Const(c))) = (decl.len, at) else { return Ok(()) };
    // A buffer without elements has been refused at its declaration.
    let Some(last) = len.checked_sub(1) else { return Ok(()) };
    let name = &decl.name;
    if c.bits() > last {
        let text =
            format!("`@{name}` has {len} elements, so the index {c} is out of range: the last is {last}");
        return fail(Rule::Index, text);
    }
    let many = elements_per_wide(decl.elem) as u64;
    if whole && c.bits() / many * many + many > len {
        let op = node.op.row().name;
        let text =
            format!("`{op}` at {c} reaches past the {len} elements of `@{name}`: it takes {many} at once");
        return fail(Rule::Index, text);
    }
    Ok(())
}

/// Checks that the byte that a `load_byte` names is a byte of an element, if it is a constant.
fn byte(node: &Node, decl: &BufferDecl) -> CheckResult {
    let (Op::LoadByte, Some(Operand::Const(byte))) = (node.op, node.args.get(1)) else { return Ok(()) };
    let bytes = decl.elem.bytes();
    if byte.bits() < bytes.into() {
        return Ok(());
    }
    let (name, last) = (&decl.name, bytes - 1);
    let text = format!(
        "an element of `@{name}` has {bytes} bytes, so byte {byte} is out of range: the last is {last}"
    );
    fail(Rule::Index, text)
}
