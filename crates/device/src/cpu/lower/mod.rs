//! From a validated kernel to Cranelift's IR.
//!
//! A function is made for groups of a fixed number of lanes; it runs one group. With one lane it is the kernel as it
//! stands. With more it follows the [`KernelSplit`](super::plan::KernelSplit): code of the group, loops over subgroups, loops over
//! lanes. `scope.rs` has those loops and the homes of values, `control.rs` structured control flow and jumps, `pure.rs`
//! arithmetic, `memory.rs` accesses, `meet.rs` what lanes do together, `simd.rs` several lanes at once.
//!
//! Bounds cost a compare and a conditional move: an access out of range goes to a sink, zero for loads and never read
//! for stores, so there is no branch to mispredict.

mod control;
mod meet;
mod memory;
mod pure;
mod scope;
mod simd;

use cranelift_codegen::ir::{self, AbiParam, InstBuilder, MemFlagsData, Signature, UserFuncName, types};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use pelton_ir::arena::{Func, Handle, Inst};
use pelton_ir::module::{Function, Operand};
use pelton_ir::op::{Op, OpEffect, OpForm};
use pelton_ir::pass::bounds::{Bounds, KnownGeometry};
use pelton_ir::types::{Len, Space, Type};
use pelton_ir::valid::{UniformLevel, Uniformity, Valid};

use super::abi::{self, GroupExit, offset};
use super::plan::{KernelSplit, LoopNest};
use control::JumpTarget;
use scope::LaneScope;

/// The memory that a group needs beside its buffers.
#[derive(Clone, Debug)]
pub(super) struct GroupFrame {
    /// The size of the memory.
    pub bytes: usize,
    /// The part that must be zero when a group starts: shared buffers. The loads' sink is never written.
    pub zero: std::ops::Range<usize>,
}

/// The groups that a function is compiled for.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupSize {
    /// How many lanes a group has.
    pub lanes: u32,
    /// How many lanes a subgroup has.
    pub subgroup: u32,
    /// Whether lanes may be taken sixteen at a time.
    pub simd: bool,
}

/// The offset in the scratch where stores out of range go.
const SINK: i32 = 16;
/// The offset in the scratch of vectors that are not wholly in range.
const SPILL: i32 = 32;
/// The offset in the scratch where homes begin.
const HOMES: usize = 96;

/// The type that Cranelift has for a type of the language.
fn clif(ty: Type) -> ir::Type {
    match ty {
        Type::U32 | Type::I32 => types::I32,
        Type::U64 => types::I64,
        Type::F32 => types::F32,
        Type::Bool => types::I8,
    }
}

/// The flags of accesses that are aligned and cannot trap.
fn trusted() -> MemFlagsData {
    MemFlagsData::trusted()
}

/// Lowers a kernel to Cranelift's IR. All of its calls must be inlined.
pub(super) fn lower(
    module: &Valid,
    kernel: Func,
    shape: GroupSize,
    isa: &dyn TargetIsa,
) -> (ir::Function, GroupFrame) {
    let mut signature = Signature::new(CallConv::triple_default(isa.triple()));
    signature.params.push(AbiParam::new(types::I64));
    signature.returns.push(AbiParam::new(types::I32));
    let mut function = ir::Function::with_name_signature(UserFuncName::user(0, 0), signature);
    let mut context = FunctionBuilderContext::new();
    let source = &module.functions[kernel];
    let uniform = module.uniformity(kernel);
    let split = (shape.lanes > 1).then(|| KernelSplit::new(source, uniform));
    let mut lower = KernelLowering::new(
        FunctionBuilder::new(&mut function, &mut context),
        (module, kernel),
        split.as_ref(),
        shape,
    );
    lower.body();
    let frame = lower.frame.clone();
    let KernelLowering { builder, .. } = lower;
    builder.finalize(isa.frontend_config());
    (function, frame)
}

/// The state of lowering a kernel to a function of Cranelift's IR.
struct KernelLowering<'a> {
    builder: FunctionBuilder<'a>,
    module: &'a Valid,
    function: &'a Function,
    kernel: Func,
    uniform: &'a Uniformity,
    bounds: Bounds,
    /// The split of the kernel, or `None` for groups of one lane.
    split: Option<&'a KernelSplit>,
    lanes: u32,
    subgroup: u32,
    simd: bool,
    frame: GroupFrame,
    /// The pointers and numbers that the entry block reads from the context.
    entry: EntryValues,
    /// Start and length of each buffer.
    buffers: Vec<(ir::Value, ir::Value)>,
    /// Each value as it was last defined, which is meaningful only where its definition reaches.
    made: Vec<Option<ir::Value>>,
    /// The instruction that gives each value, if one does.
    defs: Vec<Option<Inst>>,
    /// The offset in the scratch of each value's home.
    homes: Vec<Option<i32>>,
    /// What jumps to each instruction need to know, while it is being lowered.
    targets: Vec<Option<JumpTarget>>,
    /// For each end of a region, the instruction that the region belongs to, and which of its regions it is.
    ends: Vec<Option<(Inst, usize)>>,
    scope: LaneScope,
    exits: ExitBlocks,
}

/// The values that the entry block reads from the context.
struct EntryValues {
    context: ir::Value,
    scratch: ir::Value,
    /// The offset in the scratch where stores out of range go.
    sink: ir::Value,
    stop: ir::Value,
    group: ir::Value,
    groups: ir::Value,
}

/// The blocks that leave the function.
struct ExitBlocks {
    done: ir::Block,
    stopped: ir::Block,
    trapped: ir::Block,
}

impl<'a> KernelLowering<'a> {
    fn new(
        mut builder: FunctionBuilder<'a>,
        (module, kernel): (&'a Valid, Func),
        split: Option<&'a KernelSplit>,
        shape: GroupSize,
    ) -> Self {
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        let context = builder.block_params(block)[0];
        let mut field = |ty, at| builder.ins().load(ty, trusted().with_readonly(), context, at);
        let [scratch, stop] = [offset::SCRATCH, offset::STOP].map(|at| field(types::I64, at));
        let [group, groups] = [offset::GROUP, offset::GROUPS].map(|at| field(types::I32, at));
        let sink = builder.ins().iadd_imm_u(scratch, i64::from(SINK));
        let entry = EntryValues { context, scratch, sink, stop, group, groups };
        let mut exit = || builder.create_block();
        let exits = ExitBlocks { done: exit(), stopped: exit(), trapped: exit() };
        let GroupSize { lanes, subgroup, simd } = shape;
        let function = &module.functions[kernel];
        let mut defs = vec![None; function.values().len()];
        let mut ends = vec![None; function.insts().len()];
        for (inst, node) in function.insts() {
            node.results.iter().for_each(|value| defs[value.index()] = Some(inst));
            for (k, region) in node.regions.iter().enumerate() {
                let end = function.region(*region).insts.last().expect("a region has an end");
                ends[end.index()] = Some((inst, k));
            }
        }
        let mut lower = KernelLowering {
            builder,
            module,
            function,
            kernel,
            uniform: module.uniformity(kernel),
            bounds: Bounds::new(
                module,
                KnownGeometry { lanes: Some(lanes), subgroup: Some(subgroup), groups: None },
            ),
            split,
            lanes,
            subgroup,
            simd,
            frame: GroupFrame { bytes: 0, zero: 0..0 },
            entry,
            buffers: Vec::new(),
            made: vec![None; function.values().len()],
            defs,
            homes: vec![None; function.values().len()],
            targets: (0..function.insts().len()).map(|_| None).collect(),
            ends,
            scope: LaneScope::group(),
            exits,
        };
        lower.lay_out();
        lower
    }

    /// Assigns offsets in the scratch to homes and shared buffers, and reads the table of buffers.
    fn lay_out(&mut self) {
        let mut end = HOMES;
        let mut take = |bytes: usize| {
            let at = end;
            end = (end + bytes).next_multiple_of(16);
            at as i32
        };
        let mask = take(self.lanes as usize * 4);
        self.scope.mask = mask;
        for (value, ty) in self.function.values() {
            let kept = self.split.is_some_and(|split| split.home[value.index()]) && !self.rebuilt(value);
            let count = match self.uniform.value_level(value) {
                UniformLevel::Group => 1,
                UniformLevel::Subgroup => self.lanes.div_ceil(self.subgroup),
                UniformLevel::Lane => self.lanes,
            };
            if kept {
                self.homes[value.index()] = Some(take(count as usize * clif(ty).bytes() as usize));
            }
        }
        let shared = take(0);
        let module = self.module;
        let table = self.builder.ins().load(
            types::I64,
            trusted().with_readonly(),
            self.entry.context,
            offset::BUFFERS,
        );
        for (at, (_, decl)) in module.buffers.iter().enumerate() {
            let bytes = if decl.elem.bits() == 64 { 8 } else { 4 };
            let slot = at as i32 * offset::SLOT;
            let flags = trusted().with_readonly();
            let pair = match (decl.space, decl.len) {
                (Space::Shared, Len::Fixed(len)) => {
                    let home = take(len as usize * bytes);
                    let start = self.builder.ins().iadd_imm_s(self.entry.scratch, i64::from(home));
                    (start, self.builder.ins().iconst(types::I32, len as i64))
                }
                (_, Len::Fixed(len)) => {
                    let start = self.builder.ins().load(types::I64, flags, table, slot);
                    (start, self.builder.ins().iconst(types::I32, len as i64))
                }
                (_, Len::Launch) => {
                    let start = self.builder.ins().load(types::I64, flags, table, slot);
                    (start, self.builder.ins().load(types::I32, flags, table, slot + offset::SLOT_LEN))
                }
            };
            self.buffers.push(pair);
        }
        self.frame = GroupFrame { bytes: end, zero: shared as usize..end };
    }

    /// Lowers the whole function.
    fn body(&mut self) {
        match self.split {
            None => {
                let insts = &self.function.region(self.function.body).insts;
                let zero = self.int(types::I32, 0);
                self.scope = LaneScope {
                    at: LoopNest { subgroups: None, lanes: Some(0) },
                    lane: Some(zero),
                    ..self.scope
                };
                self.scope.alone = true;
                insts.iter().for_each(|inst| self.step(*inst));
            }
            Some(split) => {
                if split.strays {
                    self.clear_mask();
                }
                self.plan(&split.plan);
            }
        }
        for (block, exit) in [
            (self.exits.done, GroupExit::Done),
            (self.exits.stopped, GroupExit::Stopped),
            (self.exits.trapped, GroupExit::Trapped),
        ] {
            self.builder.switch_to_block(block);
            let code = self.int(types::I32, exit as i64);
            self.builder.ins().return_(&[code]);
        }
        self.builder.seal_all_blocks();
    }

    /// Lowers an instruction that every lane runs by itself, or that runs once in its scope.
    fn step(&mut self, inst: Inst) {
        let node = self.function.inst(inst);
        let row = node.op.row();
        match (node.op, row.form, row.effect) {
            (op, ..) if op.has_regions() => self.nest(inst, None),
            (op, ..) if op.is_terminator() => self.end(inst),
            (_, _, OpEffect::Sync) => self.alone(inst),
            (_, OpForm::Place | OpForm::Wide | OpForm::Atomic | OpForm::Fence, _) => self.access(inst),
            (Op::Backoff | Op::Wake | Op::Clock | Op::Trap | Op::Fault, ..) => self.call(inst),
            _ => {
                let value = self.pure(inst);
                self.set(node.results.get(0), value);
            }
        }
    }

    /// Lowers an instruction to a call of the functions in `abi`.
    fn call(&mut self, inst: Inst) {
        let node = self.function.inst(inst);
        let mut signature = Signature::new(self.builder.func.signature.call_conv);
        signature.params.push(AbiParam::new(types::I64));
        let mut args = vec![self.entry.context];
        if node.op == Op::Backoff {
            signature.params.push(AbiParam::new(types::I32));
            let lane = self.scope.lane.unwrap_or_else(|| self.int(types::I32, 0));
            args.push(lane);
        }
        for arg in &node.args {
            signature.params.push(AbiParam::new(types::I32));
            let arg = self.get(*arg);
            args.push(arg);
        }
        let site = self.int(types::I32, inst.index() as i64);
        let address = match node.op {
            Op::Backoff => abi::backoff as *const () as usize,
            Op::Wake => abi::wake as *const () as usize,
            Op::Clock => {
                signature.returns.push(AbiParam::new(types::I64));
                abi::clock as *const () as usize
            }
            op => {
                signature.params.push(AbiParam::new(types::I32));
                args.push(site);
                if op == Op::Trap {
                    abi::trap as *const () as usize
                } else {
                    abi::fault as *const () as usize
                }
            }
        };
        let signature = self.builder.import_signature(signature);
        let address = self.int(types::I64, address as i64);
        let call = self.builder.ins().call_indirect(signature, address, &args);
        if let Some(value) = node.results.iter().next() {
            let result = self.builder.inst_results(call)[0];
            self.set(value, result);
        }
        if node.op == Op::Trap {
            self.builder.ins().jump(self.exits.trapped, &[]);
            let after = self.builder.create_block();
            self.builder.switch_to_block(after);
        }
    }

    fn int(&mut self, ty: ir::Type, x: i64) -> ir::Value {
        self.builder.ins().iconst(ty, x)
    }

    /// The constant of an operand, if it is one.
    fn constant(&self, operand: Operand) -> Option<u64> {
        operand.constant().map(|c| c.bits())
    }
}
