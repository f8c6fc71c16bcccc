//! Statements that repeat.

use pelton_ir::arena::Inst;
use pelton_ir::module::{Attr, Operand};
use pelton_ir::op::Op;
use pelton_ir::types::{Const, Type};
use pelton_ir::valid::Level;

use crate::body::{Body, known};
use crate::frame::{Frame, Slot};
use crate::make::types;
use crate::scope::Given;

/// How often a loop runs at most.
const TRIPS: u32 = 4;

/// Bounds of counted loops that are constants: none, few, backwards, standing still, and at the ends of the numbers,
/// where a counter that wraps would run for ever.
const BOUNDS: &[(i64, i64, i64)] = &[
    (0, 3, 1),
    (0, 1, 1),
    (0, 0, 1),
    (1, 4, 2),
    (5, 2, 1),
    (0, 3, 0),
    (-2, 2, 1),
    (0, 4, -1),
    (i32::MAX as i64 - 3, i32::MAX as i64, 2),
    (i32::MAX as i64 - 1, i32::MAX as i64, i32::MAX as i64),
    (i32::MIN as i64, i32::MIN as i64 + 2, 1),
    (i32::MIN as i64, i32::MAX as i64, i32::MAX as i64),
    (-4, -1, 2),
    (-1, 0, 1),
];

impl Body<'_, '_> {
    /// A counted `loop`.
    pub fn count(&mut self) -> bool {
        if !self.spins() {
            return false;
        }
        let ty = self.make.choose.pick(&[Type::U32, Type::I32]);
        let bounds = self.bounds(ty);
        let level = bounds.iter().map(|bound| bound.level).min().unwrap_or(Level::Group);
        let start = self.make.level(level.min(self.control()));
        let carried = self.make.slots(2, Level::Group);
        let fixed: Vec<Operand> = bounds.iter().map(|bound| bound.operand).collect();
        let inst = self.turn(Op::Loop, fixed, start, level, &carried);
        let mut params = vec![(ty, bounds[0].level.min(bounds[2].level))];
        params.extend(carried);
        self.region(inst, &params);
        self.stop(inst);
        true
    }

    /// A `while`.
    pub fn repeat(&mut self) -> bool {
        if !self.spins() {
            return false;
        }
        let start = self.make.level(self.control());
        let carried = self.fueled(start);
        let inst = self.turn(Op::While, Vec::new(), start, start, &carried);
        let params = self.open(inst, &carried);
        self.frame().test = true;
        self.inside();
        self.decide(params[0], start);
        let control = self.control();
        self.writer.close();
        self.frame().test = false;
        self.body(inst, params[0], control);
        self.scope.close();
        self.stop(inst);
        true
    }

    /// Ends the test of a `while`, rarely by leaving the loop in any case.
    fn decide(&mut self, fuel: Given, start: Level) {
        if self.make.choose.one_in(16) {
            return self.end();
        }
        let most = self.make.choose.below(TRIPS as usize + 1) as u32;
        let more = self.more(fuel, most, start);
        self.inst(Op::Yield, Attr::None, vec![more.operand], &[]);
    }

    /// The body of a `while`, which sees what the test has computed.
    fn body(&mut self, inst: Inst, fuel: Given, control: Level) {
        self.open(inst, &[]);
        self.frame().control = control;
        let next = self.plain(Op::Add, Attr::None, &[fuel, known(1_u32)]);
        self.frame().fuel = Some(next);
        self.inside();
        self.end();
        self.shut();
    }

    /// A `forever`, which ends when its fuel does.
    pub fn forever(&mut self) -> bool {
        if !self.spins() || self.frames.len() + 1 >= self.make.config.depth {
            return false;
        }
        let start = self.make.level(self.control());
        let carried = self.fueled(start);
        let init = self.start(&carried);
        let results = types(&self.make.slots(2, Level::Lane));
        let (inst, _) = self.inst(Op::Forever, Attr::None, init, &results);
        let mut frame = Frame::new(Some((inst, Op::Forever)), start);
        frame.results = results.into_iter().map(|ty| (ty, Level::Group)).collect();
        frame.carried.clone_from(&carried);
        self.frames.push(frame);
        self.times = self.times.saturating_mul(TRIPS.into());
        let params = self.open(inst, &carried);
        let next = self.plain(Op::Add, Attr::None, &[params[0], known(1_u32)]);
        self.frame().fuel = Some(next);
        let most = self.make.choose.below(TRIPS as usize) as u32;
        let more = self.more(params[0], most, start);
        let over = self.plain(Op::Not, Attr::None, &[more]);
        self.out(over);
        self.inside();
        self.end();
        self.shut();
        self.stop(inst);
        true
    }

    /// Leaves the innermost loop if a condition holds that is as uniform as the loop.
    fn out(&mut self, over: Given) {
        let to = self.frames.len() - 1;
        let (inst, _) = self.inst(Op::If, Attr::None, vec![over.operand], &[]);
        let control = over.level.min(self.control());
        self.frames.push(Frame::new(Some((inst, Op::If)), control));
        self.open(inst, &[]);
        self.jump(Op::Break, to);
        self.shut();
        self.open(inst, &[]);
        self.inst(Op::Yield, Attr::None, Vec::new(), &[]);
        self.shut();
        self.close(inst);
    }

    /// Whether a loop may be written here.
    fn spins(&self) -> bool {
        let inside =
            self.times.saturating_mul(TRIPS.into()).saturating_mul(self.make.config.width as u64 * 8);
        self.room() && self.steps.saturating_add(inside) < self.make.config.steps
    }

    /// What a loop with fuel carries. Fuel decides when lanes leave, so it is as uniform as the loop.
    fn fueled(&mut self, start: Level) -> Vec<Slot> {
        let mut carried = vec![(Type::U32, start)];
        carried.extend(self.make.slots(2, Level::Group));
        carried
    }

    /// What a loop starts with, by its plan; fuel, if it has some, with nothing burnt.
    fn start(&mut self, carried: &[Slot]) -> Vec<Operand> {
        let rest: Vec<Given> = carried[1..].iter().map(|(ty, level)| self.operand(*ty, *level)).collect();
        std::iter::once(known(0_u32)).chain(rest).map(|given| given.operand).collect()
    }

    /// Begins a loop whose results are what it carries, at most so uniform.
    fn turn(&mut self, op: Op, fixed: Vec<Operand>, start: Level, level: Level, carried: &[Slot]) -> Inst {
        let init = match op {
            Op::While => self.start(carried),
            _ => carried.iter().map(|(ty, level)| self.operand(*ty, *level).operand).collect(),
        };
        let args = fixed.into_iter().chain(init).collect();
        let (inst, _) = self.inst(op, Attr::None, args, &types(carried));
        let mut frame = Frame::new(Some((inst, op)), start);
        frame.results = carried.iter().map(|(ty, plan)| (*ty, level.min(*plan))).collect();
        frame.carried = carried.to_vec();
        self.frames.push(frame);
        self.times = self.times.saturating_mul(TRIPS.into());
        inst
    }

    /// Ends a loop.
    fn stop(&mut self, inst: Inst) {
        self.times /= u64::from(TRIPS);
        self.close(inst);
    }

    /// From, to and step of a counted loop that runs at most a few times.
    fn bounds(&mut self, ty: Type) -> [Given; 3] {
        let number = |n: i64| known(Const::new(ty, n as u64));
        let small = |body: &mut Self, most: i64| {
            let any = body.any(ty);
            body.plain(Op::And, Attr::None, &[any, number(most)])
        };
        match self.make.choose.below(8) {
            0..4 => {
                // Of the constants that are small for one type, some are many for the other.
                let few: Vec<_> =
                    BOUNDS.iter().filter(|bounds| trips(ty, **bounds) <= TRIPS.into()).collect();
                let (from, to, step) = *self.make.choose.pick(&few);
                [number(from), number(to), number(step)]
            }
            4 => [number(0), small(self, 3), number(1)],
            5 => [small(self, 3), number(4), number(1)],
            6 => [number(0), number(3), small(self, 3)],
            _ => [small(self, 1), small(self, 3), small(self, 1)],
        }
    }
}

/// How often a counted loop runs.
fn trips(ty: Type, (from, to, step): (i64, i64, i64)) -> u64 {
    let read = |n: i64| if ty == Type::U32 { i64::from(n as u32) } else { n };
    let (from, to, step) = (read(from), read(to), read(step));
    if from < to && step > 0 { ((to - from) as u64).div_ceil(step as u64) } else { 0 }
}
