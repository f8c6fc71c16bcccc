//! Constants at which arithmetic is likely to be wrong.

use pelton_ir::types::{Const, Type};

use crate::choose::Choose;

/// The number of constants at the start of each list that are neutral, or nearly so, for some op. Half of all
/// choices fall on these.
const NEUTRAL: usize = 5;

/// Integers at the edges of their ranges. 32-bit types take the low half.
const INTEGERS: &[u64] = &[
    0,
    1,
    u64::MAX,
    2,
    0x8000_0000,
    3,
    u64::MAX - 1,
    5,
    7,
    31,
    32,
    33,
    63,
    64,
    0x7fff_ffff,
    0x8000_0001,
    0xffff,
    0x0100_0001,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0x5555_5555_5555_5555,
];

/// Values at the edges of `f32`: zeros, ties, subnormals, ends of the integer ranges, infinities, NaNs.
const FLOATS: &[f32] = &[
    0.0,
    1.0,
    -1.0,
    -0.0,
    2.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    f32::MIN_POSITIVE,
    f32::from_bits(1),
    f32::from_bits(0x807f_ffff),
    f32::MAX,
    f32::MIN,
    f32::EPSILON,
    16_777_216.0,
    2_147_483_648.0,
    -2_147_483_904.0,
    4_294_967_296.0,
    1.844_674_4e19,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::from_bits(0xffc0_1234),
    f32::from_bits(0x7f80_0001),
];

/// Chooses a constant of a type: usually an edge, sometimes any bits.
pub fn constant(choose: &mut dyn Choose, ty: Type) -> Const {
    let edges = if ty == Type::F32 { FLOATS.len() } else { INTEGERS.len() };
    let lot = choose.below(2 * (edges + 3));
    let at = if lot < edges + 3 { lot % NEUTRAL } else { lot - edges - 3 };
    match ty {
        Type::Bool => Const::new(ty, at as u64),
        _ if at >= edges => Const::new(ty, choose.bits()),
        Type::F32 => FLOATS[at].into(),
        _ => Const::new(ty, INTEGERS[at]),
    }
}
