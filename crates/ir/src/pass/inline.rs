//! Inlining, which replaces a call by the body of the called function.
//!
//! **Law.** The callee's parameters are the call's operands. If the callee returns at its end alone, its body
//! takes the place of the call; otherwise the body is a block, its last `return` the block's `yield`, and any
//! other leaves the block. Functions call earlier ones, so callees are done before their callers, and what is
//! inlined has no calls but those that had to stay. Calls of imports always stay.
//!
//! **Growth.** A chain of functions each of which calls the one before twice would double at every step. So
//! inlining adds at most `limit` instructions to the module in all, and a call that would go beyond that, or nest
//! regions deeper than the language allows, stays and is reported.

use crate::arena::{Func, Handle, Inst};
use crate::limits::{MAX_DEPTH, MAX_INSTS};
use crate::module::{Attr, Function, Module, Node, Site};
use crate::op::Op;
use crate::valid::Valid;

use super::rewrite::{FunctionCopier, RewriteRule, rewrite};
use super::shape::{RegionTree, last};

/// The most instructions that inlining may add to a module in the pipeline.
pub const LIMIT: usize = 1 << 15;

/// The outcome of inlining.
#[derive(Clone, Debug)]
pub struct Inlined {
    /// The module with calls inlined.
    pub module: Valid,
    /// The calls that are left in the module's kernels.
    pub left: Vec<Site>,
}

/// Inlines calls until the module has grown by `limit` instructions. A device that cannot call functions passes
/// [`MAX_INSTS`] and refuses a module that still has calls.
pub fn inline_calls(module: &Valid, limit: usize) -> Inlined {
    let mut work = Module::clone(module);
    apply(&mut work, limit);
    let module = super::validated(work, module);
    let calls = |func: Func| {
        let calls = module.functions[func].insts().filter(|(_, node)| node.op == Op::Call);
        calls.map(move |(inst, _)| Site { func, inst })
    };
    let left = module.kernels().flat_map(calls).collect();
    Inlined { module, left }
}

/// Inlines calls in every function, in order.
pub(super) fn apply(module: &mut Module, limit: usize) -> bool {
    let size: usize = module.functions.iter().map(|(_, f)| f.insts().len()).sum();
    let mut budget = limit.min(MAX_INSTS.saturating_sub(size));
    let mut callees: Vec<Option<InlineCallee>> = Vec::new();
    let mut changed = false;
    for func in module.functions.handles() {
        let function = &module.functions[func];
        if function.insts().any(|(_, node)| node.op == Op::Call) {
            let mut rule = Inline { callees: &callees, budget };
            let new = rewrite(module, function, &mut rule);
            budget = rule.budget;
            if new != *function {
                changed = true;
                module.functions[func] = new;
            }
        }
        let function = &module.functions[func];
        callees.push((!function.is_import()).then(|| InlineCallee::new(function)));
    }
    changed
}

/// What inlining must know about a function that is called.
struct InlineCallee {
    size: usize,
    /// How deep the function's regions are nested, the body included.
    depth: usize,
    /// Whether the function returns anywhere but at its end.
    early: bool,
}

impl InlineCallee {
    fn new(function: &Function) -> InlineCallee {
        let shape = RegionTree::new(function);
        let mut depths = vec![1; shape.parent.len()];
        for (at, parent) in shape.parent.iter().enumerate() {
            depths[at] = parent.map_or(1, |parent| depths[parent.index()] + 1);
        }
        let nested =
            |(inst, node): (Inst, &Node)| node.op == Op::Return && shape.parent[inst.index()].is_some();
        InlineCallee {
            size: function.insts().len(),
            depth: depths.into_iter().max().unwrap_or(1),
            early: function.insts().any(nested),
        }
    }
}

struct Inline<'c> {
    /// The functions so far; none for an import, which has no body to put anywhere.
    callees: &'c [Option<InlineCallee>],
    budget: usize,
}

impl RewriteRule for Inline<'_> {
    fn inst(&mut self, copy: &mut FunctionCopier<'_>, inst: Inst) -> bool {
        let node = copy.from.inst(inst);
        let Attr::Call(func) = node.attr else { return false };
        let Some(callee) = &self.callees[func.index()] else { return false };
        let depth = copy.to.depth() + callee.depth - usize::from(!callee.early);
        if callee.size > self.budget || depth > MAX_DEPTH {
            return false;
        }
        self.budget -= callee.size;
        let (function, args) = (&copy.module.functions[func], copy.operands(&node.args));
        let end = last(function, function.body);
        if callee.early {
            let block = copy.write_inst(inst, Op::Block, Attr::None, Vec::new());
            copy.to.open_region(block, &[]);
            copy.within(function, &args, |copy| copy.insts(&mut InlinedBody { block, end }, function.body));
            copy.to.close_region();
        } else {
            let results = copy.within(function, &args, |copy| copy.splice(&mut Whole, function.body, end));
            copy.bind(node.results, &results);
        }
        true
    }
}

/// How a body that returns at its end alone is copied: as it is.
struct Whole;

impl RewriteRule for Whole {
    fn inst(&mut self, _copy: &mut FunctionCopier<'_>, _inst: Inst) -> bool {
        false
    }
}

/// How a body that returns early is copied: its returns leave a block.
struct InlinedBody {
    block: Inst,
    /// The end of the body, which is the end of the block too.
    end: Option<Inst>,
}

impl RewriteRule for InlinedBody {
    fn inst(&mut self, copy: &mut FunctionCopier<'_>, inst: Inst) -> bool {
        let node = copy.from.inst(inst);
        if node.op != Op::Return {
            return false;
        }
        let args = copy.operands(&node.args);
        if self.end == Some(inst) {
            copy.write_inst(inst, Op::Yield, Attr::None, args);
        } else {
            copy.write_inst(inst, Op::Break, Attr::Target(self.block), args);
        }
        true
    }
}
