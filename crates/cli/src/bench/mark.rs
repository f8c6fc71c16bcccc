//! Tasks that are all different: every argument follows from the task's number, in Rust and in the kernel.
//!
//! A number consists of a producer and a 64-bit position, which are the first two arguments. The other ten are the
//! mixed number plus a step for each place. A word of another task, or of another lap of the ring, is therefore
//! detected wherever it occurs. The result is the number mixed once more, so that the host, which knows what it
//! submitted where, also detects a line that is intact but belongs elsewhere. Only the mixing multiplies, because
//! the host makes and checks hundreds of millions of tasks per second.

use pelton::ir::builder::Val;
use pelton::kernel::HandlerBody;
use pelton::{Handler, Opcode, Task};

/// The lowest bit of the producer in a number; the position is below it.
const PRODUCER: u32 = 56;
/// The fault code for an argument that does not belong to its task.
pub(super) const WRONG: u32 = 0x100;
/// The places of the arguments that are mixed.
const MIXED: std::ops::Range<u32> = 2..12;

const A: u32 = 0x9e37_79b1;
const B: u32 = 0x85eb_ca77;
const C: u32 = 0x27d4_eb2f;
const D: u32 = 0x2c1b_3c6d;

/// The number of a producer's task.
#[inline]
pub(super) fn task_number(producer: u32, position: u64) -> u64 {
    u64::from(producer) << PRODUCER | position & ((1 << PRODUCER) - 1)
}

#[inline]
fn mix(x: u32) -> u32 {
    (x ^ x >> 15).wrapping_mul(D)
}

/// The seed of a task's mixed arguments. Numbers that differ in only one half have different seeds.
#[inline]
fn seed(number: u64) -> u32 {
    let (low, high) = (number as u32, (number >> 32) as u32);
    mix(low.wrapping_mul(A) ^ high.wrapping_mul(B).rotate_left(15))
}

/// The argument at a place.
#[inline]
fn argument_word(seed: u32, place: u32) -> u32 {
    seed.wrapping_add(place.wrapping_mul(C))
}

/// Fills in the seeds of consecutive numbers.
pub(super) fn fill_seeds(first: u64, into: &mut [u32]) {
    // The index at which the low half wraps. Up to there the high half is constant, so the compiler can vectorise
    // the loop.
    let turn = ((1u64 << 32) - u64::from(first as u32)).min(into.len() as u64);
    let (these, others) = into.split_at_mut(turn as usize);
    for (first, into) in [(first, these), (first + turn, others)] {
        let (low, high) = (first as u32, first >> 32 << 32);
        for (k, into) in into.iter_mut().enumerate() {
            *into = seed(high | u64::from(low.wrapping_add(k as u32)));
        }
    }
}

/// The task with a number and its seed.
#[inline]
pub(super) fn marked_task(op: Opcode, number: u64, seed: u32) -> Task {
    let args = std::array::from_fn(|k| match k as u32 {
        0 => number as u32,
        1 => (number >> 32) as u32,
        k => argument_word(seed, k),
    });
    Task::new(op).args::<12>(args)
}

/// The result that the task with a number must return.
#[inline]
pub(super) fn marked_result(number: u64) -> u32 {
    mix(seed(number))
}

/// Compares the results of tasks with what their seeds demand. Returns the bits that are wrong in any result, and
/// the sum that the tasks have added, of which only the low half is meaningful.
pub(super) fn check_results(seeds: &[u32], results: &[u32]) -> (u32, u64) {
    let (wrong, sum) = seeds.iter().zip(results).fold((0u32, 0u32), |(wrong, sum), (seed, result)| {
        (wrong | (result ^ mix(*seed)), sum.wrapping_add(argument_word(*seed, MIXED.start)))
    });
    (wrong, sum.into())
}

/// Mixes a value in the kernel.
fn mix_in_kernel<'b>(x: Val<'b, u32>) -> Val<'b, u32> {
    (x ^ (x >> 15)) * D
}

/// Writes the handler, which checks every argument, adds one of them to word 0 of `data`, and returns the result.
fn write_handler(slot: HandlerBody<'_>) {
    let f = slot.body();
    let (low, high) = (slot.arg(0), slot.arg(1));
    let seed = mix_in_kernel((low * A) ^ f.rotl(high * B, 15));
    let mut wrong = f.lit(0);
    for place in MIXED {
        wrong = wrong | (slot.arg(place) ^ (seed + place.wrapping_mul(C)));
    }
    f.when(wrong.ne(0), || slot.fault(WRONG));
    slot.atomic_add(0, slot.arg(MIXED.start));
    slot.finish(mix_in_kernel(seed));
}

/// The handler of marked tasks.
pub(super) fn mark_handler() -> Handler {
    Handler::lane_wide(write_handler)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task_of(number: u64) -> Task {
        let mut seed = [0];
        fill_seeds(number, &mut seed);
        marked_task(Opcode::NOP, number, seed[0])
    }

    #[test]
    fn neighbours_share_no_argument() {
        for position in [0, 4095, u64::from(u32::MAX)] {
            let (a, b) = (task_of(task_number(1, position)), task_of(task_number(1, position + 1)));
            assert!((2..12).all(|k| a.args[k] != b.args[k]));
            assert_ne!(marked_result(task_number(1, position)), marked_result(task_number(2, position)));
        }
    }

    #[test]
    fn every_wrong_result_is_found() {
        let first = task_number(1, u64::from(u32::MAX) - 4);
        let mut known = [0; 10];
        fill_seeds(first, &mut known);
        let mut results: Vec<u32> = (first..first + 10).map(marked_result).collect();
        let sum = (first..first + 10).fold(0u32, |sum, number| sum.wrapping_add(task_of(number).args[2]));
        assert_eq!(check_results(&known, &results), (0, sum.into()));
        for at in 0..10 {
            results[at] ^= 1 << at;
            assert_eq!(check_results(&known, &results), (1 << at, sum.into()));
            results[at] ^= 1 << at;
        }
    }
}
