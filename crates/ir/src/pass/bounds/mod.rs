//! The analysis that proves accesses in range, so that lowering need not check them at run time.
//!
//! One walk over each function keeps what is known of every value: an interval, and the buffers whose length it
//! is below or at most. It comes from constants, geometry, loop counters and pure ops where a value is defined,
//! and from conditions where they hold: in the regions of an `if`, `switch` or `while`, and in what follows an
//! `if` one side of which jumps away. A value never changes, so what a condition says of it holds until the
//! region ends.
//!
//! **Law.** If [`Bounds::in_bounds`] says yes, the access is in range in every run. The walk does not look into
//! memory, calls or carried values, so it often says nothing where a person would see it.

mod fact;
mod range;

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::arena::{Buffer, Func, Inst, Region};
use crate::module::{Attr, Function, Module, Node, Operand, Site, elements_per_wide};
use crate::op::{Op, OpEffect, OpForm};
use crate::types::{Len, Type};
use crate::valid::Valid;

use super::shape::yielded;
use fact::{ValueFact, ValueFacts, bit};
use range::IntRange;

/// What is known about the geometry of a launch. By default nothing is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct KnownGeometry {
    /// The number of lanes of a group.
    pub lanes: Option<u32>,
    /// The number of groups of the launch.
    pub groups: Option<u32>,
    /// The number of lanes of a subgroup.
    pub subgroup: Option<u32>,
}

/// Why an access is in range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Proof {
    /// The access touches no element after `last`, and the buffer has at least `len` elements.
    #[allow(missing_docs)]
    Most { last: u64, len: u64 },
    /// A condition around the access ensures that the index is below the buffer's length.
    Guard,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Proof::Most { last, len } => write!(f, "in range: at most {last} of {len}"),
            Proof::Guard => f.write_str("in range: below len"),
        }
    }
}

/// The accesses of a module that are proved to be in range.
pub struct Bounds {
    proofs: HashMap<(Func, Inst), Proof>,
    /// The byte loads whose byte is proved to be one of an element.
    bytes: HashSet<(Func, Inst)>,
    turns: HashMap<(Func, Inst), u64>,
}

impl Bounds {
    /// Analyses every function of a module, given what is known about the geometry.
    pub fn new(module: &Valid, known: KnownGeometry) -> Bounds {
        let mut all = Bounds { proofs: HashMap::new(), bytes: HashSet::new(), turns: HashMap::new() };
        for (func, function) in module.functions.iter() {
            let facts = ValueFacts::new(module, function);
            let exits = HashMap::new();
            let (proofs, bytes, turns) = (Vec::new(), Vec::new(), Vec::new());
            let mut walk = BoundsWalk { module, function, known, facts, exits, proofs, bytes, turns };
            walk.region(function.body);
            all.proofs.extend(walk.proofs.into_iter().map(|(inst, proof)| ((func, inst), proof)));
            all.bytes.extend(walk.bytes.into_iter().map(|inst| (func, inst)));
            all.turns.extend(walk.turns.into_iter().map(|(inst, most)| ((func, inst), most)));
        }
        all
    }

    /// Returns whether an access is proved to be in range, so that it needs no check.
    pub fn in_bounds(&self, site: Site) -> bool {
        self.proof(site).is_some()
    }

    /// Returns whether the byte that a `load_byte` names is proved to be a byte of an element. The element itself may
    /// still be out of range.
    pub fn byte_in_bounds(&self, site: Site) -> bool {
        self.bytes.contains(&(site.func, site.inst))
    }

    /// Returns the proof that an access is in range, if there is one.
    pub fn proof(&self, site: Site) -> Option<Proof> {
        self.proofs.get(&(site.func, site.inst)).copied()
    }

    /// Returns the most iterations that a counted loop can have each time it runs, if that is known.
    pub fn max_turns(&self, site: Site) -> Option<u64> {
        self.turns.get(&(site.func, site.inst)).copied()
    }
}

/// Returns a function that describes the proof for an access, if there is one for every geometry. It serves as the
/// notes of a printed module.
pub fn proof_notes(module: &Valid) -> impl Fn(Site) -> Option<String> + use<> {
    let bounds = Bounds::new(module, KnownGeometry::default());
    move |site| bounds.proof(site).map(|proof| proof.to_string())
}

/// The walk over one function.
struct BoundsWalk<'a> {
    module: &'a Module,
    function: &'a Function,
    known: KnownGeometry,
    facts: ValueFacts<'a>,
    /// What is known of the results of each open instruction, by the ways out seen so far.
    exits: HashMap<Inst, Vec<ValueFact>>,
    proofs: Vec<(Inst, Proof)>,
    bytes: Vec<Inst>,
    turns: Vec<(Inst, u64)>,
}

impl BoundsWalk<'_> {
    fn region(&mut self, region: Region) {
        for inst in &self.function.region(region).insts {
            self.inst(*inst);
        }
    }

    /// A region in which a condition holds, and whether it yields; what it yields are results of `inst`.
    fn branch(&mut self, inst: Inst, region: Region, assume: impl FnOnce(&mut ValueFacts<'_>)) -> bool {
        let mark = self.facts.checkpoint();
        assume(&mut self.facts);
        self.region(region);
        let end = yielded(self.function, region);
        if let Some(end) = end {
            self.exit(inst, &self.function.inst(end).args);
        }
        self.facts.restore(mark);
        end.is_some()
    }

    /// A way out of an instruction with these results.
    fn exit(&mut self, inst: Inst, args: &[Operand]) {
        let facts: Vec<ValueFact> = args.iter().map(|arg| self.facts.get(*arg)).collect();
        match self.exits.get_mut(&inst) {
            Some(known) => known.iter_mut().zip(facts).for_each(|(known, fact)| *known = known.join(fact)),
            None => drop(self.exits.insert(inst, facts)),
        }
    }

    fn inst(&mut self, inst: Inst) {
        let node = self.function.inst(inst);
        match node.op {
            Op::If => self.choice(inst, node),
            Op::Switch => self.cases(inst, node),
            Op::Block => drop(self.branch(inst, node.regions[0], |_| ())),
            Op::Loop | Op::While | Op::Forever => self.repeat(inst, node),
            Op::Break => {
                if let Attr::Target(target) = node.attr {
                    self.exit(target, &node.args);
                }
            }
            op if op.effect() == OpEffect::Pure => {
                let value = node.results.get(0);
                let range = self.range(node).unwrap_or(IntRange::all_of(self.function.ty(value)));
                let (below, upto) = self.facts.capped(node);
                self.facts.define(value, ValueFact { range, below, upto });
            }
            Op::LoadByte => self.byte(inst, node),
            _ => {
                if let Some(proof) = self.prove(node) {
                    self.proofs.push((inst, proof));
                }
            }
        }
        // Carried values are not analysed, so the breaks of a loop alone do not say what its results are.
        if node.op.has_regions() && !matches!(node.op, Op::Loop | Op::While) {
            for (value, fact) in node.results.iter().zip(self.exits.remove(&inst).unwrap_or_default()) {
                self.facts.define(value, fact);
            }
        }
    }

    /// A load of a byte, which is in range if both the element and the byte are.
    fn byte(&mut self, inst: Inst, node: &Node) {
        let bytes = node.buffer().and_then(|b| self.module.buffers.get(b)).map_or(0, |b| b.elem.bytes());
        let byte = node.args.get(1).map(|byte| self.facts.get(*byte).range.hi);
        if byte.is_some_and(|byte| byte < bytes.into()) {
            self.bytes.push(inst);
            self.proofs.extend(self.prove(node).map(|proof| (inst, proof)));
        }
        self.facts.define(node.results.get(0), ValueFact::from_range(IntRange::new(0, u8::MAX.into())));
    }

    fn choice(&mut self, inst: Inst, node: &Node) {
        let [then, other] = [true, false].map(|truth| {
            let region = node.regions[usize::from(!truth)];
            self.branch(inst, region, |facts| facts.assume(node.args[0], truth))
        });
        // If one side jumps away, what follows runs on the other's condition.
        if then != other {
            self.facts.assume(node.args[0], then);
        }
    }

    fn cases(&mut self, inst: Inst, node: &Node) {
        let Attr::Cases(cases) = &node.attr else { return };
        for (at, region) in node.regions.iter().enumerate() {
            let list = cases.get(at).map_or(&[][..], |list| list);
            let ends = list.iter().min().zip(list.iter().max());
            self.branch(inst, *region, |facts| {
                if let Some((lo, hi)) = ends {
                    facts.learn(
                        node.args[0],
                        ValueFact::from_range(IntRange::new((*lo).into(), (*hi).into())),
                    );
                }
            });
        }
    }

    fn repeat(&mut self, inst: Inst, node: &Node) {
        let mark = self.facts.checkpoint();
        if node.op == Op::Loop {
            let [from, to] = [0, 1].map(|k| self.facts.get(node.args[k]));
            let counter = self.function.region(node.regions[0]).params.get(0);
            let (lo, hi) = (from.range.lo, to.range.hi - 1);
            // Steps are whole, so there are at most as many turns as numbers between the two.
            if let Ok(most) = u64::try_from((hi - lo + 1).max(0)) {
                self.turns.push((inst, most));
            }
            if lo <= hi {
                let below = to.below | to.upto;
                self.facts.define(counter, ValueFact { range: IntRange::new(lo, hi), below, upto: below });
            }
        }
        self.region(node.regions[0]);
        if node.op == Op::While {
            if let Some(end) = yielded(self.function, node.regions[0]) {
                self.facts.assume(self.function.inst(end).args[0], true);
            }
            self.region(node.regions[1]);
        }
        self.facts.restore(mark);
        if node.op != Op::Forever {
            self.exits.remove(&inst);
        }
    }

    /// The range of a pure op's result.
    fn range(&self, node: &Node) -> Option<IntRange> {
        let size = |known: Option<u32>, most: u32| match known {
            Some(n) => IntRange::new(n.into(), n.into()),
            None => IntRange::new(1, most.into()),
        };
        let (lanes, groups) = (size(self.known.lanes, u32::MAX), size(self.known.groups, u32::MAX));
        let subgroup = size(self.known.subgroup, 32);
        let under = |size: IntRange| IntRange::new(0, (size.hi - 1).max(0));
        Some(match node.op {
            Op::Lanes => lanes,
            Op::Groups => groups,
            Op::SubgroupSize => subgroup,
            Op::Lane => under(lanes),
            Op::Group => under(groups),
            Op::Sublane => under(subgroup),
            Op::Subgroup => IntRange::new(0, under(lanes).hi / subgroup.lo.max(1)),
            Op::Len => return self.facts.length(node),
            _ => {
                let args: Vec<IntRange> = node.args.iter().map(|arg| self.facts.get(*arg).range).collect();
                let ty = self.module.type_argument(node, self.function).unwrap_or(Type::F32);
                range::result_range(node.op, ty, self.function.ty(node.results.get(0)), &args)
            }
        })
    }

    /// Why an access is in range, if it is one and that is known.
    fn prove(&self, node: &Node) -> Option<Proof> {
        let fact = |k: usize| node.args.get(k).map(|arg| self.facts.get(*arg));
        match (node.op.row().form, &node.attr) {
            (OpForm::Copy, Attr::Copy { to, from }) => {
                let count = fact(2)?.range.hi;
                self.fits(*from, fact(1)?.range.hi + count - 1)?;
                self.fits(*to, fact(0)?.range.hi + count - 1)
            }
            (OpForm::Wide, Attr::Atomic(b, ..)) => {
                let ahead = elements_per_wide(self.module.buffers.get(*b)?.elem) as i128 - 1;
                self.fits(*b, fact(0)?.range.hi | ahead)
            }
            (OpForm::Place | OpForm::Atomic, Attr::Buffer(b) | Attr::Atomic(b, ..)) => {
                let fact = fact(0)?;
                let guard = (fact.below & bit(*b) != 0).then_some(Proof::Guard);
                self.fits(*b, fact.range.hi).or(guard)
            }
            _ => None,
        }
    }

    /// Whether a buffer surely has an element.
    fn fits(&self, buffer: Buffer, last: i128) -> Option<Proof> {
        let len = match self.module.buffers.get(buffer)?.len {
            Len::Fixed(len) => len.into(),
            Len::Launch => self.facts.len(buffer).range.lo,
        };
        let proof = Proof::Most { last: u64::try_from(last.max(0)).ok()?, len: u64::try_from(len).ok()? };
        (last < len).then_some(proof)
    }
}
