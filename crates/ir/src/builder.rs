//! Programs from Rust: typed values, closures for regions, a method a row of the op table.
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

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops;

use crate::arena::{Buffer, Func, Inst, Values};
use crate::module::{Attr, BufferDecl, Kind, Module, Operand, Place};
use crate::op::{Op, op_table};
use crate::types::{
    Access, Any, Bits, Count, Int, Len, Need, Num, Order, Scalar, Scope, Signed, Space, Type, Word32,
};
use crate::write::{self, Writer};

/// A module in the making.
#[derive(Default)]
pub struct Builder {
    module: Module,
}

impl Builder {
    /// An empty module.
    pub fn new() -> Self {
        Builder::default()
    }

    /// Adds to a module that exists.
    pub fn from(module: Module) -> Self {
        Builder { module }
    }

    /// Asks something of the device.
    pub fn need(&mut self, need: Need) {
        if !self.module.needs.contains(&need) {
            self.module.needs.push(need);
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
            BufferDecl { name: name.into(), elem: T::TYPE, len, space, access, place: Place::default() };
        Buf { buffer: self.module.buffers.push(decl), ty: PhantomData }
    }

    /// Writes a kernel.
    pub fn kernel(&mut self, name: impl Into<String>, build: impl for<'b> FnOnce(&'b Body<'b>)) -> Func {
        let body = Body::new(&self.module, Writer::new(name, Kind::Kernel, &[], &[]));
        build(&body);
        let function = body.writer.into_inner().finish();
        self.module.functions.push(function)
    }

    /// Writes a function from parameters of types `P` to results of types `R`, which are types or tuples of them.
    pub fn function<P: Types, R: Types>(
        &mut self,
        name: impl Into<String>,
        build: impl for<'b> FnOnce(&'b Body<'b>, P::Vals<'b>) -> R::Vals<'b>,
    ) -> Fn<P, R> {
        let body = Body::new(&self.module, Writer::new(name, Kind::Function, P::types(), R::types()));
        let params = body.writer.borrow().function().params;
        let results = build(&body, P::Vals::of(&body, params));
        body.end(Op::Return, results);
        let function = body.writer.into_inner().finish();
        Fn { func: self.module.functions.push(function), ty: PhantomData }
    }

    /// The module as it is; the validator says whether it is right.
    pub fn finish(self) -> Module {
        self.module
    }
}

/// A buffer whose elements are of type `T`.
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
    /// The element of that index.
    pub fn at<'b>(self, index: impl Arg<'b, u32>) -> At<'b, T> {
        At { buffer: self.buffer, index: index.operand(), ty: PhantomData }
    }

    /// Its handle in the module.
    pub fn handle(self) -> Buffer {
        self.buffer
    }
}

/// An element of a buffer.
#[derive(Clone, Copy)]
pub struct At<'b, T> {
    buffer: Buffer,
    index: Operand,
    ty: PhantomData<&'b T>,
}

/// A function from `P` to `R`.
pub struct Fn<P, R> {
    func: Func,
    ty: PhantomData<fn(P) -> R>,
}

impl<P, R> Clone for Fn<P, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, R> Copy for Fn<P, R> {}

impl<P, R> Fn<P, R> {
    /// Its handle in the module.
    pub fn handle(self) -> Func {
        self.func
    }
}

/// A value of type `T` in a body.
pub struct Val<'b, T> {
    body: &'b Body<'b>,
    operand: Operand,
    ty: PhantomData<T>,
}

impl<T> Clone for Val<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Val<'_, T> {}

/// What can stand where a value of type `T` is asked for: a value, or a constant.
pub trait Arg<'b, T> {
    /// As an operand.
    fn operand(self) -> Operand;
}

impl<'b, T: Scalar> Arg<'b, T> for Val<'b, T> {
    fn operand(self) -> Operand {
        self.operand
    }
}

/// The body of a function in the making.
pub struct Body<'m> {
    module: &'m Module,
    writer: RefCell<Writer>,
}

impl<'b> Body<'b> {
    fn new(module: &'b Module, writer: Writer) -> Self {
        Body { module, writer: RefCell::new(writer) }
    }

    /// A constant.
    pub fn lit<T: Scalar>(&'b self, x: T) -> Val<'b, T> {
        Val { body: self, operand: Operand::Const(x.constant()), ty: PhantomData }
    }

    fn val<T>(&'b self, values: Values, at: usize) -> Val<'b, T> {
        Val { body: self, operand: Operand::Value(values.get(at)), ty: PhantomData }
    }

    /// Adds an instruction whose result types come from the table.
    fn push(&self, op: Op, attr: Attr, args: Vec<Operand>) -> Values {
        let mut writer = self.writer.borrow_mut();
        let types: Vec<Type> = args.iter().map(|arg| writer.function().operand_ty(*arg)).collect();
        let results = write::results(self.module, op, &attr, &types);
        writer.push(op, attr, args, &results).1
    }

    /// Adds an instruction with regions.
    fn nest(&self, op: Op, attr: Attr, args: Vec<Operand>, results: &[Type]) -> (Inst, Values) {
        self.writer.borrow_mut().push(op, attr, args, results)
    }

    /// Writes one region of an instruction, ended by what the closure gives unless it has ended itself.
    fn region<R: Vals<'b>>(&'b self, inst: Inst, params: &[Type], build: impl FnOnce(Values) -> R) {
        let params = self.writer.borrow_mut().open(inst, params);
        let results = build(params);
        self.end(Op::Yield, results);
        self.writer.borrow_mut().close();
    }

    /// Ends the open region, unless it has ended.
    fn end(&self, op: Op, results: impl Vals<'b>) {
        if !self.writer.borrow().ended() {
            self.push(op, Attr::None, results.operands());
        }
    }

    /// Runs a region if `c` holds.
    pub fn when(&'b self, c: impl Arg<'b, bool>, then: impl FnOnce()) {
        self.choose(c, then, || ());
    }

    /// Runs one of two regions; its results are the result.
    pub fn choose<R: Vals<'b>>(
        &'b self,
        c: impl Arg<'b, bool>,
        then: impl FnOnce() -> R,
        other: impl FnOnce() -> R,
    ) -> R {
        let (inst, results) = self.nest(Op::If, Attr::None, vec![c.operand()], R::types());
        self.region(inst, &[], |_| then());
        self.region(inst, &[], |_| other());
        R::of(self, results)
    }

    /// Chooses among regions by number; [`Switch::default`] completes it.
    pub fn switch<R: Vals<'b>>(&'b self, on: impl Arg<'b, u32>) -> Switch<'b, R> {
        let (inst, results) = self.nest(Op::Switch, Attr::Cases(Vec::new()), vec![on.operand()], R::types());
        Switch { body: self, inst, results, ty: PhantomData }
    }

    /// A region that can be left early.
    pub fn block<R: Vals<'b>>(&'b self, build: impl FnOnce(Label<'b, (), R>) -> R) -> R {
        let (inst, results) = self.nest(Op::Block, Attr::None, Vec::new(), R::types());
        self.region(inst, &[], |_| build(Label::new(self, inst)));
        R::of(self, results)
    }

    /// Counts from `from` up to but not including `to` by `step`, carrying values from one iteration to the next.
    pub fn count<T: Count, C: Vals<'b>>(
        &'b self,
        (from, to, step): (impl Arg<'b, T>, impl Arg<'b, T>, impl Arg<'b, T>),
        init: C,
        build: impl FnOnce(Label<'b, C, C>, Val<'b, T>, C) -> C,
    ) -> C {
        let mut args = vec![from.operand(), to.operand(), step.operand()];
        args.extend(init.operands());
        let (inst, results) = self.nest(Op::Loop, Attr::None, args, C::types());
        let params: Vec<Type> = std::iter::once(T::TYPE).chain(C::types().iter().copied()).collect();
        self.region(inst, &params, |params| {
            let carried = C::at(self, params, 1);
            build(Label::new(self, inst), self.val(params, 0), carried)
        });
        C::of(self, results)
    }

    /// Repeats `build` while `test` gives true of the carried values.
    pub fn repeat<C: Vals<'b>>(
        &'b self,
        init: C,
        test: impl FnOnce(C) -> Val<'b, bool>,
        build: impl FnOnce(Label<'b, C, C>, C) -> C,
    ) -> C {
        let (inst, results) = self.nest(Op::While, Attr::None, init.operands(), C::types());
        let mut carried = None;
        self.region(inst, C::types(), |params| {
            carried = Some(params);
            test(C::of(self, params))
        });
        let carried = carried.expect("the test was built");
        self.region(inst, &[], |_| build(Label::new(self, inst), C::of(self, carried)));
        C::of(self, results)
    }

    /// Repeats until the label is left; what it is left with is the result.
    pub fn forever<C: Vals<'b>, R: Vals<'b>>(
        &'b self,
        init: C,
        build: impl FnOnce(Label<'b, C, R>, C) -> C,
    ) -> R {
        let (inst, results) = self.nest(Op::Forever, Attr::None, init.operands(), R::types());
        self.region(inst, C::types(), |params| build(Label::new(self, inst), C::of(self, params)));
        R::of(self, results)
    }

    /// Leaves the function.
    pub fn ret(&'b self, results: impl Vals<'b>) {
        self.push(Op::Return, Attr::None, results.operands());
    }

    /// Calls a function written before.
    pub fn call<P: Types, R: Types>(&'b self, callee: Fn<P, R>, args: P::Vals<'b>) -> R::Vals<'b> {
        let results = self.push(Op::Call, Attr::Call(callee.func), args.operands());
        R::Vals::of(self, results)
    }

    /// How many elements a buffer has.
    pub fn len<T>(&'b self, buffer: Buf<T>) -> Val<'b, u32> {
        self.val(self.push(Op::Len, Attr::Buffer(buffer.buffer), Vec::new()), 0)
    }

    /// Converts a value; see the op table.
    pub fn cast<T: Num>(&'b self, a: Val<'b, impl Any>) -> Val<'b, T> {
        self.val(self.push(Op::Cast, Attr::Type(T::TYPE), vec![a.operand]), 0)
    }

    /// The same bits as another type.
    pub fn bitcast<T: Word32>(&'b self, a: Val<'b, impl Word32>) -> Val<'b, T> {
        self.val(self.push(Op::Bitcast, Attr::Type(T::TYPE), vec![a.operand]), 0)
    }

    /// Orders the accesses around it.
    pub fn fence(&'b self, order: Order, scope: Scope) {
        self.push(Op::Fence, Attr::Fence(order, scope), Vec::new());
    }

    /// The 16 bytes that hold an element: `N` is 4, or 2 for `u64`.
    pub fn load_wide<T: Num, const N: usize>(
        &'b self,
        order: Order,
        scope: Scope,
        at: At<'b, T>,
    ) -> [Val<'b, T>; N] {
        let values = self.push(Op::LoadWide, Attr::Atomic(at.buffer, order, scope), vec![at.index]);
        std::array::from_fn(|k| self.val(values, k))
    }

    /// Stores the 16 bytes that hold an element: `N` is 4, or 2 for `u64`.
    pub fn store_wide<T: Num, const N: usize>(
        &'b self,
        order: Order,
        scope: Scope,
        at: At<'b, T>,
        values: [Val<'b, T>; N],
    ) {
        let args = std::iter::once(at.index).chain(values.map(|v| v.operand)).collect();
        self.push(Op::StoreWide, Attr::Atomic(at.buffer, order, scope), args);
    }

    /// Starts a copy of `count` elements.
    pub fn async_load<T: Num>(
        &'b self,
        to: At<'b, T>,
        from: At<'b, T>,
        count: impl Arg<'b, u32>,
        tag: impl Arg<'b, u32>,
    ) {
        let attr = Attr::Copy { to: to.buffer, from: from.buffer };
        self.push(Op::AsyncLoad, attr, vec![to.index, from.index, count.operand(), tag.operand()]);
    }
}

/// A switch in the making.
pub struct Switch<'b, R> {
    body: &'b Body<'b>,
    inst: Inst,
    results: Values,
    ty: PhantomData<R>,
}

impl<'b, R: Vals<'b>> Switch<'b, R> {
    /// The region for these numbers.
    pub fn case<const N: usize>(self, on: [u32; N], build: impl FnOnce() -> R) -> Self {
        if let Attr::Cases(cases) = self.body.writer.borrow_mut().attr(self.inst) {
            cases.push(on.to_vec());
        }
        self.body.region(self.inst, &[], |_| build());
        self
    }

    /// The region for every other number.
    pub fn default(self, build: impl FnOnce() -> R) -> R {
        self.body.region(self.inst, &[], |_| build());
        R::of(self.body, self.results)
    }
}

/// A loop that carries `C` and gives `R`, or a block that gives `R`, seen from inside.
pub struct Label<'b, C, R> {
    body: &'b Body<'b>,
    inst: Inst,
    ty: PhantomData<(C, R)>,
}

impl<C, R> Clone for Label<'_, C, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, R> Copy for Label<'_, C, R> {}

impl<'b, C: Vals<'b>, R: Vals<'b>> Label<'b, C, R> {
    fn new(body: &'b Body<'b>, inst: Inst) -> Self {
        Label { body, inst, ty: PhantomData }
    }

    /// Leaves the loop or block with these results.
    pub fn leave(self, results: R) {
        self.body.push(Op::Break, Attr::Target(self.inst), results.operands());
    }

    /// Goes to the loop's next iteration.
    pub fn next(self, carried: C) {
        self.body.push(Op::Continue, Attr::Target(self.inst), carried.operands());
    }
}

/// A method for each row of the table that has the form of a call.
macro_rules! method {
    (plain $op:ident $name:ident [$($t:ident: $class:ident)?] ($($arg:ident: $pat:ident),*) -> () $doc:literal) => {
        #[doc = $doc]
        pub fn $name$(<$t: $class>)?(&'b self, $($arg: impl Arg<'b, $pat>),*) {
            self.push(Op::$op, Attr::None, vec![$($arg.operand()),*]);
        }
    };
    (plain $op:ident $name:ident [$($t:ident: $class:ident)?] ($($arg:ident: $pat:ident),*) -> ($res:ident) $doc:literal) => {
        #[doc = $doc]
        pub fn $name$(<$t: $class>)?(&'b self, $($arg: impl Arg<'b, $pat>),*) -> Val<'b, $res> {
            self.val(self.push(Op::$op, Attr::None, vec![$($arg.operand()),*]), 0)
        }
    };
    (place $op:ident $name:ident [$t:ident: $class:ident] (at: u32 $(, $arg:ident: $pat:ident)*) -> ($($res:ident)?) $doc:literal) => {
        method!(@memory $op $name [$t: $class] () (Attr::Buffer) ($($arg: $pat),*) -> ($($res)?) $doc);
    };
    (atomic $op:ident $name:ident [$t:ident: $class:ident] (at: u32 $(, $arg:ident: $pat:ident)*) -> ($($res:ident)?) $doc:literal) => {
        method!(@memory $op $name [$t: $class] (order: Order, scope: Scope) (Attr::Atomic) ($($arg: $pat),*) -> ($($res)?) $doc);
    };
    (@memory $op:ident $name:ident [$t:ident: $class:ident] ($($how:ident: $kind:ident),*) ($attr:path) ($($arg:ident: $pat:ident),*) -> ($($res:ident)?) $doc:literal) => {
        #[doc = $doc]
        pub fn $name<$t: $class>(&'b self, $($how: $kind,)* at: At<'b, $t>, $($arg: impl Arg<'b, $pat>),*) $(-> Val<'b, $res>)? {
            let values = self.push(Op::$op, $attr(at.buffer, $($how),*), vec![at.index, $($arg.operand()),*]);
            let _ = values;
            $(self.val::<$res>(values, 0))?
        }
    };
    ($form:ident $($rest:tt)*) => {};
}

macro_rules! methods {
    ($($form:ident $chapter:literal {
        $($op:ident $name:ident $([$t:ident: $class:ident])? ($($arg:ident: $pat:ident),*) -> ($($res:ident),*)
            $effect:ident $doc:literal;)*
    })*) => {
        /// One method a row of the op table.
        impl<'b> Body<'b> {
            $($(method!($form $op $name [$($t: $class)?] ($($arg: $pat),*) -> ($($res),*) $doc);)*)*
        }
    };
}
op_table!(methods);

/// Rust's operators, for the ops that have one.
macro_rules! operators {
    ($($trait:ident $method:ident $class:ident $name:ident;)*) => {$(
        impl<'b, T: $class, R: Arg<'b, T>> ops::$trait<R> for Val<'b, T> {
            type Output = Val<'b, T>;
            fn $method(self, other: R) -> Val<'b, T> {
                self.body.$name(self, other)
            }
        }
    )*};
}

operators! {
    Add add Num add;
    Sub sub Num sub;
    Mul mul Num mul;
    Div div Num div;
    Rem rem Int rem;
    BitAnd bitand Bits and;
    BitOr bitor Bits or;
    BitXor bitxor Bits xor;
}

impl<'b, T: Int, R: Arg<'b, u32>> ops::Shl<R> for Val<'b, T> {
    type Output = Val<'b, T>;
    fn shl(self, by: R) -> Val<'b, T> {
        self.body.shl(self, by)
    }
}

impl<'b, T: Int, R: Arg<'b, u32>> ops::Shr<R> for Val<'b, T> {
    type Output = Val<'b, T>;
    fn shr(self, by: R) -> Val<'b, T> {
        self.body.shr(self, by)
    }
}

impl<'b, T: Bits> ops::Not for Val<'b, T> {
    type Output = Val<'b, T>;
    fn not(self) -> Val<'b, T> {
        self.body.not(self)
    }
}

impl<'b, T: Signed> ops::Neg for Val<'b, T> {
    type Output = Val<'b, T>;
    fn neg(self) -> Val<'b, T> {
        self.body.neg(self)
    }
}

/// Comparisons as methods of a value.
macro_rules! comparisons {
    ($($name:ident $class:ident;)*) => {
        impl<'b, T: Scalar> Val<'b, T> {
            $(
                /// The op of that name.
                pub fn $name(self, other: impl Arg<'b, T>) -> Val<'b, bool>
                where
                    T: $class,
                {
                    self.body.$name(self, other)
                }
            )*
        }
    };
}

comparisons! {
    eq Any;
    ne Any;
    lt Num;
    le Num;
    gt Num;
    ge Num;
}

/// Several values at once: what regions give and loops carry. `()`, a value, an array, or a tuple.
pub trait Vals<'b>: Copy {
    /// Their types.
    fn types() -> &'static [Type];
    /// As operands.
    fn operands(self) -> Vec<Operand>;
    /// From consecutive values, from the `first`-th on.
    fn at(body: &'b Body<'b>, values: Values, first: usize) -> Self;
    /// From consecutive values.
    fn of(body: &'b Body<'b>, values: Values) -> Self {
        Self::at(body, values, 0)
    }
}

/// The Rust types that say what a function takes and gives.
pub trait Types {
    /// The values of these types.
    type Vals<'b>: Vals<'b>;
    /// As types of the language.
    fn types() -> &'static [Type];
}

impl<'b, T: Scalar> Vals<'b> for Val<'b, T> {
    fn types() -> &'static [Type] {
        const { &[T::TYPE] }
    }
    fn operands(self) -> Vec<Operand> {
        vec![self.operand]
    }
    fn at(body: &'b Body<'b>, values: Values, first: usize) -> Self {
        body.val(values, first)
    }
}

impl<'b, T: Scalar, const N: usize> Vals<'b> for [Val<'b, T>; N] {
    fn types() -> &'static [Type] {
        const { &[T::TYPE; N] }
    }
    fn operands(self) -> Vec<Operand> {
        self.map(|val| val.operand).to_vec()
    }
    fn at(body: &'b Body<'b>, values: Values, first: usize) -> Self {
        std::array::from_fn(|k| body.val(values, first + k))
    }
}

/// Implements `Types` and `Arg` for the Rust types of the language.
macro_rules! scalars {
    ($($t:ident)*) => {$(
        impl Types for $t {
            type Vals<'b> = Val<'b, $t>;
            fn types() -> &'static [Type] {
                &[<$t as Scalar>::TYPE]
            }
        }
        impl<'b> Arg<'b, $t> for $t {
            fn operand(self) -> Operand {
                Operand::Const(self.constant())
            }
        }
    )*};
}
scalars!(u32 i32 u64 f32 bool);

/// Implements `Vals` and `Types` for tuples.
macro_rules! tuples {
    ($(($($t:ident $k:tt),*);)*) => {$(
        impl<'b, $($t: Scalar),*> Vals<'b> for ($(Val<'b, $t>,)*) {
            fn types() -> &'static [Type] {
                const { &[$($t::TYPE),*] }
            }
            fn operands(self) -> Vec<Operand> {
                vec![$(self.$k.operand),*]
            }
            fn at(_body: &'b Body<'b>, _values: Values, _first: usize) -> Self {
                ($(_body.val::<$t>(_values, _first + $k),)*)
            }
        }
        impl<$($t: Scalar),*> Types for ($($t,)*) {
            type Vals<'b> = ($(Val<'b, $t>,)*);
            fn types() -> &'static [Type] {
                const { &[$($t::TYPE),*] }
            }
        }
    )*};
}

tuples! {
    ();
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
}
