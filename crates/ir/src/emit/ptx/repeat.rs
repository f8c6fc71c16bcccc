//! Loops, and the looks at the stop word at their back-edges.

use crate::arena::{Inst, Value};
use crate::module::Operand;
use crate::op::Op;
use crate::types::Type;
use crate::valid::UniformLevel;

use super::abi::{launch, record};
use super::fixed::{Fixed, LOOKS, given, noted};
use super::leave::level;
use super::lower::PtxLowering;
use super::write::{Predicate, PtxLabel, PtxReg, RegKind, number};
use crate::arena::Handle;

/// A loop that is being written.
struct OpenLoop {
    inst: Inst,
    head: PtxLabel,
    again: PtxLabel,
    /// The label to which the loop goes when its last iteration is over.
    out: PtxLabel,
    /// Whether all lanes of a warp run the iterations together.
    uniform: bool,
}

impl PtxLowering<'_> {
    fn cycle(&mut self, inst: Inst) -> OpenLoop {
        let frame = self.frames[inst.index()].clone().expect("the loop is open");
        let uniform = level(self.function, self.uniform, inst) >= UniformLevel::Subgroup;
        let again = frame.again.expect("it is a loop");
        let (head, out) = (self.out.new_label("loop"), self.out.new_label("out"));
        self.moves(Predicate::Always, &frame.carried, self.function.inst(inst).carried());
        OpenLoop { inst, head, again, out, uniform }
    }

    /// Ends a loop whose last iteration is over. Its results are the carried values.
    fn over(&mut self, cycle: &OpenLoop) {
        let frame = self.frames[cycle.inst.index()].clone().expect("the loop is open");
        let carried: Vec<Operand> = frame.carried.iter().map(|value| Operand::Value(*value)).collect();
        self.out.place_label(cycle.out);
        self.moves(Predicate::Always, &frame.results, &carried);
    }

    /// Writes a counted loop.
    pub(crate) fn count(&mut self, inst: Inst) {
        let function = self.function;
        let node = function.inst(inst);
        let cycle = self.cycle(inst);
        let counter = function.region(node.regions[0]).params.get(0);
        let ty = function.operand_ty(node.args[0]);
        let bound = |at: usize| {
            let wide = |bits: u64| if ty == Type::I32 { i64::from(bits as u32 as i32) } else { bits as i64 };
            self.constant(node.args[at]).map(wide)
        };
        let (from, to, step) = (bound(0), bound(1), bound(2));
        let some = from.zip(to).map(|(from, to)| from < to);
        if some == Some(false) || step.is_some_and(|step| step <= 0) {
            return self.over(&cycle);
        }
        self.enter(&cycle, some == Some(true), step.is_some());
        self.moves(Predicate::Always, &[counter], &node.args[..1]);
        if step == Some(1) {
            self.by_one(&cycle, counter, ty);
        } else {
            self.by_step(&cycle, counter);
        }
        self.over(&cycle);
    }

    /// Writes the branches around a counted loop without iterations, as far as the number is not known beforehand.
    fn enter(&mut self, cycle: &OpenLoop, some: bool, forward: bool) {
        let node = self.function.inst(cycle.inst);
        let ty = number(self.function.operand_ty(node.args[0]));
        if !some {
            let (p, from, to) = (self.truth(), self.held(node.args[0]), self.arg(node.args[1]));
            self.out.push_line(format_args!("setp.ge.{ty} {p}, {from}, {to}"));
            self.out.branch(Predicate::If(p), cycle.out, cycle.uniform);
        }
        if !forward {
            let (p, step) = (self.truth(), self.held(node.args[2]));
            self.out.push_line(format_args!("setp.le.{ty} {p}, {step}, 0"));
            self.out.branch(Predicate::If(p), cycle.out, cycle.uniform);
        }
    }

    /// Writes the iterations of a loop that counts by one, in stretches between looks at the stop word.
    fn by_one(&mut self, cycle: &OpenLoop, counter: Value, ty: Type) {
        let node = self.function.inst(cycle.inst);
        let (i, to) = (self.reg(counter), self.arg(node.args[1]));
        let turns = self.leave.turns(cycle.inst);
        let bound = turns.map(|turns| (self.word(), turns));
        let stretch = |lower: &mut Self| {
            if let Some((bound, turns)) = bound {
                lower.out.push_line(format_args!("sub.u32 {bound}, {to}, {i}"));
                lower.out.push_line(format_args!("min.u32 {bound}, {bound}, {turns}"));
                lower.out.push_line(format_args!("add.u32 {bound}, {bound}, {i}"));
            }
        };
        stretch(self);
        self.out.place_loop_head(cycle.head);
        self.within(cycle.inst, 0);
        if !self.turns_back(cycle) {
            return;
        }
        let p = self.truth();
        self.out.push_line(format_args!("add.u32 {i}, {i}, 1"));
        let limit = bound.map_or(to.clone(), |(bound, _)| bound.to_string());
        self.out.push_line(format_args!("setp.ne.u32 {p}, {i}, {limit}"));
        self.out.branch(Predicate::If(p), cycle.head, cycle.uniform);
        if bound.is_some() {
            let q = self.truth();
            self.out.push_line(format_args!("setp.ge.{} {q}, {i}, {to}", number(ty)));
            self.out.branch(Predicate::If(q), cycle.out, cycle.uniform);
            self.look(cycle, stretch);
        }
    }

    /// Writes the iterations of any other counted loop. They are counted by the remaining distance, because the counter
    /// itself could wrap.
    fn by_step(&mut self, cycle: &OpenLoop, counter: Value) {
        let node = self.function.inst(cycle.inst);
        let (i, left) = (self.reg(counter), self.word());
        let (to, step) = (self.arg(node.args[1]), self.arg(node.args[2]));
        self.out.push_line(format_args!("sub.u32 {left}, {to}, {i}"));
        let tick = self.tick(cycle);
        self.out.place_loop_head(cycle.head);
        self.within(cycle.inst, 0);
        if !self.turns_back(cycle) {
            return;
        }
        let p = self.truth();
        self.out.push_line(format_args!("setp.le.u32 {p}, {left}, {step}"));
        self.out.branch(Predicate::If(p), cycle.out, cycle.uniform);
        self.out.push_line(format_args!("sub.u32 {left}, {left}, {step}"));
        self.out.push_line(format_args!("add.u32 {i}, {i}, {step}"));
        self.back(cycle, tick);
    }

    /// Writes a `while` or a `forever`.
    pub(crate) fn repeat(&mut self, inst: Inst) {
        let op = self.function.inst(inst).op;
        let cycle = self.cycle(inst);
        let tick = self.tick(&cycle);
        self.out.place_loop_head(cycle.head);
        if op == Op::While {
            self.tests.push((cycle.out, cycle.uniform));
            self.within(inst, 0);
            self.tests.pop();
            self.within(inst, 1);
        } else {
            self.within(inst, 0);
        }
        if self.turns_back(&cycle) {
            self.back(&cycle, tick);
        }
        if op == Op::While {
            self.over(&cycle);
        }
    }

    /// Writes the end of the test of a `while`.
    pub(crate) fn test(&mut self, on: Operand) {
        let (out, uniform) = *self.tests.last().expect("the loop is open");
        let c = self.held(on);
        self.out.branch(Predicate::Unless(c), out, uniform);
    }

    /// Ends the body of a loop, and returns whether another iteration can follow.
    fn turns_back(&mut self, cycle: &OpenLoop) -> bool {
        let last = self.function.inst(cycle.inst).regions.len() - 1;
        self.out.place_label(cycle.again);
        self.out.is_branched_to(cycle.again) || self.falls(cycle.inst, last)
    }

    /// Sets up the counter of iterations until the next look at the stop word, if the loop looks.
    fn tick(&mut self, cycle: &OpenLoop) -> Option<(PtxReg, u32)> {
        let turns = self.leave.turns(cycle.inst)?;
        let tick = self.word();
        self.out.push_line(format_args!("mov.b32 {tick}, {turns}"));
        Some((tick, turns))
    }

    /// Writes the back-edge of a loop.
    fn back(&mut self, cycle: &OpenLoop, tick: Option<(PtxReg, u32)>) {
        let Some((tick, turns)) = tick else {
            return self.out.branch(Predicate::Always, cycle.head, true);
        };
        let p = self.truth();
        self.out.push_line(format_args!("add.s32 {tick}, {tick}, -1"));
        self.out.push_line(format_args!("setp.ne.s32 {p}, {tick}, 0"));
        self.out.branch(Predicate::If(p), cycle.head, cycle.uniform);
        self.look(cycle, |lower| lower.out.push_line(format_args!("mov.b32 {tick}, {turns}")));
    }

    /// Writes a look at the stop word. Lanes leave if it is set, and from time to time the look also reads the clock.
    fn look(&mut self, cycle: &OpenLoop, next: impl Fn(&mut Self)) {
        let (at, looks, limit) =
            (self.fixed(Fixed::Record), self.fixed(Fixed::Looks), self.fixed(Fixed::Limit));
        let (stop, told, more, lasts) = (self.word(), self.truth(), self.truth(), self.truth());
        let votes = cycle.uniform && self.leave.warps;
        next(self);
        self.out.push_line(format_args!("ld.relaxed.gpu.global.u32 {stop}, [{}]", noted(at, record::STOP)));
        self.out.push_line(format_args!("setp.ne.u32 {told}, {stop}, 0"));
        if votes {
            let mask = self.mask();
            self.out.push_line(format_args!("vote.sync.any.pred {told}, {told}, {mask}"));
        }
        self.out.branch(Predicate::If(told), self.stopped, votes);
        self.out.push_line(format_args!("add.s32 {looks}, {looks}, -1"));
        self.out.push_line(format_args!("setp.ne.s32 {more}, {looks}, 0"));
        self.out.branch(Predicate::If(more), cycle.head, false);
        let now = self.out.new_reg(RegKind::Long);
        self.out.push_line(format_args!("mov.b32 {looks}, {LOOKS}"));
        self.out.push_line(format_args!("mov.u64 {now}, %globaltimer"));
        self.out.push_line(format_args!("setp.lt.u64 {lasts}, {now}, {limit}"));
        self.out.branch(Predicate::If(lasts), cycle.head, false);
        self.lease(now, limit, lasts);
        // The next look sees the stop word, so that the lanes of a warp leave together.
        self.out
            .push_line(format_args!("@!{lasts} st.relaxed.gpu.global.u32 [{}], 1", noted(at, record::STOP)));
        self.notice(Predicate::Unless(lasts));
        self.out.branch(Predicate::Always, cycle.head, false);
    }

    /// Reads the lease, if there is one, and sets `lasts` to whether it has not run out.
    fn lease(&mut self, now: PtxReg, limit: PtxReg, lasts: PtxReg) {
        let (lease, some, none) = (self.out.new_reg(RegKind::Long), self.truth(), self.truth());
        self.out.push_line(format_args!("ld.param.u64 {lease}, [launch+{}]", given(launch::LEASE)));
        self.out.push_line(format_args!("setp.ne.u64 {some}, {lease}, 0"));
        self.out.push_line(format_args!("@{some} ld.relaxed.sys.global.u64 {limit}, [{lease}]"));
        self.out.push_line(format_args!("setp.eq.u64 {none}, {limit}, 0"));
        self.out.push_line(format_args!("selp.b64 {limit}, -1, {limit}, {none}"));
        self.out.push_line(format_args!("setp.lt.u64 {lasts}, {now}, {limit}"));
    }
}
