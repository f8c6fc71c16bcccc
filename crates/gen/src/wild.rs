//! Statements that are valid but promise nothing else, for modules that may race.

use pelton_ir::module::{Attr, elements_per_wide};
use pelton_ir::op::{Op, OpEffect, OpForm, TABLE};
use pelton_ir::types::{Space, TypeClass};

use crate::body::{BodyWriter, constant_operand};
use crate::buffers::BufferRole;

impl BodyWriter<'_, '_> {
    /// Writes an access to any buffer by any lane, a read of the clock, or a copy.
    pub(crate) fn write_wild(&mut self) -> bool {
        if self.promises_same() {
            return false;
        }
        match self.maker.choose.below(6) {
            0..4 => self.write_any_access(),
            4 => {
                self.push_inst(Op::Clock, Attr::None, &[]);
                true
            }
            _ => self.write_copy(),
        }
    }

    fn write_any_access(&mut self) -> bool {
        let forms = [OpForm::Place, OpForm::Wide, OpForm::Atomic];
        let rows: Vec<_> = TABLE.iter().filter(|row| forms.contains(&row.form)).collect();
        let row = self.maker.choose.pick(&rows);
        let class = row.class.unwrap_or(TypeClass::Num);
        let role =
            self.maker.choose.pick(&[BufferRole::Own, BufferRole::Input, BufferRole::Part, BufferRole::Own]);
        let Some(role_buffer) = self.buffer_for(role, class.types()) else { return false };
        let decl = &self.maker.module.buffers[role_buffer.buffer];
        let reads = row.results.is_empty() || decl.access.reads();
        let writes = row.args.len() == 1 || row.effect == OpEffect::Read || decl.access.writes();
        if !reads || !writes || (row.op.is_read_modify_write() && decl.space == Space::Host) {
            return false;
        }
        let width = if row.form == OpForm::Wide { elements_per_wide(role_buffer.elem) as u64 } else { 1 };
        let Some(at) = self.any_index(role_buffer, width) else { return false };
        let mut args = vec![at];
        if row.op == Op::LoadByte {
            args.push(self.byte_number(role_buffer));
        } else {
            let values = if row.op == Op::StoreWide {
                elements_per_wide(role_buffer.elem)
            } else {
                row.args.len() - 1
            };
            args.extend((0..values).map(|_| self.any_operand(role_buffer.elem)));
        }
        let attr = self.access_attr(row.op, role_buffer);
        self.push_inst(row.op, attr, &args);
        true
    }

    fn write_copy(&mut self) -> bool {
        let tag = constant_operand(1_u32);
        let Some(to) = self.buffer_for(BufferRole::Part, TypeClass::Num.types()) else { return false };
        let Some(from) = self.buffer_for(BufferRole::Input, &[to.elem]) else { return false };
        let Some((into, out)) = self.any_index(to, 1).zip(self.any_index(from, 1)) else {
            return false;
        };
        let attr = Attr::Copy { to: to.buffer, from: from.buffer };
        self.push_inst(Op::AsyncLoad, attr, &[into, out, constant_operand(2_u32), tag]);
        self.push_inst(Op::AsyncWait, Attr::None, &[tag]);
        true
    }
}
