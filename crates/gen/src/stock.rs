//! The buffers of a generated module, declared when something first needs them.

use pelton_ir::arena::Buffer;
use pelton_ir::module::{BufferDecl, Place};
use pelton_ir::op::Op;
use pelton_ir::types::{Access, Len, Space, Type};

use crate::make::Make;

/// What a buffer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Read by all, written by nobody.
    Input,
    /// Four slots a lane of the launch.
    Own,
    /// Changed by all, by atomics of one kind.
    Sum,
    /// Four slots a lane of the group, in shared memory.
    Part,
    /// A sum in shared memory.
    Tally,
}

impl Role {
    /// What buffers for it are called.
    fn word(self) -> &'static str {
        match self {
            Role::Input => "in",
            Role::Own => "own",
            Role::Sum => "sum",
            Role::Part => "part",
            Role::Tally => "tally",
        }
    }
}

/// A buffer and what it is for.
#[derive(Clone, Copy, Debug)]
pub struct Stock {
    /// The buffer.
    pub buffer: Buffer,
    /// What it is for.
    pub role: Role,
    /// The type of its elements.
    pub elem: Type,
    /// The atomics that change it, if it is a sum.
    pub kind: &'static [Op],
}

/// Atomics that commute with each other.
const KINDS: &[&[Op]] = &[
    &[Op::AtomicAdd, Op::AtomicSub],
    &[Op::AtomicAnd],
    &[Op::AtomicOr],
    &[Op::AtomicXor],
    &[Op::AtomicMin],
    &[Op::AtomicMax],
];

impl Make<'_> {
    /// A buffer for something, with elements of one of these types: mostly one that there is, so that accesses meet
    /// in few places; none if there are too many others.
    pub fn buffer(&mut self, role: Role, elems: &[Type]) -> Option<Stock> {
        let fits = |stock: &&Stock| stock.role == role && elems.contains(&stock.elem);
        let known: Vec<Stock> = self.stock.iter().filter(fits).copied().collect();
        let full = self.stock.len() >= self.config.buffers;
        if !known.is_empty() && (full || !self.choose.one_in(6)) {
            return Some(self.choose.pick(&known));
        }
        if full {
            return None;
        }
        let elem = self.choose.pick(elems);
        let buffer = self.declare(role, elem);
        let kind = if matches!(role, Role::Sum | Role::Tally) { self.choose.pick(KINDS) } else { &[] };
        let stock = Stock { buffer, role, elem, kind };
        self.stock.push(stock);
        Some(stock)
    }

    fn declare(&mut self, role: Role, elem: Type) -> Buffer {
        let choose = &mut *self.choose;
        let outside = &[Space::Global, Space::Global, Space::Host];
        let (space, access) = match role {
            Role::Part | Role::Tally => (Space::Shared, Access::ReadWrite),
            Role::Sum => (Space::Global, Access::ReadWrite),
            Role::Input => (choose.pick(outside), Access::Read),
            Role::Own => (
                choose.pick(outside),
                choose.pick(&[Access::ReadWrite, Access::ReadWrite, Access::ReadWrite, Access::Write]),
            ),
        };
        // Lengths that some lanes' slots lie outside of are the interesting ones.
        let len = match (space, choose.below(8)) {
            (Space::Shared, _) => Len::Fixed(choose.pick(&[64, 132, 1, 16, 33])),
            (_, 5..) => Len::Fixed(choose.pick(&[8, 1, 7, 200])),
            _ => Len::Launch,
        };
        let name = format!("{}{}", role.word(), self.stock.len());
        self.module.buffers.push(BufferDecl { name, elem, len, space, access, place: Place::default() })
    }
}
