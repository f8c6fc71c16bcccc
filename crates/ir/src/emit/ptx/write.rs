//! Writing the text of PTX: lines, registers and labels.

use std::fmt;

use crate::types::{Const, Type};

/// The kinds of registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RegKind {
    /// 32 bits.
    Word,
    /// 64 bits.
    Long,
    /// A float.
    Float,
    /// A predicate.
    Truth,
}

impl RegKind {
    const ALL: [RegKind; 4] = [RegKind::Word, RegKind::Long, RegKind::Float, RegKind::Truth];

    /// Returns the kind of register that holds values of a type.
    pub(crate) fn from_type(ty: Type) -> RegKind {
        match ty {
            Type::U32 | Type::I32 => RegKind::Word,
            Type::U64 => RegKind::Long,
            Type::F32 => RegKind::Float,
            Type::Bool => RegKind::Truth,
        }
    }

    /// Returns the prefix of the names of such registers, and the type of the registers and of moves between them.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            RegKind::Word => ("%r", "b32"),
            RegKind::Long => ("%rd", "b64"),
            RegKind::Float => ("%f", "f32"),
            RegKind::Truth => ("%p", "pred"),
        }
    }
}

/// A register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PtxReg {
    pub kind: RegKind,
    at: u32,
}

impl fmt::Display for PtxReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.words().0, self.at)
    }
}

/// A place to branch to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PtxLabel {
    word: &'static str,
    at: u32,
}

impl fmt::Display for PtxLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}{}", self.word, self.at)
    }
}

/// The condition under which an instruction runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Predicate {
    Always,
    If(PtxReg),
    Unless(PtxReg),
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Predicate::Always => Ok(()),
            Predicate::If(p) => write!(f, "@{p} "),
            Predicate::Unless(p) => write!(f, "@!{p} "),
        }
    }
}

/// The PTX that has been written so far.
#[derive(Default)]
pub(super) struct PtxOut {
    pub text: String,
    regs: [u32; 4],
    /// By label: whether something branches there.
    labels: Vec<bool>,
}

impl PtxOut {
    /// Creates a register.
    pub(crate) fn new_reg(&mut self, kind: RegKind) -> PtxReg {
        let count = &mut self.regs[kind as usize];
        *count += 1;
        PtxReg { kind, at: *count - 1 }
    }

    /// Creates a label, which has no position yet.
    pub(crate) fn new_label(&mut self, word: &'static str) -> PtxLabel {
        self.labels.push(false);
        PtxLabel { word, at: self.labels.len() as u32 - 1 }
    }

    /// Adds a line with one instruction.
    pub(crate) fn push_line(&mut self, text: fmt::Arguments<'_>) {
        use fmt::Write as _;
        writeln!(self.text, "    {text};").expect("a string takes all that is written");
    }

    /// Adds a branch. If it is `uniform`, all lanes of a warp take it or none does.
    pub(crate) fn branch(&mut self, when: Predicate, to: PtxLabel, uniform: bool) {
        self.labels[to.at as usize] = true;
        self.push_line(format_args!("{when}bra{} {to}", if uniform { ".uni" } else { "" }));
    }

    /// Returns whether a branch to a label has been written.
    pub(crate) fn is_branched_to(&self, label: PtxLabel) -> bool {
        self.labels[label.at as usize]
    }

    /// Puts a label here to which a branch that is written later goes back.
    pub(crate) fn place_loop_head(&mut self, label: PtxLabel) {
        self.text.push_str(&format!("{label}:\n"));
    }

    /// Puts a label here, if a branch to it has been written.
    pub(crate) fn place_label(&mut self, label: PtxLabel) {
        if self.is_branched_to(label) {
            self.place_loop_head(label);
        }
    }

    /// Returns the declarations of all registers.
    pub(crate) fn declare(&self) -> String {
        let declare = |kind: RegKind| match (kind.words(), self.regs[kind as usize]) {
            (_, 0) => String::new(),
            ((name, ty), count) => format!("    .reg .{ty} {name}<{count}>;\n"),
        };
        RegKind::ALL.map(declare).concat()
    }
}

/// Returns a constant as PTX spells it.
pub(super) fn literal(c: Const) -> String {
    match c.ty() {
        Type::I32 => (c.bits() as u32 as i32).to_string(),
        Type::F32 => format!("0f{:08X}", c.bits()),
        _ if c.bits() > i64::MAX as u64 => format!("{:#x}", c.bits()),
        _ => c.bits().to_string(),
    }
}

/// Returns the type with which PTX computes.
pub(super) fn number(ty: Type) -> &'static str {
    match ty {
        Type::U32 | Type::Bool => "u32",
        Type::I32 => "s32",
        Type::U64 => "u64",
        Type::F32 => "f32",
    }
}

/// Returns the untyped PTX type with the same number of bits.
pub(super) fn bits(ty: Type) -> &'static str {
    if ty == Type::U64 { "b64" } else { "b32" }
}
