//! Loop-invariant code motion, which computes what is the same in every iteration once, before the loop.
//!
//! **Law.** A pure op, and a plain load of a buffer that nobody writes, whose operands come from outside a loop,
//! moves to just before the outermost such loop. No op of the language traps, so computing what would not have been
//! computed is safe, but it may be waste. So loads stay under an `if` or `switch`, and in a `forever` all ops do: the
//! handlers of a service run one at a time, and what they compute should not hold registers for ever.
//!
//! **Level.** A value's level is in how many loops it is: an op that may move has the greatest level of its
//! operands, everything else that of its place. Operands are visible from the op, so their loops are loops of the
//! op too, and the level names one of them: the op leaves every loop that is deeper.

use std::collections::HashMap;

use crate::arena::{Handle, Inst, Value};
use crate::module::{Function, Module, Node};
use crate::op::{Op, OpEffect};

use super::effect::frozen;
use super::rewrite::{FunctionCopier, RewriteRule, rewrite};
use super::shape::RegionTree;

/// Moves invariants out of the loops of every function.
pub(super) fn apply(module: &mut Module) -> bool {
    super::rewrite_each(module, |module, function| {
        let mut licm = Licm::new(module, function);
        (!licm.before.is_empty()).then(|| rewrite(module, function, &mut licm))
    })
}

struct Licm {
    /// The instructions that move to just before each loop.
    before: HashMap<Inst, Vec<Inst>>,
    /// Whether each instruction moves.
    moved: Vec<bool>,
}

/// The position of an instruction among loops.
#[derive(Clone, Copy, Default)]
struct Depth {
    /// The number of loops around the instruction.
    loops: u16,
    /// The innermost `forever` among them, counted from the outside, or 0 if there is none.
    forever: u16,
    /// The loop that pure ops here must not leave.
    pure: u16,
    /// The loop that loads here must not leave.
    read: u16,
}

impl Licm {
    fn new(module: &Module, function: &Function) -> Licm {
        let count = function.insts().len();
        let mut licm = Licm { before: HashMap::new(), moved: vec![false; count] };
        let shape = RegionTree::new(function);
        let mut depths = vec![Depth::default(); count];
        let mut levels = vec![0u16; function.values().len()];
        for (inst, node) in function.insts() {
            let parent = shape.parent[inst.index()];
            let depth = parent.map_or(Depth::default(), |p| inside(depths[p.index()], function.inst(p).op));
            depths[inst.index()] = depth;
            let level = level(module, node, depth, &levels);
            if let Some(level) = level.filter(|level| *level < depth.loops) {
                licm.moved[inst.index()] = true;
                let home = home(function, &shape, &depths, inst, level);
                licm.before.entry(home).or_default().push(inst);
            }
            for value in node.results.iter() {
                levels[value.index()] = level.unwrap_or(depth.loops);
            }
            for region in &node.regions {
                for value in function.region(*region).params.iter() {
                    levels[value.index()] = depth.loops + 1;
                }
            }
        }
        licm
    }
}

/// The depth of what stands in an op's regions.
fn inside(depth: Depth, op: Op) -> Depth {
    let loops = depth.loops + u16::from(op.is_loop());
    match op {
        Op::Forever => Depth { loops, forever: loops, ..depth },
        Op::If | Op::Switch => Depth { pure: depth.pure.max(depth.forever), read: depth.loops, ..depth },
        _ => Depth { loops, ..depth },
    }
}

/// In how many loops an op must stay, if it may move.
fn level(module: &Module, node: &Node, depth: Depth, levels: &[u16]) -> Option<u16> {
    let floor = match (node.op.effect(), node.buffer()) {
        (OpEffect::Pure, _) => depth.pure,
        (OpEffect::Read, Some(b)) if frozen(module, b) => depth.read,
        _ => return None,
    };
    let args = node.args.iter().filter_map(|arg| arg.value());
    Some(args.map(|value: Value| levels[value.index()]).fold(floor, u16::max))
}

/// The loop before which something of that level goes.
fn home(function: &Function, shape: &RegionTree, depths: &[Depth], inst: Inst, level: u16) -> Inst {
    let mut at = inst;
    while let Some(parent) = shape.parent[at.index()] {
        at = parent;
        if depths[at.index()].loops == level && function.inst(at).op.is_loop() {
            break;
        }
    }
    at
}

impl RewriteRule for Licm {
    fn inst(&mut self, copy: &mut FunctionCopier<'_>, inst: Inst) -> bool {
        if copy.from.inst(inst).op.is_loop() {
            for moved in self.before.remove(&inst).into_iter().flatten() {
                copy.plain(moved);
            }
        }
        self.moved[inst.index()]
    }
}
