//! Structured control flow and jumps.
//!
//! A loop, block, `if` or `switch` is a set of Cranelift blocks. What it carries and gives goes through block
//! parameters where the values are of the scope itself, and through homes where lanes of the scope have their own. A
//! jump from a narrower scope (a lane that breaks out of a block of the group) stores to the homes, marks the lane as
//! gone until the target, and ends its turn.
//!
//! The back-edge of every loop looks at the stop word, but for those that are brief.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, types};
use cranelift_frontend::Switch;
use pelton_ir::arena::{Handle, Inst, Region, Value};
use pelton_ir::module::{Attr, Operand, Site};
use pelton_ir::op::Op;
use pelton_ir::types::Type;

use super::super::plan::{LoopNest, ScopePlan};
use super::{KernelLowering, clif};

/// A loop of at most this many turns does not look at the stop word.
const BRIEF: u64 = 4096;

/// What jumps to an instruction with regions need to know.
#[derive(Clone)]
pub(super) struct JumpTarget {
    /// The loops over subgroups and lanes that the instruction runs in.
    at: LoopNest,
    /// The block that `break` and the ends of regions go to, with the results.
    leave: ir::Block,
    /// The block that `continue` goes to, with the carried values.
    again: Option<ir::Block>,
    /// The carried values, as parameters of the loop.
    carried: Vec<Value>,
    results: Vec<Value>,
    /// The body of a `while` and the block after it, for the end of its test.
    test: Option<(ir::Block, ir::Block)>,
}

/// Whether a jump leaves its target or repeats it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JumpKind {
    Leave,
    Again,
}

impl KernelLowering<'_> {
    /// Lowers an instruction with regions in the current scope. There are plans if lanes meet in it.
    pub(super) fn nest(&mut self, inst: Inst, plans: Option<&[ScopePlan]>) {
        let node = self.function.inst(inst);
        let leave = self.builder.create_block();
        let carried = match node.op {
            op if op.is_loop() => {
                let params = self.function.region(node.regions[0]).params;
                params.iter().skip(usize::from(op == Op::Loop)).collect()
            }
            _ => Vec::new(),
        };
        let target = JumpTarget {
            at: self.scope.at,
            leave,
            again: None,
            carried,
            results: node.results.iter().collect(),
            test: None,
        };
        self.targets[inst.index()] = Some(target);
        match node.op {
            Op::If => self.if_else(inst, plans),
            Op::Switch => self.switch(inst, plans),
            Op::Block => self.region(node.regions[0], plans.map(|plans| &plans[0])),
            Op::Loop => self.counted_loop(inst, plans),
            _ => self.other_loop(inst, plans),
        }
        let results: Vec<Value> = node.results.iter().collect();
        self.arrive(leave, &results);
        self.rejoin(inst);
    }

    /// Lowers the instructions of a region, or its plan if lanes meet in it.
    fn region(&mut self, region: Region, plan: Option<&ScopePlan>) {
        match plan {
            Some(plan) => self.plan(plan),
            None => self.function.region(region).insts.iter().for_each(|inst| self.step(*inst)),
        }
    }

    fn if_else(&mut self, inst: Inst, plans: Option<&[ScopePlan]>) {
        let node = self.function.inst(inst);
        let sides = [self.builder.create_block(), self.builder.create_block()];
        let condition = self.get(node.args[0]);
        self.builder.ins().brif(condition, sides[0], &[], sides[1], &[]);
        for (k, side) in sides.into_iter().enumerate() {
            self.builder.switch_to_block(side);
            self.region(node.regions[k], plans.map(|plans| &plans[k]));
        }
    }

    fn switch(&mut self, inst: Inst, plans: Option<&[ScopePlan]>) {
        let node = self.function.inst(inst);
        let Attr::Cases(cases) = &node.attr else { unreachable!("a switch has cases") };
        let on = self.get(node.args[0]);
        let blocks: Vec<ir::Block> = node.regions.iter().map(|_| self.builder.create_block()).collect();
        let mut switch = Switch::new();
        for (case, block) in cases.iter().zip(&blocks) {
            case.iter().for_each(|x| switch.set_entry(u128::from(*x), *block));
        }
        switch.emit(&mut self.builder, on, blocks[blocks.len() - 1]);
        for (k, block) in blocks.into_iter().enumerate() {
            self.builder.switch_to_block(block);
            self.region(node.regions[k], plans.map(|plans| &plans[k]));
        }
    }

    /// Lowers a counted loop, whose number of turns is known before the first turn.
    fn counted_loop(&mut self, inst: Inst, plans: Option<&[ScopePlan]>) {
        let node = self.function.inst(inst);
        let counter = self.function.region(node.regions[0]).params.get(0);
        let (from, to, step) = (self.get(node.args[0]), self.get(node.args[1]), self.get(node.args[2]));
        let signed = self.function.operand_ty(node.args[0]) == Type::I32;
        let turns = self.turns_of((from, to, step), signed, self.constant(node.args[2]) == Some(1));
        let (head, body, out, again) = self.loop_blocks(inst);
        let at = self.builder.append_block_param(head, types::I32);
        let left = self.builder.append_block_param(head, types::I32);
        self.enter_loop(inst, head, &[from, turns]);
        let carried = self.carried(inst);
        self.arrive(head, &carried);
        self.builder.ins().brif(left, body, &[], out, &[]);
        self.builder.switch_to_block(body);
        self.set(counter, at);
        self.region(node.regions[0], plans.map(|plans| &plans[0]));
        self.arrive(again, &[]);
        self.rejoin(inst);
        if !self.brief(inst) {
            self.look_at_stop();
        }
        let next = self.builder.ins().iadd(at, step);
        let fewer = self.builder.ins().iadd_imm_s(left, -1);
        self.repeat_loop(again, head, &[next, fewer]);
        self.exit_loop(inst, out);
    }

    /// Whether a counted loop is known to have so few turns that nobody needs to stop it. Such loops within each other
    /// can still take long, so it must hold no other loop.
    pub(super) fn brief(&self, inst: Inst) -> bool {
        let turns = self.bounds.max_turns(Site { func: self.kernel, inst });
        turns.is_some_and(|most| most <= BRIEF) && !self.loops_in(inst)
    }

    /// Whether an instruction holds a loop.
    fn loops_in(&self, inst: Inst) -> bool {
        let within = self.function.inst(inst).regions.iter().flat_map(|r| &self.function.region(*r).insts);
        within.into_iter().any(|inst| self.function.inst(*inst).op.is_loop() || self.loops_in(*inst))
    }

    /// Leaves the function if the launch was told to end.
    pub(super) fn look_at_stop(&mut self) {
        let stop = self.builder.ins().atomic_load(types::I32, super::trusted(), self.entry.stop);
        let on = self.builder.create_block();
        self.builder.ins().brif(stop, self.exits.stopped, &[], on, &[]);
        self.builder.switch_to_block(on);
    }

    /// Writes the number of turns of a counted loop: ⌈(to − from) / step⌉, or 0.
    pub(super) fn turns_of(
        &mut self,
        (from, to, step): (ir::Value, ir::Value, ir::Value),
        signed: bool,
        by_one: bool,
    ) -> ir::Value {
        let less = if signed { IntCC::SignedLessThan } else { IntCC::UnsignedLessThan };
        let zero = self.int(types::I32, 0);
        let some = self.builder.ins().icmp(less, from, to);
        let distance = self.builder.ins().isub(to, from);
        if by_one {
            return self.builder.ins().select(some, distance, zero);
        }
        let forward = self.builder.ins().icmp(less, zero, step);
        let any = self.builder.ins().band(some, forward);
        let one = self.int(types::I32, 1);
        let step = self.builder.ins().select(forward, step, one);
        let before_last = self.builder.ins().iadd_imm_s(distance, -1);
        let whole = self.builder.ins().udiv(before_last, step);
        let turns = self.builder.ins().iadd_imm_u(whole, 1);
        self.builder.ins().select(any, turns, zero)
    }

    /// Lowers `while` and `forever`.
    fn other_loop(&mut self, inst: Inst, plans: Option<&[ScopePlan]>) {
        let node = self.function.inst(inst);
        let (head, body, out, again) = self.loop_blocks(inst);
        self.enter_loop(inst, head, &[]);
        let carried = self.carried(inst);
        self.arrive(head, &carried);
        self.region(node.regions[0], plans.map(|plans| &plans[0]));
        if node.op == Op::While {
            self.builder.switch_to_block(body);
            self.region(node.regions[1], plans.map(|plans| &plans[1]));
        }
        self.arrive(again, &[]);
        self.rejoin(inst);
        self.look_at_stop();
        self.repeat_loop(again, head, &[]);
        if node.op == Op::While {
            self.exit_loop(inst, out);
        }
    }

    /// The blocks of a loop: its head, its body, the way out at the head, and the end of a turn.
    fn loop_blocks(&mut self, inst: Inst) -> (ir::Block, ir::Block, ir::Block, ir::Block) {
        let mut block = || self.builder.create_block();
        let (head, body, out, again) = (block(), block(), block(), block());
        let target = self.targets[inst.index()].as_mut().expect("the loop is open");
        target.again = Some(again);
        target.test = Some((body, out));
        let carried = target.carried.clone();
        for value in carried {
            if self.is_scope_value(value) {
                self.builder.append_block_param(again, clif(self.function.ty(value)));
            }
        }
        (head, body, out, again)
    }

    fn carried(&self, inst: Inst) -> Vec<Value> {
        self.targets[inst.index()].as_ref().expect("the loop is open").carried.clone()
    }

    /// Writes the first jump to the head of a loop.
    fn enter_loop(&mut self, inst: Inst, head: ir::Block, first: &[ir::Value]) {
        let carried = self.carried(inst);
        let init = self.function.inst(inst).carried();
        let mut args: Vec<BlockArg> = first.iter().map(|x| (*x).into()).collect();
        args.extend(self.pass_operands(init, &carried));
        self.builder.ins().jump(head, &args);
    }

    /// Writes the jump from the end of a turn to the head of the loop.
    fn repeat_loop(&mut self, again: ir::Block, head: ir::Block, first: &[ir::Value]) {
        let carried = self.builder.block_params(again).to_vec();
        let args: Vec<BlockArg> = first.iter().chain(&carried).map(|x| (*x).into()).collect();
        self.builder.ins().jump(head, &args);
    }

    /// Writes the exit at the head of a loop. What the loop carries is what it gives.
    fn exit_loop(&mut self, inst: Inst, out: ir::Block) {
        self.builder.switch_to_block(out);
        let target = self.targets[inst.index()].clone().expect("the loop is open");
        let carried: Vec<Operand> = target.carried.iter().map(|value| Operand::Value(*value)).collect();
        let args = self.pass_operands(&carried, &target.results);
        self.builder.ins().jump(target.leave, &args);
    }

    /// Whether a value made in the scope is passed by block parameter.
    fn is_scope_value(&self, value: Value) -> bool {
        self.uniform.value_level(value) >= self.scope.level()
    }

    /// Continues at a block, with parameters for those values that are the scope's own.
    fn arrive(&mut self, block: ir::Block, values: &[Value]) {
        self.builder.switch_to_block(block);
        let own: Vec<Value> = values.iter().copied().filter(|value| self.is_scope_value(*value)).collect();
        // All parameters before the first instruction, which keeping one may be.
        let made: Vec<ir::Value> = own
            .iter()
            .map(|value| self.builder.append_block_param(block, clif(self.function.ty(*value))))
            .collect();
        for (value, made) in own.into_iter().zip(made) {
            self.set(value, made);
        }
    }

    /// Passes operands to values of the same scope: arguments for the scope's own, copies for what lanes keep at home.
    fn pass_operands(&mut self, args: &[Operand], to: &[Value]) -> Vec<BlockArg> {
        let mut own = Vec::new();
        let mut kept = Vec::new();
        for (arg, to) in args.iter().zip(to) {
            if self.is_scope_value(*to) {
                own.push(self.get(*arg).into());
            } else {
                kept.push((*arg, *to));
            }
        }
        if !kept.is_empty() {
            self.each_lane(0, |lower| lower.store_homes(&kept));
        }
        own
    }

    /// Stores a lane's operands in homes: all are read before the first is written.
    fn store_homes(&mut self, pairs: &[(Operand, Value)]) {
        let values: Vec<ir::Value> = pairs.iter().map(|(arg, _)| self.get(*arg)).collect();
        for ((_, to), value) in pairs.iter().zip(values) {
            self.keep(*to, value);
        }
    }

    /// Lowers the instruction that ends a region.
    pub(super) fn end(&mut self, inst: Inst) {
        let node = self.function.inst(inst);
        match (node.op, &node.attr) {
            (op, _) if op != Op::Yield && self.parted(inst) => self.part(inst),
            (Op::Return, _) if self.scope.alone || self.scope.at == LoopNest::default() => {
                self.builder.ins().jump(self.exits.done, &[]);
            }
            (Op::Return, _) => self.stray(None, &[]),
            (Op::Break, Attr::Target(target)) => self.jump(*target, JumpKind::Leave, &node.args),
            (Op::Continue, Attr::Target(target)) => self.jump(*target, JumpKind::Again, &node.args),
            _ => self.finish(inst),
        }
        // Nothing after an end is ever reached, but the builder needs a block to write to.
        let after = self.builder.create_block();
        self.builder.switch_to_block(after);
    }

    /// Whether some lanes of the scope have left before a jump out of the innermost instruction, so that the others
    /// cannot take the scope with them.
    fn parted(&self, inst: Inst) -> bool {
        let within = self.ends[inst.index()].is_some_and(|(owner, _)| match self.function.inst(inst).attr {
            Attr::Target(target) => target != owner,
            _ => true,
        });
        within && self.scope.lane.is_none() && self.uniform.control_level(inst) < self.scope.level()
    }

    /// Such a jump: the lanes that are left go, and the scope goes on behind the innermost instruction, where it finds
    /// those that left for it. Nobody who is there uses its results, so they may be anything.
    fn part(&mut self, inst: Inst) {
        let node = self.function.inst(inst);
        let (target, to) = match (node.op, &node.attr) {
            (op, Attr::Target(target)) => {
                let at = self.targets[target.index()].as_ref().expect("the target is open");
                (Some(*target), if op == Op::Break { at.results.clone() } else { at.carried.clone() })
            }
            _ => (None, Vec::new()),
        };
        let pairs: Vec<(Operand, Value)> = node.args.iter().copied().zip(to).collect();
        self.each_lane(0, |lower| lower.go(target, &pairs));
        let owner = self.targets[self.owner(inst).0.index()].clone().expect("the owner is open");
        let own: Vec<Value> =
            owner.results.iter().copied().filter(|value| self.is_scope_value(*value)).collect();
        let nothing: Vec<BlockArg> =
            own.iter().map(|value| self.literal(self.function.ty(*value), 0).into()).collect();
        self.builder.ins().jump(owner.leave, &nothing);
    }

    /// Writes that a lane leaves for a target.
    fn go(&mut self, target: Option<Inst>, pairs: &[(Operand, Value)]) {
        self.store_homes(pairs);
        if self.split.is_some_and(|split| split.strays) {
            self.leave(target);
        }
    }

    /// Lowers `yield`, whose meaning depends on the instruction whose region it ends.
    fn finish(&mut self, inst: Inst) {
        let node = self.function.inst(inst);
        let (owner, at) = self.owner(inst);
        match (self.function.inst(owner).op, at) {
            (Op::While, 0) => {
                let test = self.targets[owner.index()].as_ref().and_then(|target| target.test);
                let (body, out) = test.expect("the loop is open");
                let more = self.get(node.args[0]);
                self.builder.ins().brif(more, body, &[], out, &[]);
            }
            (op, _) if op.is_loop() => self.jump(owner, JumpKind::Again, &node.args),
            _ => self.jump(owner, JumpKind::Leave, &node.args),
        }
    }

    /// The instruction whose region an end is in, and which region that is.
    fn owner(&self, end: Inst) -> (Inst, usize) {
        self.ends[end.index()].expect("a yield is in a region of an instruction")
    }

    fn jump(&mut self, inst: Inst, way: JumpKind, args: &[Operand]) {
        let target = self.targets[inst.index()].clone().expect("the target is open");
        let (block, to) = match way {
            JumpKind::Leave => (Some(target.leave), &target.results),
            JumpKind::Again => (target.again, &target.carried),
        };
        if target.at == self.scope.at {
            let args = self.pass_operands(args, to);
            self.builder.ins().jump(block.expect("only loops go on"), &args);
        } else {
            let pairs: Vec<(Operand, Value)> = args.iter().copied().zip(to.iter().copied()).collect();
            self.stray(Some(inst), &pairs);
        }
    }

    /// Writes that the lane or subgroup leaves for a target of a wider scope, and ends the turn.
    fn stray(&mut self, target: Option<Inst>, pairs: &[(Operand, Value)]) {
        let turn = self.scope.turn.expect("a narrower scope is a loop");
        match self.scope.lane {
            Some(_) => self.go(target, pairs),
            None => self.each_lane(0, |lower| lower.go(target, pairs)),
        }
        self.builder.ins().jump(turn, &[]);
    }
}
