//! How a lane reads a line, which is a slot as 64 bytes of memory, and checks that it is whole.

use pelton_ir::builder::{Buf, FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::context::{LINE, U32, U64};
use crate::protocol::slot;

/// Reads the line that begins at a word, by four accesses of 16 bytes that are all under way at once.
pub(super) fn read_line<'b>(
    f: &'b FunctionBuilder<'b>,
    slots: Buf<u64>,
    at: U32<'b>,
) -> [U64<'b>; LINE as usize] {
    let pairs: [[U64<'b>; 2]; LINE as usize / 2] = std::array::from_fn(|k| {
        f.load_wide::<u64, 2>(Order::Relaxed, Scope::System, slots.at(at + 2 * k as u32))
    });
    std::array::from_fn(|k| pairs[k / 2][k % 2])
}

/// Whether a line is whole, rather than read while the host was writing it: its check word must be the exclusive or of
/// the other words, each rotated by its number.
pub(super) fn is_whole<'b>(f: &'b FunctionBuilder<'b>, words: &[U64<'b>]) -> Val<'b, bool> {
    let (mut even, mut odd) = (f.lit(0), f.lit(0));
    for (k, word) in words.iter().enumerate().rev() {
        let low = if k == slot::CHECK as usize / 2 { f.lit(0) } else { f.cast::<u32>(*word) };
        even = f.rotl(even, 2) ^ low;
        odd = f.rotl(odd, 2) ^ f.cast::<u32>(*word >> 32);
    }
    (even ^ f.rotl(odd, 1)).eq(f.cast::<u32>(words[slot::CHECK as usize / 2]))
}
