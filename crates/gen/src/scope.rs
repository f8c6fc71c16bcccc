//! The values that an instruction can use, with how uniform they are.

use pelton_ir::arena::Value;
use pelton_ir::module::Operand;
use pelton_ir::types::Type;
use pelton_ir::valid::Level;

/// An operand and how far it is the same, at least.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// The operand.
    pub operand: Operand,
    /// Its level.
    pub level: Level,
}

/// How far back a search for a value goes. A bound, so that long bodies are made in linear time.
const REACH: usize = 64;

/// Visible values by type, the newest last.
#[derive(Default, Debug)]
pub struct Scope {
    values: [Vec<(Value, Level)>; Type::ALL.len()],
    marks: Vec<[usize; Type::ALL.len()]>,
}

impl Scope {
    /// Adds a value.
    pub fn define(&mut self, value: Value, ty: Type, level: Level) {
        self.values[ty as usize].push((value, level));
    }

    /// Begins a region.
    pub fn open(&mut self) {
        self.marks.push(std::array::from_fn(|k| self.values[k].len()));
    }

    /// Ends a region: what it defined is seen no more.
    pub fn close(&mut self) {
        let marks = self.marks.pop().expect("a region is open");
        self.values.iter_mut().zip(marks).for_each(|(values, mark)| values.truncate(mark));
    }

    /// The `back`-th newest value of a type that is at least so uniform; the oldest in reach if there are fewer.
    pub fn find(&self, ty: Type, least: Level, back: usize) -> Option<Given> {
        let near = self.values[ty as usize].iter().rev().take(REACH);
        let (value, level) = near.filter(|(_, level)| *level >= least).take(back + 1).last()?;
        Some(Given { operand: (*value).into(), level: *level })
    }
}
