//! One method per row of the op table, and Rust's operators for the ops that have one.

use std::ops;

use super::{Arg, At, Buf, FunctionBuilder, Val};
use crate::module::Attr;
use crate::op::{Op, op_table};
use crate::types::{Any, Bits, Int, Num, Order, Scalar, Scope, Signed, Word32};

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
        impl<'b> FunctionBuilder<'b> {
            $($(method!($form $op $name [$($t: $class)?] ($($arg: $pat),*) -> ($($res),*) $doc);)*)*
        }
    };
}
op_table!(methods);

/// The rows whose form is not that of a call.
impl<'b> FunctionBuilder<'b> {
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
