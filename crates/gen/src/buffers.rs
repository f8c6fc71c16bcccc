//! The buffers of a generated module, declared when something first needs them.

use pelton_ir::arena::Buffer;
use pelton_ir::module::{BufferDecl, TextPlace};
use pelton_ir::op::Op;
use pelton_ir::types::{Access, Len, Space, Type};

use crate::make::ModuleMaker;

/// What a buffer is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferRole {
    /// All lanes read it, and no lane writes it.
    Input,
    /// It holds four slots per lane of the launch.
    Own,
    /// All lanes change it, with atomics of one kind.
    Sum,
    /// It holds four slots per lane of the group, in shared memory.
    Part,
    /// It is a sum in shared memory.
    Tally,
}

impl BufferRole {
    /// The first part of the names of such buffers.
    fn word(self) -> &'static str {
        match self {
            BufferRole::Input => "in",
            BufferRole::Own => "own",
            BufferRole::Sum => "sum",
            BufferRole::Part => "part",
            BufferRole::Tally => "tally",
        }
    }
}

/// A buffer of the module, with its role.
#[derive(Clone, Copy, Debug)]
pub struct RoleBuffer {
    /// The buffer's handle.
    pub buffer: Buffer,
    /// What the buffer is used for.
    pub role: BufferRole,
    /// The type of the buffer's elements.
    pub elem: Type,
    /// The atomics that may change it if it is a sum; empty otherwise.
    pub kind: &'static [Op],
}

/// Sets of atomics that commute with each other.
const KINDS: &[&[Op]] = &[
    &[Op::AtomicAdd, Op::AtomicSub],
    &[Op::AtomicAnd],
    &[Op::AtomicOr],
    &[Op::AtomicXor],
    &[Op::AtomicMin],
    &[Op::AtomicMax],
];

impl ModuleMaker<'_> {
    /// A buffer with a role and with elements of one of the given types. It is usually one that exists, so that
    /// accesses meet in few places. `None` means that the module has too many buffers already.
    pub fn buffer_for_role(&mut self, role: BufferRole, elems: &[Type]) -> Option<RoleBuffer> {
        let fits = |role_buffer: &&RoleBuffer| role_buffer.role == role && elems.contains(&role_buffer.elem);
        let known: Vec<RoleBuffer> = self.buffers.iter().filter(fits).copied().collect();
        let full = self.buffers.len() >= self.config.buffers;
        if !known.is_empty() && (full || !self.choose.one_in(6)) {
            return Some(self.choose.pick(&known));
        }
        if full {
            return None;
        }
        let elem = self.choose.pick(elems);
        let buffer = self.declare(role, elem);
        let kind =
            if matches!(role, BufferRole::Sum | BufferRole::Tally) { self.choose.pick(KINDS) } else { &[] };
        let role_buffer = RoleBuffer { buffer, role, elem, kind };
        self.buffers.push(role_buffer);
        Some(role_buffer)
    }

    fn declare(&mut self, role: BufferRole, elem: Type) -> Buffer {
        let choose = &mut *self.choose;
        let outside = &[Space::Global, Space::Global, Space::Host];
        let (space, access) = match role {
            BufferRole::Part | BufferRole::Tally => (Space::Shared, Access::ReadWrite),
            BufferRole::Sum => (Space::Global, Access::ReadWrite),
            BufferRole::Input => (choose.pick(outside), Access::Read),
            BufferRole::Own => (
                choose.pick(outside),
                choose.pick(&[Access::ReadWrite, Access::ReadWrite, Access::ReadWrite, Access::Write]),
            ),
        };
        // The interesting lengths are those that leave some lanes' slots out of range.
        let len = match (space, choose.below(8)) {
            (Space::Shared, _) => Len::Fixed(choose.pick(&[64, 132, 1, 16, 33])),
            (_, 5..) => Len::Fixed(choose.pick(&[8, 1, 7, 200])),
            _ => Len::Launch,
        };
        let name = format!("{}{}", role.word(), self.buffers.len());
        self.module.buffers.push(BufferDecl { name, elem, len, space, access, place: TextPlace::default() })
    }
}
