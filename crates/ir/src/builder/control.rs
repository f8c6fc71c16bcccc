//! The control flow of the builder: closures write regions, and labels are the targets of jumps.

use std::marker::PhantomData;

use super::{Arg, Callee, FunctionBuilder, Types, Val, Vals};
use crate::arena::{Inst, Values};
use crate::module::Attr;
use crate::op::Op;
use crate::types::{Count, Type};

/// Instructions with regions, calls and returns.
impl<'b> FunctionBuilder<'b> {
    /// Runs a region if `c` is true.
    pub fn when(&'b self, c: impl Arg<'b, bool>, then: impl FnOnce()) {
        self.choose(c, then, || ());
    }

    /// Runs `then` if `c` is true and `other` if it is not, and returns the results of the region that runs.
    pub fn choose<R: Vals<'b>>(
        &'b self,
        c: impl Arg<'b, bool>,
        then: impl FnOnce() -> R,
        other: impl FnOnce() -> R,
    ) -> R {
        let (inst, results) = self.nest(Op::If, Attr::None, vec![c.operand()], R::types());
        self.region(inst, &[], |_| then());
        self.region(inst, &[], |_| other());
        R::from_values(self, results)
    }

    /// Starts a `switch`, which chooses a region by number. [`SwitchBuilder::case`] adds regions, and
    /// [`SwitchBuilder::default`] completes the switch.
    pub fn switch<R: Vals<'b>>(&'b self, on: impl Arg<'b, u32>) -> SwitchBuilder<'b, R> {
        let (inst, results) = self.nest(Op::Switch, Attr::Cases(Vec::new()), vec![on.operand()], R::types());
        SwitchBuilder { body: self, inst, results, ty: PhantomData }
    }

    /// Runs a region that [`Label::leave`] can leave early.
    pub fn block<R: Vals<'b>>(&'b self, build: impl FnOnce(Label<'b, (), R>) -> R) -> R {
        let (inst, results) = self.nest(Op::Block, Attr::None, Vec::new(), R::types());
        self.region(inst, &[], |_| build(Label::new(self, inst)));
        R::from_values(self, results)
    }

    /// Runs a region for each number from `from` up to, but not including, `to`, in steps of `step`.
    ///
    /// The region receives the number and the carried values, which are `init` in the first iteration, and returns the
    /// carried values of the next one. The carried values after the last iteration are the result.
    pub fn range<T: Count, C: Vals<'b>>(
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
            let carried = C::from_values_at(self, params, 1);
            build(Label::new(self, inst), self.val(params, 0), carried)
        });
        C::from_values(self, results)
    }

    /// Repeats the region that `build` writes while `test` of the carried values is true.
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
            test(C::from_values(self, params))
        });
        let carried = carried.expect("the test was built");
        self.region(inst, &[], |_| build(Label::new(self, inst), C::from_values(self, carried)));
        C::from_values(self, results)
    }

    /// Repeats a region until [`Label::leave`] leaves the loop. The values that are passed to `leave` are the result.
    pub fn forever<C: Vals<'b>, R: Vals<'b>>(
        &'b self,
        init: C,
        build: impl FnOnce(Label<'b, C, R>, C) -> C,
    ) -> R {
        let (inst, results) = self.nest(Op::Forever, Attr::None, init.operands(), R::types());
        self.region(inst, C::types(), |params| build(Label::new(self, inst), C::from_values(self, params)));
        R::from_values(self, results)
    }

    /// Returns from the function with these results.
    pub fn ret(&'b self, results: impl Vals<'b>) {
        self.push(Op::Return, Attr::None, results.operands());
    }

    /// Calls a function that has been added to the module before, and returns its results.
    pub fn call<P: Types, R: Types>(&'b self, callee: Callee<P, R>, args: P::Vals<'b>) -> R::Vals<'b> {
        let results = self.push(Op::Call, Attr::Call(callee.func), args.operands());
        R::Vals::from_values(self, results)
    }
}

/// A `switch` that is being built.
pub struct SwitchBuilder<'b, R> {
    body: &'b FunctionBuilder<'b>,
    inst: Inst,
    results: Values,
    ty: PhantomData<R>,
}

impl<'b, R: Vals<'b>> SwitchBuilder<'b, R> {
    /// Adds the region that runs for these numbers.
    pub fn case<const N: usize>(self, on: [u32; N], build: impl FnOnce() -> R) -> Self {
        if let Attr::Cases(cases) = self.body.writer.borrow_mut().attr_mut(self.inst) {
            cases.push(on.to_vec());
        }
        self.body.region(self.inst, &[], |_| build());
        self
    }

    /// Adds the region that runs for every other number, and completes the switch.
    pub fn default(self, build: impl FnOnce() -> R) -> R {
        self.body.region(self.inst, &[], |_| build());
        R::from_values(self.body, self.results)
    }
}

/// The label of a loop that carries `C` and has results `R`, or of a block that has results `R`. Code inside the loop
/// or block uses it to jump.
pub struct Label<'b, C, R> {
    body: &'b FunctionBuilder<'b>,
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
    fn new(body: &'b FunctionBuilder<'b>, inst: Inst) -> Self {
        Label { body, inst, ty: PhantomData }
    }

    /// Leaves the loop or block with these results.
    pub fn leave(self, results: R) {
        self.body.push(Op::Break, Attr::Target(self.inst), results.operands());
    }

    /// Goes on with the next iteration of the loop, with these carried values.
    pub fn next(self, carried: C) {
        self.body.push(Op::Continue, Attr::Target(self.inst), carried.operands());
    }
}
