//! Moves of several values at once: what regions yield and jumps bring.

use crate::arena::Value;
use crate::module::Operand;

use super::lower::PtxLowering;
use super::write::{Predicate, PtxReg, literal};

impl PtxLowering<'_> {
    /// Sets values to operands as if all at once: a source that an earlier move overwrites is saved first.
    pub(crate) fn moves(&mut self, when: Predicate, to: &[Value], from: &[Operand]) {
        let pairs: Vec<(PtxReg, Operand)> =
            to.iter().map(|value| self.reg(*value)).zip(from.iter().copied()).collect();
        let mut sources: Vec<String> = Vec::with_capacity(pairs.len());
        for (k, (_, from)) in pairs.iter().enumerate() {
            sources.push(match self.known(*from) {
                Operand::Const(c) => literal(c),
                Operand::Value(value) => {
                    let reg = self.reg(value);
                    let overwritten = pairs[..k].iter().any(|(to, _)| *to == reg);
                    if overwritten { self.copy(reg).to_string() } else { reg.to_string() }
                }
            });
        }
        for ((to, _), from) in pairs.iter().zip(sources) {
            if to.to_string() != from {
                let ty = to.kind.words().1;
                self.out.push_line(format_args!("{when}mov.{ty} {to}, {from}"));
            }
        }
    }

    /// The same in another register.
    fn copy(&mut self, reg: PtxReg) -> PtxReg {
        let copy = self.out.new_reg(reg.kind);
        self.out.push_line(format_args!("mov.{} {copy}, {reg}", reg.kind.words().1));
        copy
    }
}
