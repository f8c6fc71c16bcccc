//! A module that has every row of the op table in every form.

use pelton_ir::arena::{Buffer, Inst};
use pelton_ir::module::{Attr, BufferDecl, FunctionKind, Module, Operand, TextPlace, elements_per_wide};
use pelton_ir::op::{Op, OpForm, OpRow, TABLE, TypePattern};
use pelton_ir::types::{Access, Const, Len, Need, Order, Scope, Space, Type};
use pelton_ir::write::{self, FunctionWriter};

/// A module in the making; its function has two parameters of each type.
struct Every {
    module: Module,
    writer: FunctionWriter,
    buffers: Vec<(Type, Buffer)>,
}

/// The module.
pub(crate) fn every() -> Module {
    let mut every = Every::new();
    for row in TABLE {
        match row.op {
            Op::Call => {
                let pair = every.module.function("pair").expect("it was written");
                let arg = every.value(Type::U32, 0);
                every.push(Op::Call, Attr::Call(pair), vec![arg]);
            }
            op if op.has_regions() => {
                every.nest(op, &[]);
                every.nest(op, &[Type::U32, Type::F32]);
            }
            // Those that jump to a label are in the loops.
            _ if row.form == OpForm::Control => {}
            _ => every.row(row),
        }
    }
    every.module.functions.push(every.writer.finish());
    every.module
}

impl Every {
    fn new() -> Self {
        let mut module = Module { needs: Need::ALL.to_vec(), ..Module::default() };
        let mut buffers = Vec::new();
        for (space, access) in Space::ALL.iter().copied().zip(Access::ALL.iter().copied()) {
            for elem in Type::ALL.iter().copied() {
                let len = if space == Space::Shared { Len::Fixed(64) } else { Len::Launch };
                let name = format!("{space}.{elem}");
                let decl = BufferDecl { name, elem, len, space, access, place: TextPlace::default() };
                buffers.push((elem, module.buffers.push(decl)));
            }
        }
        let mut pair =
            FunctionWriter::new("pair", FunctionKind::Function, &[Type::U32], &[Type::U32, Type::F32]);
        let x = pair.function().params.get(0);
        pair.push(Op::Return, Attr::None, vec![x.into(), 1.5f32.into()], &[]);
        module.functions.push(pair.finish());
        let types: Vec<Type> = Type::ALL.iter().flat_map(|ty| [*ty; 2]).collect();
        Every { module, writer: FunctionWriter::new("main", FunctionKind::Function, &types, &[]), buffers }
    }

    fn value(&self, ty: Type, k: usize) -> Operand {
        let at = Type::ALL.iter().position(|t| *t == ty).expect("it is a type");
        self.writer.function().params.get(2 * at + k % 2).into()
    }

    /// Adds an instruction whose results the table gives.
    fn push(&mut self, op: Op, attr: Attr, args: Vec<Operand>) -> Inst {
        let types: Vec<Type> = args.iter().map(|arg| self.writer.function().operand_ty(*arg)).collect();
        let results = write::result_types(&self.module, op, &attr, &types);
        self.writer.push(op, attr, args, &results).0
    }

    /// Everything that an instruction of a row can name besides operands.
    fn attrs(&self, row: &OpRow, ty: Type) -> Vec<Attr> {
        let buffers = self.buffers.iter().filter(|(elem, _)| *elem == ty).map(|(_, buffer)| *buffer);
        let orders = || Order::ALL.iter().flat_map(|o| Scope::ALL.iter().map(move |s| (*o, *s)));
        match row.form {
            OpForm::Plain | OpForm::Control => vec![Attr::None],
            OpForm::Typed => Type::ALL.iter().map(|ty| Attr::Type(*ty)).collect(),
            OpForm::Buffer | OpForm::Place => buffers.map(Attr::Buffer).collect(),
            OpForm::Wide | OpForm::Atomic => {
                buffers.flat_map(|b| orders().map(move |(o, s)| Attr::Atomic(b, o, s))).collect()
            }
            OpForm::Fence => orders().map(|(o, s)| Attr::Fence(o, s)).collect(),
            OpForm::Copy => vec![Attr::Copy { to: self.buffers[0].1, from: self.buffers[1].1 }],
        }
    }

    /// Adds a row with all types and attributes, on values and on constants.
    fn row(&mut self, row: &OpRow) {
        for ty in row.class.map_or(&[Type::U32][..], |class| class.types()).iter().copied() {
            let of = |pat: &TypePattern| if let TypePattern::Is(ty) = pat { *ty } else { ty };
            let mut types: Vec<Type> = row.args.iter().map(|(_, pat)| of(pat)).collect();
            if row.op == Op::StoreWide {
                types.extend(vec![ty; elements_per_wide(ty) - 1]);
            }
            for attr in self.attrs(row, ty) {
                let values = types.iter().enumerate().map(|(k, ty)| self.value(*ty, k)).collect();
                self.push(row.op, attr.clone(), values);
                let constants =
                    types.iter().map(|ty| Const::new(*ty, 0xc0de_0001_8000_0003).into()).collect();
                self.push(row.op, attr, constants);
            }
        }
    }

    /// Adds an op with regions, which give and carry values of these types.
    fn nest(&mut self, op: Op, types: &[Type]) {
        let results: Vec<Operand> = types.iter().map(|ty| self.value(*ty, 1)).collect();
        let mut args: Vec<Operand> = match op {
            Op::If => vec![self.value(Type::Bool, 0)],
            Op::Switch => vec![self.value(Type::U32, 0)],
            Op::Loop => vec![0u32.into(), self.value(Type::U32, 1), 2u32.into()],
            _ => vec![],
        };
        let mut params = vec![];
        if op.is_loop() {
            args.extend(&results);
            params.extend((op == Op::Loop).then_some(Type::U32));
            params.extend(types);
        }
        let attr = if op == Op::Switch { Attr::Cases(vec![vec![0], vec![1, u32::MAX]]) } else { Attr::None };
        let (inst, _) = self.writer.push(op, attr, args, types);
        let regions = match op {
            Op::If | Op::While => 2,
            Op::Switch => 3,
            _ => 1,
        };
        for k in 0..regions {
            self.writer.open_region(inst, if k == 0 { &params } else { &[] });
            if k == 0 && (op.is_loop() || op == Op::Block) {
                self.jumps(op, inst, &results);
            }
            let test = [true.into()];
            let given = if op == Op::While && k == 0 { &test } else { &results[..] };
            if !given.is_empty() {
                self.writer.push(Op::Yield, Attr::None, given.to_vec(), &[]);
            }
            self.writer.close_region();
        }
    }

    /// Adds a choice between leaving a loop or block, going on with it, and returning.
    fn jumps(&mut self, op: Op, target: Inst, results: &[Operand]) {
        let (inst, _) =
            self.writer.push(Op::Switch, Attr::Cases(vec![vec![3], vec![4]]), vec![3u32.into()], &[]);
        self.writer.open_region(inst, &[]);
        self.writer.push(Op::Break, Attr::Target(target), results.to_vec(), &[]);
        self.writer.close_region();
        self.writer.open_region(inst, &[]);
        self.writer.push(Op::Return, Attr::None, results.to_vec(), &[]);
        self.writer.close_region();
        self.writer.open_region(inst, &[]);
        if op.is_loop() {
            self.writer.push(Op::Continue, Attr::Target(target), results.to_vec(), &[]);
        }
        self.writer.close_region();
    }
}
