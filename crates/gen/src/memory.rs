//! Statements that access memory, and sections, in which lanes read each other's shared memory.

use pelton_ir::module::{Attr, elements_per_wide};
use pelton_ir::op::Op;
use pelton_ir::types::{Access, Len, Order, Scope, Space, Type, TypeClass};
use pelton_ir::valid::UniformLevel;

use crate::body::{BodyWriter, constant_operand};
use crate::buffers::{BufferRole, RoleBuffer};
use crate::scope::LeveledOperand;

/// The number of own slots per lane in a buffer, which is as many elements as a wide access moves at most.
const SLOTS: u32 = 4;

/// The orders that an op may have.
fn orders(op: Op) -> &'static [Order] {
    match op {
        Op::LoadWide | Op::StoreWide => &[Order::Relaxed],
        Op::AtomicLoad => &[Order::Relaxed, Order::Acquire],
        Op::AtomicStore => &[Order::Relaxed, Order::Release],
        Op::Fence => &[Order::AcqRel, Order::Acquire, Order::Release, Order::SeqCst],
        _ => &[Order::Relaxed, Order::Acquire, Order::Release, Order::AcqRel],
    }
}

impl BodyWriter<'_, '_> {
    /// Writes a load from an input, from one of the lane's own slots, or, in a section, from any lane's slots.
    pub(crate) fn write_load(&mut self) -> bool {
        let op = self.maker.choose.pick(&[Op::AtomicLoad, Op::Load, Op::Load, Op::Load, Op::LoadByte]);
        self.write_load_by(op)
    }

    /// Writes a load by a given op.
    fn write_load_by(&mut self, op: Op) -> bool {
        let roles = match self.section {
            Some(_) => {
                &[BufferRole::Part, BufferRole::Part, BufferRole::Tally, BufferRole::Input, BufferRole::Own][..]
            }
            None => &[BufferRole::Input, BufferRole::Own, BufferRole::Own, BufferRole::Part],
        };
        let role = self.maker.choose.pick(roles);
        let class = if role == BufferRole::Tally { TypeClass::Int } else { TypeClass::Num };
        let Some(role_buffer) = self.buffer_for(role, class.types()) else { return false };
        if self.buffer_access(role_buffer) == Access::Write {
            return false;
        }
        let at = match role {
            BufferRole::Own => Some(self.own_slot(role_buffer)),
            BufferRole::Part if self.section.is_none() => Some(self.own_slot(role_buffer)),
            BufferRole::Part if !self.maker.choose.one_in(3) => Some(self.neighbour_slot()),
            _ => {
                let width = if op == Op::LoadWide { elements_per_wide(role_buffer.elem) as u64 } else { 1 };
                self.any_index(role_buffer, width)
            }
        };
        let Some(at) = at else { return false };
        let mut args = vec![at];
        if op == Op::LoadByte {
            args.push(self.byte_number(role_buffer));
        }
        let attr = self.access_attr(op, role_buffer);
        self.push_inst(op, attr, &args);
        true
    }

    /// The number of a byte, which may or may not lie in the element. A constant always does, as the validator demands.
    pub(crate) fn byte_number(&mut self, role_buffer: RoleBuffer) -> LeveledOperand {
        let byte = self.number_below(UniformLevel::Lane, 7);
        match byte.operand.constant() {
            Some(c) => constant_operand(c.bits() as u32 % role_buffer.elem.bytes()),
            None => byte,
        }
    }

    /// Writes a store to one of the lane's own slots.
    pub(crate) fn write_store(&mut self) -> bool {
        let Some(role_buffer) = self.own_buffer(TypeClass::Num) else { return false };
        self.write_own_store(role_buffer)
    }

    /// Writes a store to one of the lane's own slots in a given buffer.
    fn write_own_store(&mut self, role_buffer: RoleBuffer) -> bool {
        let op = if self.maker.choose.one_in(4) { Op::AtomicStore } else { Op::Store };
        let args = [self.own_slot(role_buffer), self.any_operand(role_buffer.elem)];
        let attr = self.access_attr(op, role_buffer);
        self.push_inst(op, attr, &args);
        true
    }

    /// Writes a load of one of the lane's own slots, a computation, and a store of the result to the same slot.
    pub(crate) fn write_update(&mut self) -> bool {
        let Some(role_buffer) = self.own_buffer(TypeClass::Num) else { return false };
        if self.buffer_access(role_buffer) == Access::Write {
            return false;
        }
        let at = self.own_slot(role_buffer);
        let old = self.push_single(Op::Load, Attr::Buffer(role_buffer.buffer), &[at]);
        let op = self.maker.choose.pick(&[Op::Add, Op::Sub, Op::Mul, Op::Min]);
        let by = self.any_operand(role_buffer.elem);
        let new = self.push_single(op, Attr::None, &[old, by]);
        self.push_inst(Op::Store, Attr::Buffer(role_buffer.buffer), &[at, new]);
        true
    }

    /// Writes an atomic that changes one of the lane's own slots and returns what was there.
    pub(crate) fn write_atomic(&mut self) -> bool {
        let ops = [
            Op::AtomicAdd,
            Op::AtomicSub,
            Op::AtomicAnd,
            Op::AtomicOr,
            Op::AtomicXor,
            Op::AtomicMin,
            Op::AtomicMax,
            Op::AtomicExchange,
            Op::AtomicCas,
        ];
        let op = self.maker.choose.pick(&ops);
        let Some(role_buffer) = self.own_buffer(op.row().class.unwrap_or(TypeClass::Num)) else {
            return false;
        };
        let elem = role_buffer.elem;
        let decl = &self.maker.module.buffers[role_buffer.buffer];
        if decl.space == Space::Host || decl.access == Access::Write {
            return false;
        }
        let mut args = vec![self.own_slot(role_buffer), self.any_operand(elem)];
        if op == Op::AtomicCas {
            args.push(self.any_operand(elem));
        }
        let attr = self.access_attr(op, role_buffer);
        self.push_inst(op, attr, &args);
        true
    }

    /// Writes an atomic that adds to a sum. The old value depends on which lane came first, so it is not made
    /// visible.
    pub(crate) fn write_sum(&mut self) -> bool {
        let role = if self.maker.choose.one_in(2) && self.section.is_none() {
            BufferRole::Tally
        } else {
            BufferRole::Sum
        };
        let Some(role_buffer) = self.buffer_for(role, TypeClass::Int.types()) else { return false };
        let (op, elem) = (self.maker.choose.pick(role_buffer.kind), role_buffer.elem);
        let Some(at) = self.any_index(role_buffer, 1) else { return false };
        let args = vec![at.operand, self.any_operand(elem).operand];
        let attr = self.access_attr(op, role_buffer);
        self.write_inst(op, attr, args, &[elem]);
        true
    }

    /// Writes an access of 16 bytes.
    pub(crate) fn write_wide(&mut self) -> bool {
        if self.maker.choose.one_in(2) {
            return self.write_load_by(Op::LoadWide);
        }
        let Some(role_buffer) = self.own_buffer(TypeClass::Num) else { return false };
        let mut args = vec![self.own_slot(role_buffer)];
        args.extend((0..elements_per_wide(role_buffer.elem)).map(|_| self.any_operand(role_buffer.elem)));
        let attr = self.access_attr(Op::StoreWide, role_buffer);
        self.push_inst(Op::StoreWide, attr, &args);
        true
    }

    /// Writes a fence.
    pub(crate) fn write_fence(&mut self) -> bool {
        let order = self.maker.choose.pick(orders(Op::Fence));
        let scope = self.maker.choose.pick(Scope::ALL);
        self.push_inst(Op::Fence, Attr::Fence(order, scope), &[]);
        true
    }

    /// Writes a query of a buffer's length.
    pub(crate) fn write_length(&mut self) -> bool {
        if self.maker.buffers.is_empty() {
            return false;
        }
        let role_buffer = self.maker.choose.pick(&self.maker.buffers);
        self.push_inst(Op::Len, Attr::Buffer(role_buffer.buffer), &[]);
        true
    }

    /// Writes statements between two barriers, where no lane writes shared memory and all lanes may read it.
    pub(crate) fn write_section(&mut self) -> bool {
        if self.control_level() < UniformLevel::Group || self.section.is_some() {
            return false;
        }
        let part = self.buffer_for(BufferRole::Part, TypeClass::Num.types());
        // Between two sections in a row there is only the barrier that hides the second section's stores from the
        // first.
        for _ in 0..1 + self.maker.choose.below(2) {
            match part {
                Some(part) if !self.maker.choose.one_in(4) => self.write_own_store(part),
                _ => self.write_sum(),
            };
            self.push_inst(Op::Barrier, Attr::None, &[]);
            self.write_section_inside();
            self.push_inst(Op::Barrier, Attr::None, &[]);
        }
        true
    }

    /// Writes the inside of a section, mostly loads of other lanes' slots.
    fn write_section_inside(&mut self) {
        self.section = Some(self.frames.len());
        for _ in 0..1 + self.maker.choose.below(4) {
            if self.maker.choose.one_in(3) {
                self.write_statement();
            } else {
                self.write_load();
            }
        }
        self.section = None;
    }

    /// Writes stores of the newest values of each type to memory that the host reads.
    pub(crate) fn store_newest(&mut self) {
        let flag = self.scope.find(Type::Bool, UniformLevel::Lane, 0);
        if let Some(flag) = flag {
            self.push_single(Op::Cast, Attr::Type(Type::U32), &[flag]);
        }
        for elem in TypeClass::Num.types() {
            for k in 0..=self.maker.choose.below(SLOTS as usize) {
                let Some(value) = self.scope.find(*elem, UniformLevel::Lane, k) else { break };
                let Some(role_buffer) = self.maker.buffer_for_role(BufferRole::Own, &[*elem]) else { break };
                let at = match k {
                    0 => self.own,
                    _ => self.push_single(Op::Add, Attr::None, &[self.own, constant_operand(k as u32)]),
                };
                self.push_inst(Op::Store, Attr::Buffer(role_buffer.buffer), &[at, value]);
            }
        }
    }

    /// A buffer with a role; see [`ModuleMaker::buffer_for_role`].
    pub(crate) fn buffer_for(&mut self, role: BufferRole, elems: &[Type]) -> Option<RoleBuffer> {
        self.shares |= matches!(role, BufferRole::Part | BufferRole::Tally);
        self.maker.buffer_for_role(role, elems)
    }

    /// A buffer in which the lane has slots of its own that it may write at this place.
    fn own_buffer(&mut self, class: TypeClass) -> Option<RoleBuffer> {
        let part = self.maker.choose.one_in(3) && self.section.is_none();
        self.buffer_for(if part { BufferRole::Part } else { BufferRole::Own }, class.types())
    }

    /// The kinds of access that a buffer allows.
    pub(crate) fn buffer_access(&self, role_buffer: RoleBuffer) -> Access {
        self.maker.module.buffers[role_buffer.buffer].access
    }

    /// The attribute of an access by an op to a buffer.
    pub(crate) fn access_attr(&mut self, op: Op, role_buffer: RoleBuffer) -> Attr {
        if let Op::Load | Op::LoadByte | Op::Store = op {
            return Attr::Buffer(role_buffer.buffer);
        }
        let order = self.maker.choose.pick(orders(op));
        let shared = self.maker.module.buffers[role_buffer.buffer].space == Space::Shared;
        let scopes = match (shared, role_buffer.role) {
            (true, _) => &[Scope::Group][..],
            // Several groups change a sum, and an access at scope `group` is atomic within one group only.
            (_, BufferRole::Sum) => &[Scope::Device, Scope::System],
            _ => Scope::ALL,
        };
        let scope = self.maker.choose.pick(scopes);
        Attr::Atomic(role_buffer.buffer, order, scope)
    }

    /// The index of one of the lane's own slots.
    pub(crate) fn own_slot(&mut self, role_buffer: RoleBuffer) -> LeveledOperand {
        let base = if role_buffer.role == BufferRole::Part {
            let lane = self.push_single(Op::Lane, Attr::None, &[]);
            self.push_single(Op::Mul, Attr::None, &[lane, constant_operand(SLOTS)])
        } else {
            self.own
        };
        match self.maker.choose.below(8) {
            0..5 => base,
            5 => {
                let by = 1 + self.maker.choose.below(SLOTS as usize - 1) as u32;
                self.push_single(Op::Add, Attr::None, &[base, constant_operand(by)])
            }
            way => {
                let any = self.any_operand(Type::U32);
                let by = self.push_single(Op::And, Attr::None, &[any, constant_operand(SLOTS - 1)]);
                self.push_single(if way == 6 { Op::Add } else { Op::Or }, Attr::None, &[base, by])
            }
        }
    }

    /// The index of the first slot of a lane nearby.
    fn neighbour_slot(&mut self) -> LeveledOperand {
        let lane = self.push_single(Op::Lane, Attr::None, &[]);
        let by = constant_operand(1 + self.maker.choose.below(3) as u32);
        let op = self.maker.choose.pick(&[Op::Xor, Op::Add, Op::Sub]);
        let other = self.push_single(op, Attr::None, &[lane, by]);
        self.push_single(Op::Mul, Attr::None, &[other, constant_operand(SLOTS)])
    }

    /// Any index for an access of `width` elements, in range or not. A constant is always in range, because the
    /// validator demands it; `None` means that no constant is.
    pub(crate) fn any_index(&mut self, role_buffer: RoleBuffer, width: u64) -> Option<LeveledOperand> {
        let at = self.number_below(UniformLevel::Lane, 63);
        match (at.operand.constant(), self.maker.module.buffers[role_buffer.buffer].len) {
            (Some(_), Len::Fixed(len)) if len < width => None,
            (Some(c), Len::Fixed(len)) => Some(constant_operand((c.bits() % (len / width * width)) as u32)),
            _ => Some(at),
        }
    }
}
