//! Statements that repeat.

use pelton_ir::arena::Inst;
use pelton_ir::module::{Attr, Operand};
use pelton_ir::op::Op;
use pelton_ir::types::{Const, Type};
use pelton_ir::valid::UniformLevel;

use crate::body::{BodyWriter, constant_operand};
use crate::frame::{LeveledType, RegionFrame};
use crate::make::types;
use crate::scope::LeveledOperand;

/// The largest number of iterations of a loop.
const TRIPS: u32 = 4;

/// Constant bounds of counted loops: no iteration, few, backwards, a step of zero, and bounds at the ends of the
/// range of integers, where a counter that wraps would run for ever.
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

impl BodyWriter<'_, '_> {
    /// Writes a counted `loop`.
    pub(crate) fn write_loop(&mut self) -> bool {
        if !self.has_room_for_loop() {
            return false;
        }
        let ty = self.maker.choose.pick(&[Type::U32, Type::I32]);
        let bounds = self.loop_bounds(ty);
        let level = bounds.iter().map(|bound| bound.level).min().unwrap_or(UniformLevel::Group);
        let start = self.maker.choose_level(level.min(self.control_level()));
        let carried = self.maker.choose_types(2, UniformLevel::Group);
        let fixed: Vec<Operand> = bounds.iter().map(|bound| bound.operand).collect();
        let inst = self.begin_loop(Op::Loop, fixed, start, level, &carried);
        let mut params = vec![(ty, bounds[0].level.min(bounds[2].level))];
        params.extend(carried);
        self.write_region(inst, &params);
        self.end_loop(inst);
        true
    }

    /// Writes a `while`.
    pub(crate) fn write_while(&mut self) -> bool {
        if !self.has_room_for_loop() {
            return false;
        }
        let start = self.maker.choose_level(self.control_level());
        let carried = self.carried_with_fuel(start);
        let inst = self.begin_loop(Op::While, Vec::new(), start, start, &carried);
        let params = self.open_region(inst, &carried);
        self.innermost_frame().test = true;
        self.write_inside();
        self.end_while_test(params[0], start);
        let control = self.control_level();
        self.writer.close_region();
        self.innermost_frame().test = false;
        self.write_while_body(inst, params[0], control);
        self.scope.close();
        self.end_loop(inst);
        true
    }

    /// Ends the test of a `while`; rarely by leaving the loop unconditionally.
    fn end_while_test(&mut self, fuel: LeveledOperand, start: UniformLevel) {
        if self.maker.choose.one_in(16) {
            return self.end_region();
        }
        let most = self.maker.choose.below(TRIPS as usize + 1) as u32;
        let more = self.fuel_condition(fuel, most, start);
        self.write_inst(Op::Yield, Attr::None, vec![more.operand], &[]);
    }

    /// Writes the body of a `while`, which sees the values that the test has computed.
    fn write_while_body(&mut self, inst: Inst, fuel: LeveledOperand, control: UniformLevel) {
        self.open_region(inst, &[]);
        self.innermost_frame().control = control;
        let next = self.push_single(Op::Add, Attr::None, &[fuel, constant_operand(1_u32)]);
        self.innermost_frame().fuel = Some(next);
        self.write_inside();
        self.end_region();
        self.close_region();
    }

    /// Writes a `forever` that ends when its fuel runs out.
    pub(crate) fn write_forever(&mut self) -> bool {
        if !self.has_room_for_loop() || self.frames.len() + 1 >= self.maker.config.depth {
            return false;
        }
        let start = self.maker.choose_level(self.control_level());
        let carried = self.carried_with_fuel(start);
        let init = self.initial_operands(&carried);
        let results = types(&self.maker.choose_types(2, UniformLevel::Lane));
        let (inst, _) = self.write_inst(Op::Forever, Attr::None, init, &results);
        let mut frame = RegionFrame::new(Some((inst, Op::Forever)), start);
        frame.results = results.into_iter().map(|ty| (ty, UniformLevel::Group)).collect();
        frame.carried.clone_from(&carried);
        self.frames.push(frame);
        self.times = self.times.saturating_mul(TRIPS.into());
        let params = self.open_region(inst, &carried);
        let next = self.push_single(Op::Add, Attr::None, &[params[0], constant_operand(1_u32)]);
        self.innermost_frame().fuel = Some(next);
        let most = self.maker.choose.below(TRIPS as usize) as u32;
        let more = self.fuel_condition(params[0], most, start);
        let over = self.push_single(Op::Not, Attr::None, &[more]);
        self.write_exit(over);
        self.write_inside();
        self.end_region();
        self.close_region();
        self.end_loop(inst);
        true
    }

    /// Writes an exit from the innermost loop under a condition that is as uniform as the loop.
    fn write_exit(&mut self, over: LeveledOperand) {
        let to = self.frames.len() - 1;
        let (inst, _) = self.write_inst(Op::If, Attr::None, vec![over.operand], &[]);
        let control = over.level.min(self.control_level());
        self.frames.push(RegionFrame::new(Some((inst, Op::If)), control));
        self.open_region(inst, &[]);
        self.write_jump(Op::Break, to);
        self.close_region();
        self.open_region(inst, &[]);
        self.write_inst(Op::Yield, Attr::None, Vec::new(), &[]);
        self.close_region();
        self.close_nest(inst);
    }

    /// Whether a loop may be written here.
    fn has_room_for_loop(&self) -> bool {
        let inside =
            self.times.saturating_mul(TRIPS.into()).saturating_mul(self.maker.config.width as u64 * 8);
        self.has_room() && self.steps.saturating_add(inside) < self.maker.config.steps
    }

    /// Chooses the values that a loop with fuel carries. Fuel decides when lanes leave, so it is as uniform as the
    /// loop.
    fn carried_with_fuel(&mut self, start: UniformLevel) -> Vec<LeveledType> {
        let mut carried = vec![(Type::U32, start)];
        carried.extend(self.maker.choose_types(2, UniformLevel::Group));
        carried
    }

    /// The initial values of a loop, at their planned levels; fuel starts at 0.
    fn initial_operands(&mut self, carried: &[LeveledType]) -> Vec<Operand> {
        let rest: Vec<LeveledOperand> =
            carried[1..].iter().map(|(ty, level)| self.operand(*ty, *level)).collect();
        std::iter::once(constant_operand(0_u32)).chain(rest).map(|given| given.operand).collect()
    }

    /// Begins a loop whose results are the carried values, each at most at the level `level`.
    fn begin_loop(
        &mut self,
        op: Op,
        fixed: Vec<Operand>,
        start: UniformLevel,
        level: UniformLevel,
        carried: &[LeveledType],
    ) -> Inst {
        let init = match op {
            Op::While => self.initial_operands(carried),
            _ => carried.iter().map(|(ty, level)| self.operand(*ty, *level).operand).collect(),
        };
        let args = fixed.into_iter().chain(init).collect();
        let (inst, _) = self.write_inst(op, Attr::None, args, &types(carried));
        let mut frame = RegionFrame::new(Some((inst, op)), start);
        frame.results = carried.iter().map(|(ty, plan)| (*ty, level.min(*plan))).collect();
        frame.carried = carried.to_vec();
        self.frames.push(frame);
        self.times = self.times.saturating_mul(TRIPS.into());
        inst
    }

    /// Ends a loop.
    fn end_loop(&mut self, inst: Inst) {
        self.times /= u64::from(TRIPS);
        self.close_nest(inst);
    }

    /// Chooses the start, end and step of a counted loop that runs a few times at most.
    fn loop_bounds(&mut self, ty: Type) -> [LeveledOperand; 3] {
        let number = |n: i64| constant_operand(Const::new(ty, n as u64));
        let small = |body: &mut Self, most: i64| {
            let any = body.any_operand(ty);
            body.push_single(Op::And, Attr::None, &[any, number(most)])
        };
        match self.maker.choose.below(8) {
            0..4 => {
                // Some constants that mean few iterations for one type mean many for the other.
                let few: Vec<_> =
                    BOUNDS.iter().filter(|bounds| trip_count(ty, **bounds) <= TRIPS.into()).collect();
                let (from, to, step) = *self.maker.choose.pick(&few);
                [number(from), number(to), number(step)]
            }
            4 => [number(0), small(self, 3), number(1)],
            5 => [small(self, 3), number(4), number(1)],
            6 => [number(0), number(3), small(self, 3)],
            _ => [small(self, 1), small(self, 3), small(self, 1)],
        }
    }
}

/// The number of iterations of a counted loop.
fn trip_count(ty: Type, (from, to, step): (i64, i64, i64)) -> u64 {
    let read = |n: i64| if ty == Type::U32 { i64::from(n as u32) } else { n };
    let (from, to, step) = (read(from), read(to), read(step));
    if from < to && step > 0 { ((to - from) as u64).div_ceil(step as u64) } else { 0 }
}
