//! Several values at once, and the Rust types that stand for them.

use super::{Arg, FunctionBuilder, Val};
use crate::arena::Values;
use crate::module::Operand;
use crate::types::{Scalar, Type};

/// Several values at once, such as the results of a region or the carried values of a loop: `()`, a value, an array,
/// or a tuple.
pub trait Vals<'b>: Copy {
    /// Returns the types of the values.
    fn types() -> &'static [Type];
    /// Returns the values as operands.
    fn operands(self) -> Vec<Operand>;
    /// Takes as many of the consecutive `values` as needed, starting at index `first`.
    fn from_values_at(body: &'b FunctionBuilder<'b>, values: Values, first: usize) -> Self;
    /// Takes as many of the consecutive `values` as needed, starting with the first.
    fn from_values(body: &'b FunctionBuilder<'b>, values: Values) -> Self {
        Self::from_values_at(body, values, 0)
    }
}

/// Rust types that state the parameters or the results of a function: `()`, a type, or a tuple or an array of types.
pub trait Types {
    /// The values of these types.
    type Vals<'b>: Vals<'b>;
    /// Returns the types as types of the language.
    fn types() -> &'static [Type];
}

impl<'b> Vals<'b> for () {
    fn types() -> &'static [Type] {
        &[]
    }
    fn operands(self) -> Vec<Operand> {
        Vec::new()
    }
    fn from_values_at(_: &'b FunctionBuilder<'b>, _: Values, _: usize) {}
}

impl Types for () {
    type Vals<'b> = ();
    fn types() -> &'static [Type] {
        &[]
    }
}

impl<'b, T: Scalar> Vals<'b> for Val<'b, T> {
    fn types() -> &'static [Type] {
        const { &[T::TYPE] }
    }
    fn operands(self) -> Vec<Operand> {
        vec![self.operand]
    }
    fn from_values_at(body: &'b FunctionBuilder<'b>, values: Values, first: usize) -> Self {
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
    fn from_values_at(body: &'b FunctionBuilder<'b>, values: Values, first: usize) -> Self {
        std::array::from_fn(|k| body.val(values, first + k))
    }
}

impl<T: Scalar, const N: usize> Types for [T; N] {
    type Vals<'b> = [Val<'b, T>; N];
    fn types() -> &'static [Type] {
        const { &[T::TYPE; N] }
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
            fn from_values_at(body: &'b FunctionBuilder<'b>, values: Values, first: usize) -> Self {
                ($(body.val::<$t>(values, first + $k),)*)
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
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
}
