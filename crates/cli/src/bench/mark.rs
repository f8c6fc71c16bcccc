//! Tasks that can be told apart: every argument follows from the task's number, in Rust and in the kernel.
//!
//! A number is a producer and a position of 64 bits, which stand in the first two arguments. The other ten are the number
//! mixed, plus a step for each place, so a word of another task, or of another lap of the ring, is found out wherever it
//! stands. The result is the number mixed once more: the host, which knows what it sent where, finds out a line that is
//! whole but not the one meant. Only the mixing multiplies: the host makes and checks hundreds of millions a second.

use pelton::ir::builder::Val;
use pelton::kernel::{Draft, Slot};
use pelton::{Handler, Opcode, Region, Task};

/// The bits of a number above the position.
const PRODUCER: u32 = 56;
/// What the handler says of an argument that is not its task's.
pub const WRONG: u32 = 0x100;
/// The arguments that are mixed.
const MIXED: std::ops::Range<u32> = 2..12;

const A: u32 = 0x9e37_79b1;
const B: u32 = 0x85eb_ca77;
const C: u32 = 0x27d4_eb2f;
const D: u32 = 0x2c1b_3c6d;

/// The number of a producer's task.
#[inline]
pub fn task_number(producer: u32, position: u64) -> u64 {
    u64::from(producer) << PRODUCER | position & ((1 << PRODUCER) - 1)
}

#[inline]
fn mix(x: u32) -> u32 {
    (x ^ x >> 15).wrapping_mul(D)
}

/// What all arguments of a task have in common. Numbers that differ in one half alone differ here.
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

/// Seeds from a number on.
pub fn fill_seeds(first: u64, into: &mut [u32]) {
    // Where the low half begins again. Up to there the high half is one number, and the loop is compiled wide.
    let turn = ((1u64 << 32) - u64::from(first as u32)).min(into.len() as u64);
    let (these, others) = into.split_at_mut(turn as usize);
    for (first, into) in [(first, these), (first + turn, others)] {
        let (low, high) = (first as u32, first >> 32 << 32);
        for (k, into) in into.iter_mut().enumerate() {
            *into = seed(high | u64::from(low.wrapping_add(k as u32)));
        }
    }
}

/// The task of a number and its seed.
#[inline]
pub fn marked_task(op: Opcode, number: u64, seed: u32) -> Task {
    let args = std::array::from_fn(|k| match k as u32 {
        0 => number as u32,
        1 => (number >> 32) as u32,
        k => argument_word(seed, k),
    });
    Task::new(op).args::<12>(args)
}

/// What it must give.
#[inline]
pub fn marked_result(number: u64) -> u32 {
    mix(seed(number))
}

/// Holds the results of tasks against what they must be by their seeds: which bits are wrong in any, and what the tasks
/// have added to the sum, of which the low half counts.
pub fn check_results(seeds: &[u32], results: &[u32]) -> (u32, u64) {
    let (wrong, sum) = seeds.iter().zip(results).fold((0u32, 0u32), |(wrong, sum), (seed, result)| {
        (wrong | (result ^ mix(*seed)), sum.wrapping_add(argument_word(*seed, MIXED.start)))
    });
    (wrong, sum.into())
}

/// Mixes in the kernel.
fn mix_in_kernel<'b>(x: Val<'b, u32>) -> Val<'b, u32> {
    (x ^ (x >> 15)) * D
}

/// The same in the kernel: looks at every argument, adds one of them to word 0 of `data`, and gives the result.
fn write_handler(slot: Slot<'_>) {
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

/// The handler.
pub fn mark_handler(op: Opcode, regions: &[Region]) -> Handler {
    Draft::new(op).name("mark").regions(regions).build(write_handler)
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
