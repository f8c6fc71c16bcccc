//! One instruction as the text writes it.

use super::print::{Hook, ModulePrinter, Scope, push};
use crate::arena::{Buffer, Inst};
use crate::module::{Attr, Node, Operand};
use crate::op::{Op, OpForm};
use crate::types::Type;
use crate::write;

impl<H: Hook> ModulePrinter<'_, H> {
    /// Prints an instruction, of one with regions the head.
    pub(crate) fn inst(&mut self, scope: Scope<'_>, inst: Inst) {
        let node = scope.function.inst(inst);
        if !node.results.is_empty() {
            let typed = node.op.has_regions() || !self.usual(scope, node);
            self.list(node.results.iter(), |p, value| {
                push(&mut p.out, format_args!("{}", scope.names.value(value)));
                if typed {
                    push(&mut p.out, format_args!(": {}", scope.function.ty(value)));
                }
            });
            self.out.push_str(" = ");
        }
        self.out.push_str(node.op.row().name);
        if node.op.has_regions() { self.nest(scope, inst, node) } else { self.rest(scope, node) }
    }

    /// Whether an instruction's results are of the types that its row gives.
    fn usual(&self, scope: Scope<'_>, node: &Node) -> bool {
        let ty = |operand: &Operand| match operand {
            Operand::Value(value) => scope.function.values.get(*value).copied().unwrap_or(Type::U32),
            Operand::Const(c) => c.ty(),
        };
        let args: Vec<Type> = node.args.iter().map(ty).collect();
        let types = write::result_types(self.module, node.op, &node.attr, &args);
        node.results.iter().map(|value| scope.function.ty(value)).eq(types)
    }

    /// What follows the name of an op that has no regions.
    fn rest(&mut self, scope: Scope<'_>, node: &Node) {
        let mut args = node.args.iter().copied();
        let form = node.op.row().form;
        match &node.attr {
            Attr::None | Attr::Cases(_) => {}
            Attr::Type(ty) => push(&mut self.out, format_args!(" {ty}")),
            Attr::Buffer(buffer) if form == OpForm::Buffer => self.buffer(" ", *buffer),
            Attr::Buffer(buffer) => self.element(" ", *buffer, scope, args.next()),
            Attr::Atomic(buffer, order, reach) => {
                push(&mut self.out, format_args!(" {order} {reach}"));
                self.element(" ", *buffer, scope, args.next());
            }
            Attr::Fence(order, reach) => push(&mut self.out, format_args!(" {order} {reach}")),
            Attr::Copy { to, from } => {
                self.element(" ", *to, scope, args.next());
                self.element(", ", *from, scope, args.next());
            }
            Attr::Call(func) => {
                match self.module.functions.get(*func) {
                    Some(function) => push(&mut self.out, format_args!(" {}(", function.name)),
                    None => push(&mut self.out, format_args!(" {func}(")),
                }
                self.list(args, |p, arg| p.operand(scope, arg));
                return self.out.push(')');
            }
            Attr::Target(inst) => push(&mut self.out, format_args!(" {}", scope.names.target(*inst))),
        }
        let mut first = !matches!(form, OpForm::Place | OpForm::Wide | OpForm::Atomic | OpForm::Copy);
        for arg in args {
            self.out.push_str(if first { " " } else { ", " });
            first = false;
            self.operand(scope, arg);
        }
    }

    /// What follows the name of an op that has regions.
    fn nest(&mut self, scope: Scope<'_>, inst: Inst, node: &Node) {
        let (fixed, carried) = node.args.split_at(node.op.row().args.len().min(node.args.len()));
        let params = node.regions.first().map(|region| scope.function.region(*region).params);
        let mut params = params.into_iter().flat_map(|params| params.iter());
        if scope.names.labelled(inst) && !matches!(node.op, Op::If | Op::Switch) {
            push(&mut self.out, format_args!(" {}", scope.names.target(inst)));
        }
        if node.op == Op::Loop {
            self.out.push(' ');
            if let Some(counter) = params.next() {
                push(&mut self.out, format_args!("{} =", scope.names.value(counter)));
            }
        }
        for (arg, word) in fixed.iter().zip(["", " to", " step"]) {
            push(&mut self.out, format_args!("{word} "));
            self.operand(scope, *arg);
        }
        if !carried.is_empty() {
            self.out.push_str(" with ");
        }
        self.list(params.zip(carried), |p, (value, init)| {
            push(&mut p.out, format_args!("{} = ", scope.names.value(value)));
            p.operand(scope, *init);
        });
        self.out.push_str(" {");
    }

    fn operand(&mut self, scope: Scope<'_>, operand: Operand) {
        match operand {
            Operand::Value(value) => push(&mut self.out, format_args!("{}", scope.names.value(value))),
            Operand::Const(c) => self.hook.literal(c, &mut self.out),
        }
    }

    fn buffer(&mut self, before: &str, buffer: Buffer) {
        match self.module.buffers.get(buffer) {
            Some(decl) => push(&mut self.out, format_args!("{before}@{}", decl.name)),
            None => push(&mut self.out, format_args!("{before}{buffer}")),
        }
    }

    /// `@b[%i]`
    fn element(&mut self, before: &str, buffer: Buffer, scope: Scope<'_>, index: Option<Operand>) {
        self.buffer(before, buffer);
        self.out.push('[');
        if let Some(index) = index {
            self.operand(scope, index);
        }
        self.out.push(']');
    }
}
