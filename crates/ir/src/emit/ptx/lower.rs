//! From a flat kernel to text: each instruction by its kind, and the frame around them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::arena::{Handle, Inst, Value};
use crate::module::{Function, Node, Operand};
use crate::op::{Op, OpEffect, OpForm};
use crate::pass::bounds::{Bounds, KnownGeometry};
use crate::types::{Len, Space, Type};
use crate::valid::Uniformity;

use super::abi::record;
use super::control::JumpFrame;
use super::fixed::{Fixed, noted};
use super::leave::LeavePlan;
use super::live::live;
use super::write::{Predicate, PtxLabel, PtxOut, PtxReg, RegKind, literal};
use super::{FlatKernel, PtxConfig, PtxParam, RESIDENT, STATIC, size};

/// Lanes in a warp.
pub(super) const WARP: u32 = 32;

/// Bytes before the shared buffers that broadcasts of a group go through: two words of 64 bits, used in turn.
const SCRATCH: u32 = 16;

/// A kernel as text.
pub(super) struct Lowered {
    pub text: String,
    pub entry: String,
    pub shared: u32,
}

/// A kernel being written.
pub(super) struct PtxLowering<'a> {
    pub flat: &'a FlatKernel,
    pub function: &'a Function,
    pub uniform: &'a Uniformity,
    pub config: PtxConfig,
    pub bounds: Bounds,
    pub leave: LeavePlan,
    /// By value: whether it is needed.
    pub live: Vec<bool>,
    pub out: PtxOut,
    /// What the current instructions run under, where an `if` became predicates.
    pub when: Predicate,
    /// By instruction: what jumps to it need to know, while it is open.
    pub frames: Vec<Option<JumpFrame>>,
    /// The instructions around the current one, with the region that it is in.
    pub owners: Vec<(Inst, usize)>,
    /// Where each open `while` goes when its test fails, and whether a warp goes as one.
    pub tests: Vec<(PtxLabel, bool)>,
    /// Where lanes that are told to leave go.
    pub stopped: PtxLabel,
    /// What is set at the start.
    pub start: BTreeMap<Fixed, PtxReg>,
    /// By buffer: the offset of its address in the launch record.
    pub words: Vec<u32>,
    /// By value: its register.
    values: Vec<Option<PtxReg>>,
    /// By value: the number that it always is, here.
    numbers: Vec<Option<u32>>,
    /// By buffer: where it lies in shared memory.
    pub offsets: Vec<u32>,
    /// Bytes of shared memory, and how many of them are the scratch.
    shared: u32,
    scratch: u32,
}

/// Writes a kernel.
pub(super) fn lower(flat: &FlatKernel, config: PtxConfig, params: &[PtxParam]) -> Lowered {
    let function = flat.function();
    let (offsets, scratch, shared) = layout(flat, config.lanes);
    let known = KnownGeometry { lanes: Some(config.lanes), groups: None, subgroup: Some(WARP) };
    let mut words = vec![0; flat.module.buffers.len()];
    params.iter().for_each(|param| words[param.buffer.index()] = 8 * param.word);
    let mut out = PtxOut::default();
    let stopped = out.new_label("stopped");
    let mut lower = PtxLowering {
        flat,
        function,
        uniform: flat.uniformity(),
        config,
        bounds: Bounds::new(&flat.module, known),
        leave: LeavePlan::new(function, flat.uniformity()),
        live: live(function),
        out,
        when: Predicate::Always,
        frames: vec![None; function.insts().len()],
        owners: Vec::new(),
        tests: Vec::new(),
        stopped,
        start: BTreeMap::new(),
        words,
        values: vec![None; function.values().len()],
        numbers: vec![None; function.values().len()],
        offsets,
        shared,
        scratch,
    };
    lower.region(function.body);
    lower.finish(params.len())
}

/// Where each shared buffer lies that the kernel uses, and how many bytes that takes.
fn layout(flat: &FlatKernel, lanes: u32) -> (Vec<u32>, u32, u32) {
    let function = flat.function();
    let mut offsets = vec![None; flat.module.buffers.len()];
    let broadcasts = function.insts().any(|(_, node)| node.op == Op::GroupBroadcast);
    let scratch = if broadcasts && lanes > WARP { SCRATCH } else { 0 };
    let mut end = scratch;
    for (_, node) in function.insts() {
        let Some(buffer) = node.buffer().filter(|_| node.op.row().form != OpForm::Buffer) else { continue };
        let decl = &flat.module.buffers[buffer];
        if let (Space::Shared, Len::Fixed(len), None) = (decl.space, decl.len, offsets[buffer.index()]) {
            offsets[buffer.index()] = Some(end);
            // The validator bounds the sum.
            end += (len as u32 * decl.elem.bits() / 8).next_multiple_of(16);
        }
    }
    (offsets.into_iter().map(|offset| offset.unwrap_or(0)).collect(), scratch, end)
}

impl PtxLowering<'_> {
    /// Writes an instruction.
    pub(crate) fn inst(&mut self, inst: Inst) {
        let function = self.function;
        let node = function.inst(inst);
        match (node.op, node.op.effect()) {
            (op, _) if op.is_terminator() => self.end(inst),
            (op, _) if op.has_regions() => self.nest(inst),
            (Op::Len | Op::Lane | Op::Group | Op::Lanes | Op::Groups, _)
            | (Op::Subgroup | Op::Sublane | Op::SubgroupSize, _) => self.geometry(node),
            (_, OpEffect::Pure) => self.pure(node),
            (_, OpEffect::Read | OpEffect::Write) => self.access(inst, node),
            (Op::Fence, _) => self.fence(node),
            (_, OpEffect::Atomic) => self.access(inst, node),
            (_, OpEffect::Sync) => self.sync(inst, node),
            _ => self.world(inst, node),
        }
    }

    /// The register of a value.
    pub(crate) fn reg(&mut self, value: Value) -> PtxReg {
        let ty = self.function.ty(value);
        *self.values[value.index()].get_or_insert_with(|| self.out.new_reg(RegKind::from_type(ty)))
    }

    /// The register of the only result.
    pub(crate) fn result(&mut self, node: &Node) -> PtxReg {
        self.reg(node.results.get(0))
    }

    /// The operand, or the number that it always is.
    pub(crate) fn known(&self, operand: Operand) -> Operand {
        match operand {
            Operand::Value(value) => self.numbers[value.index()].map_or(operand, Operand::from),
            Operand::Const(_) => operand,
        }
    }

    /// The bits of an operand that is always the same.
    pub(crate) fn constant(&self, operand: Operand) -> Option<u64> {
        self.known(operand).constant().map(|c| c.bits())
    }

    /// An operand as it can stand in most instructions: a register, or a number.
    pub(crate) fn arg(&mut self, operand: Operand) -> String {
        match self.known(operand) {
            Operand::Const(c) if c.ty() != Type::Bool => literal(c),
            operand => self.held(operand).to_string(),
        }
    }

    /// An operand in a register.
    pub(crate) fn held(&mut self, operand: Operand) -> PtxReg {
        match self.known(operand) {
            Operand::Value(value) => self.reg(value),
            Operand::Const(c) => {
                let reg = self.out.new_reg(RegKind::from_type(c.ty()));
                self.out.push_line(format_args!("mov.{} {reg}, {}", reg.kind.words().1, literal(c)));
                reg
            }
        }
    }

    /// A new predicate.
    pub(crate) fn truth(&mut self) -> PtxReg {
        self.out.new_reg(RegKind::Truth)
    }

    /// A new word.
    pub(crate) fn word(&mut self) -> PtxReg {
        self.out.new_reg(RegKind::Word)
    }

    /// Writes the ops that give the geometry of the launch, which is set at the start or always the same.
    fn geometry(&mut self, node: &Node) {
        let value = node.results.get(0);
        let fixed =
            match (node.op, node.buffer().map(|buffer| (buffer, self.flat.module.buffers[buffer].len))) {
                (Op::Lane, _) => Ok(Fixed::Lane),
                (Op::Group, _) => Ok(Fixed::Group),
                (Op::Groups, _) => Ok(Fixed::Groups),
                (Op::Subgroup, _) => Ok(Fixed::Subgroup),
                (Op::Sublane, _) => Ok(Fixed::Sublane),
                (Op::Lanes, _) => Err(self.config.lanes),
                (_, Some((buffer, Len::Launch))) => Ok(Fixed::Len(buffer)),
                (_, Some((_, Len::Fixed(len)))) => Err(len as u32),
                _ => Err(WARP),
            };
        match fixed {
            Ok(fixed) => self.values[value.index()] = Some(self.fixed(fixed)),
            Err(number) => self.numbers[value.index()] = Some(number),
        }
    }

    /// Puts the parts together.
    fn finish(mut self, params: usize) -> Lowered {
        if self.out.is_branched_to(self.stopped) {
            let record = self.fixed(Fixed::Record);
            self.out.place_label(self.stopped);
            self.out
                .push_line(format_args!("st.relaxed.gpu.global.u32 [{}], 1", noted(record, record::STOPPED)));
            self.out.push_line(format_args!("exit"));
        }
        let body = std::mem::take(&mut self.out.text);
        self.clear();
        let clear = std::mem::take(&mut self.out.text);
        self.start();
        let start = std::mem::take(&mut self.out.text);
        let entry = format!("pelton_{}", self.function.name.replace('.', "$"));
        let PtxConfig { target, lanes } = self.config;
        let together = (RESIDENT / lanes.max(1)).clamp(1, 8);
        let mut text = format!(".version {}\n.target {target}\n.address_size 64\n\n", target.version());
        match self.shared {
            0 => {}
            bytes if bytes <= STATIC => {
                let _ = writeln!(text, ".shared .align 16 .b8 memory[{bytes}];\n");
            }
            _ => text.push_str(".extern .shared .align 16 .b8 memory[];\n\n"),
        }
        let _ = writeln!(
            text,
            ".visible .entry {entry}(.param .align 8 .b8 launch[{}])\n.reqntid {lanes}, 1, 1\n.minnctapersm {together}\n{{\n{}\n{start}{clear}{body}}}",
            size(params),
            self.out.declare(),
        );
        Lowered { text, entry, shared: self.shared }
    }

    /// Sets shared memory to zero, 16 bytes per lane at a time.
    fn clear(&mut self) {
        if self.shared == self.scratch {
            return;
        }
        let (lane, shared) = (self.fixed(Fixed::Lane), self.fixed(Fixed::Shared));
        let (bytes, step) = (self.shared, self.config.lanes * 16);
        let (at, to, left) = (self.word(), self.word(), self.truth());
        let (more, done) = (self.out.new_label("clear"), self.out.new_label("cleared"));
        self.out.push_line(format_args!("shl.b32 {at}, {lane}, 4"));
        if bytes < step {
            self.out.push_line(format_args!("setp.ge.u32 {left}, {at}, {bytes}"));
            self.out.branch(Predicate::If(left), done, false);
        }
        if bytes > step {
            self.out.place_loop_head(more);
        }
        self.out.push_line(format_args!("add.u32 {to}, {shared}, {at}"));
        self.out.push_line(format_args!("st.shared.v4.b32 [{to}], {{0, 0, 0, 0}}"));
        if bytes > step {
            self.out.push_line(format_args!("add.u32 {at}, {at}, {step}"));
            self.out.push_line(format_args!("setp.lt.u32 {left}, {at}, {bytes}"));
            self.out.branch(Predicate::If(left), more, false);
        }
        self.out.place_label(done);
        self.meet();
    }
}
