//! Common subexpression elimination, which does not compute again what has been computed.
//!
//! **Law.** A pure op gives way to an equal one that dominates it. In structured regions that is one that stands
//! before it in its own region or one around it; the test of a `while` dominates its body too.
//!
//! A plain load gives way to an equal load if nothing between the two can have changed the word: no store to that
//! buffer, and nothing that may order this lane against another or the host, be it an atomic, a fence, a barrier, a
//! subgroup op, a call, time or a fault. Each buffer has a version that such a thing moves on, and a load is
//! remembered with the version it saw. A loop's body may run after itself, so whatever it writes moves on before it
//! too, and `while` and `forever` move every buffer on: a loop that polls keeps its load. Buffers that nobody writes
//! have one version for ever.

use std::collections::HashMap;

use crate::arena::{Handle, Inst, Values};
use crate::module::{Attr, Function, Module, Node, Operand};
use crate::op::{Op, OpEffect};

use super::algebra::mirror;
use super::effect::{self, BufferSet, EffectSet, frozen};
use super::rewrite::{FunctionCopier, RewriteRule, rewrite};
use super::shape::RegionTree;

/// Merges equal ops in every function.
pub(super) fn apply(module: &mut Module) -> bool {
    let quiet = effect::quiet(module);
    super::rewrite_each(module, |module, function| {
        Some(rewrite(module, function, &mut Cse::new(module, function, &quiet)))
    })
}

/// What makes two ops equal: the op, what it names and the kinds of its operands, and their numbers.
type Key = [u64; 4];

/// The results of an op, and the version of its buffer that it saw.
type Seen = (Values, u64);

struct Cse<'a> {
    /// The ops that dominate the current position.
    seen: HashMap<Key, Seen>,
    /// The entries to restore at the end of each open region.
    undo: Vec<(Key, Option<Seen>)>,
    /// The indices in `undo` at which the open regions begin.
    marks: Vec<usize>,
    /// The version that each buffer got when it was last changed on its own.
    own: Vec<u64>,
    /// The version that all buffers got when they were last changed together.
    all: u64,
    /// The newest version.
    now: u64,
    /// The effects of each loop.
    touches: HashMap<Inst, EffectSet>,
    quiet: &'a [bool],
}

impl<'a> Cse<'a> {
    fn new(module: &Module, function: &Function, quiet: &'a [bool]) -> Self {
        Cse {
            seen: HashMap::new(),
            undo: Vec::new(),
            marks: Vec::new(),
            own: vec![0; module.buffers.len()],
            all: 0,
            now: 0,
            touches: effect::nested(module, function, &RegionTree::new(function).parent, quiet),
            quiet,
        }
    }

    /// Gives a new version to every buffer that an effect may change.
    fn advance(&mut self, module: &Module, touch: EffectSet) {
        self.now += 1;
        if touch.ordered || touch.waits {
            self.all = self.now;
        } else if touch.writes != BufferSet::NONE {
            for buffer in module.buffers.handles().filter(|b| touch.writes.has(*b)) {
                self.own[buffer.index()] = self.now;
            }
        }
    }

    /// Returns the version of the buffer that an instruction reads.
    fn version(&self, module: &Module, node: &Node) -> u64 {
        match node.buffer() {
            Some(b) if node.op.effect() == OpEffect::Read && !frozen(module, b) => {
                self.all.max(self.own[b.index()])
            }
            _ => 0,
        }
    }
}

impl RewriteRule for Cse<'_> {
    fn inst(&mut self, copy: &mut FunctionCopier<'_>, inst: Inst) -> bool {
        let (module, node) = (copy.module, copy.from.inst(inst));
        if node.op.has_regions() {
            match node.op {
                Op::While | Op::Forever => self.advance(module, EffectSet::UNKNOWN),
                Op::Loop => self.advance(module, self.touches[&inst]),
                _ => {}
            }
            return false;
        }
        match (node.op.effect(), &node.attr) {
            (OpEffect::Pure | OpEffect::Read, _) => {}
            (OpEffect::Write, Attr::Buffer(b)) => {
                self.now += 1;
                self.own[b.index()] = self.now;
                return false;
            }
            _ => {
                self.advance(module, EffectSet::from_node(module, node, self.quiet));
                return false;
            }
        }
        let key = key(copy, node);
        let version = self.version(module, node);
        match self.seen.get(&key) {
            Some((values, then)) if *then == version => {
                let values = values.iter().map(Operand::Value).collect::<Vec<_>>();
                copy.bind(node.results, &values);
            }
            _ => {
                let Some(new) = copy.plain(inst) else { return true };
                let results = copy.to.function().inst(new).results;
                let old = self.seen.insert(key, (results, version));
                self.undo.push((key, old));
            }
        }
        true
    }

    fn enter(&mut self, copy: &mut FunctionCopier<'_>, inst: Inst, at: usize) {
        if at == 0 || copy.from.inst(inst).op != Op::While {
            self.marks.push(self.undo.len());
        }
    }

    fn leave(&mut self, copy: &mut FunctionCopier<'_>, inst: Inst, at: usize) {
        if at == 0 && copy.from.inst(inst).op == Op::While {
            return;
        }
        let mark = self.marks.pop().unwrap_or(0);
        for (key, old) in self.undo.drain(mark..).rev() {
            match old {
                Some(old) => self.seen.insert(key, old),
                None => self.seen.remove(&key),
            };
        }
    }
}

/// The key of an op; of two operands that may be exchanged, the same comes first in all equal ops.
fn key(copy: &FunctionCopier<'_>, node: &Node) -> Key {
    let mut args = [0, 1, 2].map(|k| node.args.get(k).map_or((0, 0), |arg| rank(copy.operand(*arg))));
    let mut op = node.op;
    if let Some(mirrored) = mirror(op).filter(|_| args[1] < args[0]) {
        args.swap(0, 1);
        op = mirrored;
    }
    let named = match node.attr {
        Attr::Type(ty) => ty as u64 + 1,
        Attr::Buffer(b) => b.index() as u64 + 1,
        _ => 0,
    };
    let [(a, x), (b, y), (c, z)] = args;
    [op as u64 | named << 32 | a << 8 | b << 16 | c << 24, x, y, z]
}

/// An operand's kind and number; 0 is the kind of none.
fn rank(operand: Operand) -> (u64, u64) {
    match operand {
        Operand::Value(value) => (1, value.index() as u64),
        Operand::Const(c) => (2 + c.ty() as u64, c.bits()),
    }
}
