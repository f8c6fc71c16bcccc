//! The regions of a function as a tree, and the jumps to each loop and block.

use std::collections::HashMap;

use crate::arena::{Handle, Inst, Region};
use crate::module::{Attr, Function};
use crate::op::Op;

/// The tree of a function's instructions.
pub(super) struct RegionTree {
    /// The instruction in whose region each instruction stands, by index; `None` for instructions of the body.
    pub parent: Vec<Option<Inst>>,
    /// The `break`s and `continue`s that name each loop and block.
    jumps: HashMap<Inst, Vec<Inst>>,
}

impl RegionTree {
    /// Builds the tree of a function.
    pub(crate) fn new(function: &Function) -> RegionTree {
        let count = function.insts().len();
        let mut shape = RegionTree { parent: vec![None; count], jumps: HashMap::new() };
        for (inst, node) in function.insts() {
            for region in &node.regions {
                for held in &function.region(*region).insts {
                    shape.parent[held.index()] = Some(inst);
                }
            }
            if let Attr::Target(target) = node.attr {
                shape.jumps.entry(target).or_default().push(inst);
            }
        }
        shape
    }

    /// The jumps that name an instruction.
    pub(crate) fn jumps(&self, target: Inst) -> &[Inst] {
        self.jumps.get(&target).map_or(&[], |jumps| jumps)
    }

    /// Iterates over the jumps with a given op that name an instruction.
    pub(crate) fn jumps_by(&self, target: Inst, op: Op, function: &Function) -> impl Iterator<Item = Inst> {
        self.jumps(target).iter().copied().filter(move |inst| function.inst(*inst).op == op)
    }
}

/// The instruction that ends a region.
pub(super) fn last(function: &Function, region: Region) -> Option<Inst> {
    function.region(region).insts.last().copied()
}

/// The `yield` that ends a region, if it does not end in a jump.
pub(super) fn yielded(function: &Function, region: Region) -> Option<Inst> {
    last(function, region).filter(|inst| function.inst(*inst).op == Op::Yield)
}
