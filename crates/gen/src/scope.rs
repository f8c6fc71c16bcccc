//! The values that an instruction can use, with how uniform each is.

use pelton_ir::arena::Value;
use pelton_ir::module::Operand;
use pelton_ir::types::Type;
use pelton_ir::valid::UniformLevel;

/// An operand, with the level at which it is known to be uniform.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeveledOperand {
    /// The operand.
    pub operand: Operand,
    /// The level at which the operand is known to be uniform.
    pub level: UniformLevel,
}

/// The furthest that a search for a value goes back. The bound keeps the time for long bodies linear.
const REACH: usize = 64;

/// Visible values by type, the newest last.
#[derive(Default, Debug)]
pub(crate) struct VisibleValues {
    values: [Vec<(Value, UniformLevel)>; Type::ALL.len()],
    marks: Vec<[usize; Type::ALL.len()]>,
}

impl VisibleValues {
    /// Adds a value.
    pub(crate) fn define(&mut self, value: Value, ty: Type, level: UniformLevel) {
        self.values[ty as usize].push((value, level));
    }

    /// Begins a region.
    pub(crate) fn open(&mut self) {
        self.marks.push(std::array::from_fn(|k| self.values[k].len()));
    }

    /// Ends a region, whose values are no longer visible.
    pub(crate) fn close(&mut self) {
        let marks = self.marks.pop().expect("a region is open");
        self.values.iter_mut().zip(marks).for_each(|(values, mark)| values.truncate(mark));
    }

    /// The `back`-th newest value of a type that is at least as uniform as `least`, or the oldest within reach if
    /// there are fewer.
    pub(crate) fn find(&self, ty: Type, least: UniformLevel, back: usize) -> Option<LeveledOperand> {
        let near = self.values[ty as usize].iter().rev().take(REACH);
        let (value, level) = near.filter(|(_, level)| *level >= least).take(back + 1).last()?;
        Some(LeveledOperand { operand: (*value).into(), level: *level })
    }
}
