//! Arithmetic, bits, comparisons and conversions, with the language's corner cases where PTX has its own.
//!
//! PTX clamps shifts, leaves x / 0 open, and may contract float operations unless the rounding is written.

use crate::module::{Attr, Node};
use crate::op::Op;
use crate::types::{NAN, Type};

use super::lower::PtxLowering;
use super::write::{PtxReg, RegKind, bits, number};

impl PtxLowering<'_> {
    /// An op that only computes.
    pub(crate) fn pure(&mut self, node: &Node) {
        let ty = self.function.operand_ty(node.args[0]);
        match node.op {
            Op::Div | Op::Rem if ty != Type::F32 => self.divide(node, ty),
            Op::Shl | Op::Shr | Op::Rotl | Op::Rotr => self.shift(node, ty),
            Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => self.compare(node, ty),
            Op::Select => self.select(node),
            Op::Cast => self.cast(node, ty),
            Op::Bitcast => self.bitcast(node, ty),
            Op::Ctz => {
                let (to, a, width) = (self.result(node), self.held(node.args[0]), bits(ty));
                let turned = self.out.new_reg(a.kind);
                self.out.push_line(format_args!("brev.{width} {turned}, {a}"));
                self.out.push_line(format_args!("clz.{width} {to}, {turned}"));
            }
            op => {
                let (to, a) = (self.result(node), self.held(node.args[0]));
                let mut text = format!("{} {to}, {a}", name(op, ty));
                for arg in &node.args[1..] {
                    text = format!("{text}, {}", self.arg(*arg));
                }
                self.out.push_line(format_args!("{text}"));
            }
        }
    }

    /// Integer division: x / 0 and x rem 0 are 0, and the least number divided by −1 is itself.
    fn divide(&mut self, node: &Node, ty: Type) {
        let (to, a, b) = (self.result(node), self.held(node.args[0]), self.arg(node.args[1]));
        let (name, ty_name) = (if node.op == Op::Div { "div" } else { "rem" }, number(ty));
        let known = self.constant(node.args[1]);
        self.out.push_line(format_args!("{name}.{ty_name} {to}, {a}, {b}"));
        if ty == Type::I32 && known.is_none_or(|b| b == u64::from(u32::MAX)) {
            let (p, other) = (self.truth(), self.word());
            self.out.push_line(format_args!("setp.eq.s32 {p}, {b}, -1"));
            match node.op {
                Op::Div => self.out.push_line(format_args!("neg.s32 {other}, {a}")),
                _ => self.out.push_line(format_args!("mov.b32 {other}, 0")),
            }
            self.out.push_line(format_args!("selp.b32 {to}, {other}, {to}, {p}"));
        }
        if known.is_none_or(|b| b == 0) {
            let (p, width) = (self.truth(), bits(ty));
            self.out.push_line(format_args!("setp.eq.{ty_name} {p}, {b}, 0"));
            self.out.push_line(format_args!("selp.{width} {to}, 0, {to}, {p}"));
        }
    }

    /// Shifts and rotations, whose count is taken modulo the width.
    fn shift(&mut self, node: &Node, ty: Type) {
        let (to, a, width) = (self.result(node), self.held(node.args[0]), bits(ty));
        let most = ty.bits() - 1;
        let wraps = matches!(node.op, Op::Rotl | Op::Rotr) && ty != Type::U64;
        let by = match self.constant(node.args[1]) {
            Some(by) => (by & u64::from(most)).to_string(),
            None if wraps => self.arg(node.args[1]),
            None => {
                let (by, masked) = (self.held(node.args[1]), self.word());
                self.out.push_line(format_args!("and.b32 {masked}, {by}, {most}"));
                masked.to_string()
            }
        };
        match (node.op, ty) {
            (Op::Shl, _) => self.out.push_line(format_args!("shl.{width} {to}, {a}, {by}")),
            (Op::Shr, _) => self.out.push_line(format_args!("shr.{} {to}, {a}, {by}", number(ty))),
            (op, Type::U64) => {
                let (here, there) =
                    if op == Op::Rotl { ("shl.b64", "shr.u64") } else { ("shr.u64", "shl.b64") };
                let (rest, wrapped) = (self.word(), self.out.new_reg(RegKind::Long));
                // A shift by the whole width gives 0.
                self.out.push_line(format_args!("sub.u32 {rest}, 64, {by}"));
                self.out.push_line(format_args!("{there} {wrapped}, {a}, {rest}"));
                self.out.push_line(format_args!("{here} {to}, {a}, {by}"));
                self.out.push_line(format_args!("or.b64 {to}, {to}, {wrapped}"));
            }
            (Op::Rotl, _) => self.out.push_line(format_args!("shf.l.wrap.b32 {to}, {a}, {a}, {by}")),
            _ => self.out.push_line(format_args!("shf.r.wrap.b32 {to}, {a}, {a}, {by}")),
        }
    }

    fn compare(&mut self, node: &Node, ty: Type) {
        let (to, a, b) = (self.result(node), self.held(node.args[0]), self.arg(node.args[1]));
        let relation = node.op.row().name;
        match (ty, node.op) {
            (Type::Bool, op) => {
                self.out.push_line(format_args!("xor.pred {to}, {a}, {b}"));
                if op == Op::Eq {
                    self.out.push_line(format_args!("not.pred {to}, {to}"));
                }
            }
            // Not equal, or not comparable.
            (Type::F32, Op::Ne) => self.out.push_line(format_args!("setp.neu.f32 {to}, {a}, {b}")),
            _ => self.out.push_line(format_args!("setp.{relation}.{} {to}, {a}, {b}", number(ty))),
        }
    }

    fn select(&mut self, node: &Node) {
        let (to, c) = (self.result(node), self.held(node.args[0]));
        let (a, b) = (self.arg(node.args[1]), self.arg(node.args[2]));
        match to.kind {
            RegKind::Truth => {
                let (yes, no) = (self.truth(), self.truth());
                self.out.push_line(format_args!("and.pred {yes}, {c}, {a}"));
                self.out.push_line(format_args!("not.pred {no}, {c}"));
                self.out.push_line(format_args!("and.pred {no}, {no}, {b}"));
                self.out.push_line(format_args!("or.pred {to}, {yes}, {no}"));
            }
            kind => self.out.push_line(format_args!("selp.{} {to}, {a}, {b}, {c}", kind.words().1)),
        }
    }

    fn cast(&mut self, node: &Node, from: Type) {
        use Type::{Bool, F32, I32, U32, U64};
        let Attr::Type(into) = node.attr else { return };
        let (to, a) = (self.result(node), self.held(node.args[0]));
        match (from, into) {
            (Bool, F32) => self.out.push_line(format_args!("selp.f32 {to}, 0f3F800000, 0f00000000, {a}")),
            (Bool, _) => self.out.push_line(format_args!("selp.{} {to}, 1, 0, {a}", bits(into))),
            (I32, U64) => self.out.push_line(format_args!("cvt.s64.s32 {to}, {a}")),
            (U32, U64) => self.out.push_line(format_args!("cvt.u64.u32 {to}, {a}")),
            (U64, U32 | I32) => self.out.push_line(format_args!("cvt.u32.u64 {to}, {a}")),
            (U32 | I32 | U64, F32) => {
                self.out.push_line(format_args!("cvt.rn.f32.{} {to}, {a}", number(from)))
            }
            // Saturates; a NaN gives 0 at 32 bits but not at 64.
            (F32, U32 | I32) => self.out.push_line(format_args!("cvt.rzi.{}.f32 {to}, {a}", number(into))),
            (F32, U64) => {
                let p = self.truth();
                self.out.push_line(format_args!("cvt.rzi.u64.f32 {to}, {a}"));
                self.out.push_line(format_args!("setp.num.f32 {p}, {a}, {a}"));
                self.out.push_line(format_args!("selp.b64 {to}, {to}, 0, {p}"));
            }
            _ => self.out.push_line(format_args!("mov.{} {to}, {a}", to.kind.words().1)),
        }
    }

    /// The same bits, a NaN always with the same ones.
    fn bitcast(&mut self, node: &Node, from: Type) {
        let (to, a) = (self.result(node), self.held(node.args[0]));
        if from == Type::F32 {
            return self.bits_of_float(to, a);
        }
        self.out.push_line(format_args!("mov.b32 {to}, {a}"));
    }

    /// The bits of a float in a register of either kind, a NaN always with the same ones.
    pub(crate) fn bits_of_float(&mut self, to: PtxReg, float: PtxReg) {
        self.out.push_line(format_args!("mov.b32 {to}, {float}"));
        let p = self.truth();
        self.out.push_line(format_args!("setp.num.f32 {p}, {float}, {float}"));
        match to.kind {
            RegKind::Float => self.out.push_line(format_args!("selp.f32 {to}, {to}, 0f{NAN:08X}, {p}")),
            _ => self.out.push_line(format_args!("selp.b32 {to}, {to}, {NAN:#x}, {p}")),
        }
    }
}

/// The instruction of an op that PTX has as it is.
fn name(op: Op, ty: Type) -> String {
    let (number, bits) = (number(ty), bits(ty));
    let float = ty == Type::F32;
    let truth = ty == Type::Bool;
    match op {
        Op::Add | Op::Sub | Op::Div if float => format!("{}.rn.f32", op.row().name),
        Op::Mul if float => "mul.rn.f32".into(),
        Op::Mul => format!("mul.lo.{number}"),
        Op::MulHi => format!("mul.hi.{number}"),
        Op::Min | Op::Max if float => format!("{}.NaN.f32", op.row().name),
        Op::Fma => "fma.rn.f32".into(),
        Op::Sqrt => "sqrt.rn.f32".into(),
        Op::Floor => "cvt.rmi.f32.f32".into(),
        Op::Ceil => "cvt.rpi.f32.f32".into(),
        Op::Trunc => "cvt.rzi.f32.f32".into(),
        Op::Nearest => "cvt.rni.f32.f32".into(),
        Op::And | Op::Or | Op::Xor | Op::Not if truth => format!("{}.pred", op.row().name),
        Op::And | Op::Or | Op::Xor | Op::Not => format!("{}.{bits}", op.row().name),
        Op::Popcount => format!("popc.{bits}"),
        Op::Clz => format!("clz.{bits}"),
        op => format!("{}.{number}", op.row().name),
    }
}
