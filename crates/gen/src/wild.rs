//! Statements that are valid and no more: for modules that promise nothing.

use pelton_ir::module::{Attr, wide};
use pelton_ir::op::{Form, Op, TABLE};
use pelton_ir::types::{Class, Space};

use crate::body::{Body, known};
use crate::stock::Role;

impl Body<'_, '_> {
    /// An access to anything by anyone, the clock, or a copy.
    pub fn wild(&mut self) -> bool {
        if self.same() {
            return false;
        }
        match self.make.choose.below(6) {
            0..4 => self.access_any(),
            4 => {
                self.push(Op::Clock, Attr::None, &[]);
                true
            }
            _ => self.copy(),
        }
    }

    fn access_any(&mut self) -> bool {
        let forms = [Form::Place, Form::Wide, Form::Atomic];
        let rows: Vec<_> = TABLE.iter().filter(|row| forms.contains(&row.form)).collect();
        let row = self.make.choose.pick(&rows);
        let class = row.class.unwrap_or(Class::Num);
        let role = self.make.choose.pick(&[Role::Own, Role::Input, Role::Part, Role::Own]);
        let Some(stock) = self.stock(role, class.types()) else { return false };
        let decl = &self.make.module.buffers[stock.buffer];
        let reads = row.results.is_empty() || decl.access.reads();
        let writes = row.args.len() == 1 || decl.access.writes();
        if !reads || !writes || (row.op.modifies() && decl.space == Space::Host) {
            return false;
        }
        let Some(at) = self.anywhere(stock, row.form == Form::Wide) else { return false };
        let mut args = vec![at];
        let values = if row.op == Op::StoreWide { wide(stock.elem) } else { row.args.len() - 1 };
        args.extend((0..values).map(|_| self.any(stock.elem)));
        let attr = self.attr(row.op, stock);
        self.push(row.op, attr, &args);
        true
    }

    fn copy(&mut self) -> bool {
        let tag = known(1_u32);
        let Some(to) = self.stock(Role::Part, Class::Num.types()) else { return false };
        let Some(from) = self.stock(Role::Input, &[to.elem]) else { return false };
        let Some((into, out)) = self.anywhere(to, false).zip(self.anywhere(from, false)) else {
            return false;
        };
        let attr = Attr::Copy { to: to.buffer, from: from.buffer };
        self.push(Op::AsyncLoad, attr, &[into, out, known(2_u32), tag]);
        self.push(Op::AsyncWait, Attr::None, &[tag]);
        true
    }
}
