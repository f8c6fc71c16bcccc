//! Control flow: closures for regions, labels for jumps.

use std::marker::PhantomData;

use super::{Arg, Callee, FunctionBuilder, Types, Val, Vals};
use crate::arena::{Inst, Values};
use crate::module::Attr;
use crate::op::Op;
use crate::types::{Count, Type};

/// Instructions with regions, calls and returns.
impl<'b> FunctionBuilder<'b> {
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
        R::from_values(self, results)
    }

    /// Chooses among regions by number; [`SwitchBuilder::default`] completes it.
    pub fn switch<R: Vals<'b>>(&'b self, on: impl Arg<'b, u32>) -> SwitchBuilder<'b, R> {
        let (inst, results) = self.nest(Op::Switch, Attr::Cases(Vec::new()), vec![on.operand()], R::types());
        SwitchBuilder { body: self, inst, results, ty: PhantomData }
    }

    /// A region that can be left early.
    pub fn block<R: Vals<'b>>(&'b self, build: impl FnOnce(Label<'b, (), R>) -> R) -> R {
        let (inst, results) = self.nest(Op::Block, Attr::None, Vec::new(), R::types());
        self.region(inst, &[], |_| build(Label::new(self, inst)));
        R::from_values(self, results)
    }

    /// Counts from `from` up to but not including `to` by `step`, carrying values from one iteration to the next.
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
            test(C::from_values(self, params))
        });
        let carried = carried.expect("the test was built");
        self.region(inst, &[], |_| build(Label::new(self, inst), C::from_values(self, carried)));
        C::from_values(self, results)
    }

    /// Repeats until the label is left; what it is left with is the result.
    pub fn forever<C: Vals<'b>, R: Vals<'b>>(
        &'b self,
        init: C,
        build: impl FnOnce(Label<'b, C, R>, C) -> C,
    ) -> R {
        let (inst, results) = self.nest(Op::Forever, Attr::None, init.operands(), R::types());
        self.region(inst, C::types(), |params| build(Label::new(self, inst), C::from_values(self, params)));
        R::from_values(self, results)
    }

    /// Leaves the function.
    pub fn ret(&'b self, results: impl Vals<'b>) {
        self.push(Op::Return, Attr::None, results.operands());
    }

    /// Calls a function written before.
    pub fn call<P: Types, R: Types>(&'b self, callee: Callee<P, R>, args: P::Vals<'b>) -> R::Vals<'b> {
        let results = self.push(Op::Call, Attr::Call(callee.func), args.operands());
        R::Vals::from_values(self, results)
    }
}

/// A switch in the making.
pub struct SwitchBuilder<'b, R> {
    body: &'b FunctionBuilder<'b>,
    inst: Inst,
    results: Values,
    ty: PhantomData<R>,
}

impl<'b, R: Vals<'b>> SwitchBuilder<'b, R> {
    /// The region for these numbers.
    pub fn case<const N: usize>(self, on: [u32; N], build: impl FnOnce() -> R) -> Self {
        if let Attr::Cases(cases) = self.body.writer.borrow_mut().attr_mut(self.inst) {
            cases.push(on.to_vec());
        }
        self.body.region(self.inst, &[], |_| build());
        self
    }

    /// The region for every other number.
    pub fn default(self, build: impl FnOnce() -> R) -> R {
        self.body.region(self.inst, &[], |_| build());
        R::from_values(self.body, self.results)
    }
}

/// A loop that carries `C` and gives `R`, or a block that gives `R`, seen from inside.
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

    /// Goes to the loop's next iteration.
    pub fn next(self, carried: C) {
        self.body.push(Op::Continue, Attr::Target(self.inst), carried.operands());
    }
}
