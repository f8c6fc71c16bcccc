//! What the loops of a handler cost in fuel.
//!
//! A turn of a loop takes one unit of fuel, and one more unit for every [`INSTS_PER_UNIT`] instructions that the turn
//! may run. Fuel therefore bounds the work of a task's loops and not only the number of their turns. A loop that is
//! known to be brief takes no fuel itself; its instructions count towards the turn of the loop around it.

use pelton_ir::arena::Region;
use pelton_ir::module::{Function, Node};
use pelton_ir::op::Op;

/// How many instructions of a turn take one more unit of fuel.
const INSTS_PER_UNIT: u64 = 256;

/// A loop that is known to take at most this many turns, and that has no loop inside it, takes no fuel.
const BRIEF_TURNS: u64 = 256;

/// Whether a function has loops that take fuel.
pub(super) fn takes_fuel(function: &Function) -> bool {
    function.insts().any(|(_, node)| node.op.is_loop() && !is_brief_loop(function, node))
}

/// How many units of fuel one turn of a loop takes. The test of a `while` is part of every turn.
pub(super) fn turn_cost(function: &Function, node: &Node) -> u32 {
    let regions = node.regions.iter().map(|region| region_insts(function, *region));
    let insts = regions.fold(0, u64::saturating_add);
    1 + (insts / INSTS_PER_UNIT).min(u64::from(u32::MAX / 2)) as u32
}

/// How many instructions one run of a region may take. The bodies of inner loops that take fuel themselves are left
/// out.
fn region_insts(function: &Function, region: Region) -> u64 {
    let nested_insts = |node: &Node| {
        let regions = node.regions.iter().map(|region| region_insts(function, *region));
        match node.op.is_loop() {
            // The loop takes fuel for its body itself. But a `while` whose test fails at once has taken none for the test.
            true if !is_brief_loop(function, node) => match node.op {
                Op::While => region_insts(function, node.regions[0]),
                _ => 0,
            },
            true => regions.fold(0, u64::saturating_add).saturating_mul(BRIEF_TURNS),
            false => regions.fold(0, u64::saturating_add),
        }
    };
    let insts = function.region(region).insts.iter();
    insts.fold(0u64, |all, inst| all.saturating_add(1 + nested_insts(function.inst(*inst))))
}

/// Whether a loop is known to take few turns and has no loop inside it.
pub(super) fn is_brief_loop(function: &Function, node: &Node) -> bool {
    let bits = |at: usize| node.args.get(at).and_then(|arg| arg.constant()).map(|c| c.bits());
    // Numbers below zero have the highest bit set, whatever their width.
    let most = i32::MAX as u64;
    let few = match (node.op, bits(0), bits(1), bits(2)) {
        (Op::Loop, Some(from), Some(to), Some(step)) => {
            from <= most
                && to <= most
                && (1..=most).contains(&step)
                && to.saturating_sub(from) <= BRIEF_TURNS.saturating_mul(step)
        }
        _ => false,
    };
    few && !node.regions.iter().any(|region| contains_loop(function, *region))
}

/// Whether there is a loop anywhere in a region.
fn contains_loop(function: &Function, region: Region) -> bool {
    function.region(region).insts.iter().any(|inst| {
        let node = function.inst(*inst);
        node.op.is_loop() || node.regions.iter().any(|region| contains_loop(function, *region))
    })
}
