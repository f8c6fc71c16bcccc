//! Building modules in Rust, with typed values, closures for regions, and one method per row of the op table.
//!
//! A [`Val<u32>`](Val) is a value of type `u32`; Rust's types keep operands apart, so most mistakes do not compile
//! and the validator finds the rest. Wherever a value is asked for, a Rust constant will do. Regions are closures
//! that use the same body, and their results are tuples of values:
//!
//! ```
//! use pelton_ir::builder::Builder;
//! use pelton_ir::types::{Access, Len, Space};
//!
//! let mut m = Builder::new();
//! let data = m.buffer::<u32>("data", Len::Launch, Space::Global, Access::ReadWrite);
//! m.kernel("squares", |f| {
//!     let at = f.group() * f.lanes() + f.lane();
//!     f.when(at.lt(f.len(data)), || {
//!         let x = f.load(data.at(at));
//!         f.store(data.at(at), x * x);
//!     });
//! });
//! let module = m.finish();
//! assert_eq!(module.kernels().count(), 1);
//! ```

mod control;
mod graft;
mod ops;
mod vals;

use std::cell::RefCell;
use std::marker::PhantomData;

use crate::arena::{Buffer, Func, Handle, Inst, Value, Values};
use crate::module::{Attr, BufferDecl, Function, FunctionKind, ImportFlow, Module, Operand, TextPlace};
use crate::op::Op;
use crate::types::{Access, Const, Len, Need, Num, Scalar, Space, Type};
use crate::write::{self, FunctionWriter};

pub use control::{Label, SwitchBuilder};
pub use graft::GraftRule;
pub use vals::{Types, Vals};

/// A module that is being built.
#[derive(Default)]
pub struct Builder {
    /// Bodies that are being written declare buffers in it, too.
    module: RefCell<Module>,
}

impl Builder {
    /// Starts an empty module.
    pub fn new() -> Self {
        Builder::default()
    }

    /// Starts from an existing module, to add to it.
    pub fn from_module(module: Module) -> Self {
        Builder { module: RefCell::new(module) }
    }

    /// Declares that the module needs a feature of the device.
    pub fn need(&mut self, need: Need) {
        let needs = &mut self.module.get_mut().needs;
        if !needs.contains(&need) {
            needs.push(need);
        }
    }

    /// Declares a buffer of elements of type `T`.
    pub fn buffer<T: Num>(
        &mut self,
        name: impl Into<String>,
        len: Len,
        space: Space,
        access: Access,
    ) -> Buf<T> {
        let decl =
            BufferDecl { name: name.into(), elem: T::TYPE, len, space, access, place: TextPlace::default() };
        Buf::from_handle(self.declare(decl))
    }

    /// Declares a buffer of any type. A module with two buffers of one name is not valid.
    pub fn declare(&mut self, decl: BufferDecl) -> Buffer {
        self.module.get_mut().buffers.push(decl)
    }

    /// Adds a kernel, whose body the closure writes.
    pub fn kernel(
        &mut self,
        name: impl Into<String>,
        build: impl for<'b> FnOnce(&'b FunctionBuilder<'b>),
    ) -> Func {
        let body =
            FunctionBuilder::new(&self.module, FunctionWriter::new(name, FunctionKind::Kernel, &[], &[]));
        build(&body);
        let function = body.writer.into_inner().finish();
        self.module.get_mut().functions.push(function)
    }

    /// Adds a function with parameters of types `P` and results of types `R`, whose body the closure writes. `P` and
    /// `R` are `()`, a type, or a tuple of types.
    pub fn function<P: Types, R: Types>(
        &mut self,
        name: impl Into<String>,
        build: impl for<'b> FnOnce(&'b FunctionBuilder<'b>, P::Vals<'b>) -> R::Vals<'b>,
    ) -> Callee<P, R> {
        let body = FunctionBuilder::new(
            &self.module,
            FunctionWriter::new(name, FunctionKind::Function, P::types(), R::types()),
        );
        let params = body.writer.borrow().function().params;
        let results = build(&body, P::Vals::from_values(&body, params));
        body.end(Op::Return, results);
        let function = body.writer.into_inner().finish();
        Callee { func: self.module.get_mut().functions.push(function), ty: PhantomData }
    }

    /// Declares a function that the module calls and does not define. [`link`](crate::link::link) binds it to one of
    /// the same name, parameters and results.
    ///
    /// ```
    /// use pelton_ir::builder::Builder;
    /// use pelton_ir::module::ImportFlow;
    ///
    /// let mut m = Builder::new();
    /// let hash = m.import::<(u32, u32), u32>("hash", ImportFlow::Any);
    /// m.function::<u32, u32>("twice", |f, x| {
    ///     let once = f.call(hash, (x, f.lit(0)));
    ///     f.call(hash, (once, f.lit(1)))
    /// });
    /// assert!(m.finish().to_string().starts_with("import fn hash(%0: u32, %1: u32) -> u32\n"));
    /// ```
    pub fn import<P: Types, R: Types>(&mut self, name: impl Into<String>, flow: ImportFlow) -> Callee<P, R> {
        let function = import_function::<P, R>(name, flow);
        Callee { func: self.module.get_mut().functions.push(function), ty: PhantomData }
    }

    /// Returns the module. It has not been validated.
    pub fn finish(self) -> Module {
        self.module.into_inner()
    }
}

/// Returns a function that is declared and not defined.
fn import_function<P: Types, R: Types>(name: impl Into<String>, flow: ImportFlow) -> Function {
    FunctionWriter::new(name, FunctionKind::Import(flow), P::types(), R::types()).finish_import()
}

/// A handle of a buffer whose elements have type `T`.
pub struct Buf<T> {
    buffer: Buffer,
    ty: PhantomData<T>,
}

impl<T> Clone for Buf<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Buf<T> {}

impl<T: Num> Buf<T> {
    /// Creates a typed handle from a handle of the module. The caller states that the buffer's elements have type `T`;
    /// if they do not, the validator refuses the accesses.
    pub fn from_handle(buffer: Buffer) -> Self {
        Buf { buffer, ty: PhantomData }
    }

    /// Returns the element at an index, to load from or to store to.
    pub fn at<'b>(self, index: impl Arg<'b, u32>) -> At<'b, T> {
        At { buffer: self.buffer, index: index.operand(), ty: PhantomData }
    }

    /// Returns the handle of the buffer in the module.
    pub fn handle(self) -> Buffer {
        self.buffer
    }
}

/// An element of a buffer, which [`Buf::at`] returns.
#[derive(Clone, Copy)]
pub struct At<'b, T> {
    buffer: Buffer,
    index: Operand,
    ty: PhantomData<&'b T>,
}

/// A handle of a function with parameters of types `P` and results of types `R`.
pub struct Callee<P, R> {
    func: Func,
    ty: PhantomData<fn(P) -> R>,
}

impl<P, R> Clone for Callee<P, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, R> Copy for Callee<P, R> {}

impl<P, R> Callee<P, R> {
    /// Returns the handle of the function in the module.
    pub fn handle(self) -> Func {
        self.func
    }
}

/// A value of type `T` in a function that is being built: a result of an instruction, a parameter, or a constant.
pub struct Val<'b, T> {
    body: &'b FunctionBuilder<'b>,
    operand: Operand,
    ty: PhantomData<T>,
}

impl<T> Clone for Val<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Val<'_, T> {}

/// An argument of type `T`: a [`Val`] or a Rust constant.
pub trait Arg<'b, T> {
    /// Returns the argument as an operand of an instruction.
    fn operand(self) -> Operand;
}

impl<'b, T: Scalar> Arg<'b, T> for Val<'b, T> {
    fn operand(self) -> Operand {
        self.operand
    }
}

impl<T> Val<'_, T> {
    /// Returns the constant, if the value is one.
    pub fn constant(self) -> Option<Const> {
        self.operand.constant()
    }

    /// Names the value in the printed text. A value that already has a name keeps it.
    pub fn named(self, name: &str) -> Self {
        if let Operand::Value(value) = self.operand {
            self.body.name(value, name);
        }
        self
    }
}

/// A function whose body is being built. Its methods add instructions.
pub struct FunctionBuilder<'m> {
    module: &'m RefCell<Module>,
    writer: RefCell<FunctionWriter>,
}

impl<'b> FunctionBuilder<'b> {
    fn new(module: &'b RefCell<Module>, writer: FunctionWriter) -> Self {
        FunctionBuilder { module, writer: RefCell::new(writer) }
    }

    /// Returns a constant as a value.
    pub fn lit<T: Scalar>(&'b self, x: T) -> Val<'b, T> {
        Val { body: self, operand: Operand::Const(x.constant()), ty: PhantomData }
    }

    /// Returns the buffer with the given name, if the module declares one whose elements have type `T`.
    pub fn buffer<T: Num>(&self, name: &str) -> Option<Buf<T>> {
        let module = self.module.borrow();
        let found = module.buffers.iter().find(|(_, decl)| decl.name == name && decl.elem == T::TYPE);
        found.map(|(buffer, _)| Buf::from_handle(buffer))
    }

    /// Declares a buffer while the function is being written. A module with two buffers of one name is not valid.
    pub fn declare(&self, decl: BufferDecl) -> Buffer {
        self.module.borrow_mut().buffers.push(decl)
    }

    /// Declares an import while the function is being written, or returns the import of that name if the module has
    /// one. The caller states that an import that is already there has these parameters and results; if it does not,
    /// the validator refuses the calls.
    pub fn import<P: Types, R: Types>(&self, name: &str, flow: ImportFlow) -> Callee<P, R> {
        let mut module = self.module.borrow_mut();
        let known = module.functions.iter().find(|(_, known)| known.is_import() && known.name == name);
        let func = match known {
            Some((func, _)) => func,
            None => module.functions.push(import_function::<P, R>(name, flow)),
        };
        Callee { func, ty: PhantomData }
    }

    /// Returns whether the open region has ended, for instance because the function has returned. Nothing can be added
    /// to such a region.
    pub fn region_ended(&self) -> bool {
        self.writer.borrow().region_ended()
    }

    fn val<T>(&'b self, values: Values, at: usize) -> Val<'b, T> {
        Val { body: self, operand: Operand::Value(values.get(at)), ty: PhantomData }
    }

    /// Names a value that has no name.
    fn name(&self, value: Value, name: &str) {
        let mut writer = self.writer.borrow_mut();
        let names = &mut writer.debug_mut().values;
        names.resize(names.len().max(value.index() + 1), "".into());
        if names[value.index()].is_empty() {
            names[value.index()] = name.into();
        }
    }

    /// Adds an instruction whose result types come from the table.
    fn push(&self, op: Op, attr: Attr, args: Vec<Operand>) -> Values {
        let mut writer = self.writer.borrow_mut();
        let types: Vec<Type> = args.iter().map(|arg| writer.function().operand_ty(*arg)).collect();
        let results = write::result_types(&self.module.borrow(), op, &attr, &types);
        writer.push(op, attr, args, &results).1
    }

    /// Adds an instruction with regions.
    fn nest(&self, op: Op, attr: Attr, args: Vec<Operand>, results: &[Type]) -> (Inst, Values) {
        self.writer.borrow_mut().push(op, attr, args, results)
    }

    /// Writes one region of an instruction, ended by what the closure gives unless it has ended itself.
    fn region<R: Vals<'b>>(&'b self, inst: Inst, params: &[Type], build: impl FnOnce(Values) -> R) {
        let params = self.writer.borrow_mut().open_region(inst, params);
        let results = build(params);
        self.end(Op::Yield, results);
        self.writer.borrow_mut().close_region();
    }

    /// Ends the open region, unless it has ended.
    fn end(&self, op: Op, results: impl Vals<'b>) {
        if !self.writer.borrow().region_ended() {
            self.push(op, Attr::None, results.operands());
        }
    }
}
