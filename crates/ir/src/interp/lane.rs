//! The loop that runs a lane.

use std::time::Instant;

use super::code::{Code, Enter, Pc, Reg, Step};
use super::memory::LaneMemory;
use super::run::LaunchBoard;

/// Why a lane stopped running.
#[derive(Clone, Copy, Debug)]
pub(super) enum LanePause {
    /// Its turn is over.
    Turn,
    /// It has reached an op that lanes execute together.
    Wait,
    /// It backs off for this many nanoseconds.
    Backoff { ns: u32 },
    /// It has returned from the kernel.
    End,
    /// It has trapped, which ends the launch.
    Trap { code: u32 },
}

/// What `clock` reads.
#[derive(Clone, Copy)]
pub(super) enum Clock {
    /// The time that has passed since this instant.
    Real(Instant),
    /// The number of steps. This many were executed before the turn, so that a schedule with the same seed repeats
    /// itself exactly.
    Steps(u64),
}

impl Clock {
    fn read(self, steps: u64) -> u64 {
        match self {
            Clock::Real(start) => start.elapsed().as_nanos() as u64,
            Clock::Steps(before) => before + steps,
        }
    }
}

/// Runs a lane from `pc` for at most `turn` steps. Returns why it stopped and how many steps it executed.
pub(super) fn run_lane<M: LaneMemory>(
    code: &Code,
    pc: &mut Pc,
    regs: &mut [u64],
    memory: &mut M,
    board: &LaunchBoard<'_>,
    (clock, turn): (Clock, u64),
) -> (LanePause, u64) {
    let mut at = *pc as usize;
    let mut left = turn;
    let pause = loop {
        let Some(rest) = left.checked_sub(1) else { break LanePause::Turn };
        left = rest;
        let step = &code.steps[at];
        if M::WATCHES {
            memory.before(step, regs);
        }
        at += 1;
        match *step {
            Step::Pure { f, dst, a, b } => regs[dst as usize] = f(regs[a as usize], regs[b as usize], 0),
            Step::Move { dst, src } => regs[dst as usize] = regs[src as usize],
            Step::Compare { f, a, b, or } => {
                if f(regs[a as usize], regs[b as usize], 0) == 0 {
                    at = or as usize;
                }
            }
            Step::Branch { c, or } => {
                if regs[c as usize] == 0 {
                    at = or as usize;
                }
            }
            Step::Jump { to } => at = to as usize,
            Step::Next { left, i, step, body } => {
                regs[left as usize] -= 1;
                if regs[left as usize] != 0 {
                    regs[i as usize] = word(regs, i).wrapping_add(word(regs, step)).into();
                    at = body as usize;
                }
            }
            Step::Call { to, link } => {
                regs[link as usize] = at as u64;
                at = to as usize;
            }
            Step::Return { link } => at = regs[link as usize] as usize,
            Step::Load { dst, at, how } => {
                let at = word(regs, at);
                memory.load(regs, dst, how, at);
            }
            Step::Store { at, value, how } => {
                let (at, value) = (word(regs, at), regs[value as usize]);
                memory.store(regs, how, at, value);
            }
            Step::Clock { dst } => regs[dst as usize] = clock.read(turn - left),
            Step::Fault { code: fault } => board.fault(word(regs, fault), code.sites[at - 1]),
            Step::Enter(ref enter) if begin(enter, regs) => {}
            Step::Enter(ref enter) => at = enter.or as usize,
            Step::Switch(ref switch) => at = switch.find(word(regs, switch.on)) as usize,
            Step::Sync(_) => {
                at -= 1;
                break LanePause::Wait;
            }
            Step::Backoff { ns } => break LanePause::Backoff { ns: word(regs, ns) },
            Step::Trap { code } => break LanePause::Trap { code: word(regs, code) },
            Step::End => break LanePause::End,
            ref rare => access(rare, regs, memory),
        }
    };
    *pc = at as Pc;
    (pause, turn - left)
}

/// The low half of a register.
fn word(regs: &[u64], reg: Reg) -> u32 {
    regs[reg as usize] as u32
}

/// The larger steps on memory, and the pure ones of three operands.
fn access<M: LaneMemory>(step: &Step, regs: &mut [u64], memory: &mut M) {
    match step {
        Step::Pure3(pure) => {
            let [a, b, c] = pure.args.map(|reg| regs[reg as usize]);
            regs[pure.dst as usize] = (pure.f)(a, b, c);
        }
        Step::Modify(modify) => {
            let (at, value) = (word(regs, modify.at), regs[modify.value as usize]);
            let f = |old| Some((modify.f)(old, value, 0));
            regs[modify.dst as usize] = memory.modify(regs, modify.how, at, f);
        }
        Step::Cas(cas) => {
            let [expected, desired] = [cas.expected, cas.desired].map(|reg| regs[reg as usize]);
            let (at, f) = (word(regs, cas.at), |old| (old == expected).then_some(desired));
            regs[cas.dst as usize] = memory.modify(regs, cas.how, at, f);
        }
        Step::LoadWide(wide) => {
            let first = first(word(regs, wide.at), wide.count, memory.len(wide.how.buffer));
            for k in 0..wide.count {
                match first {
                    Some(first) => memory.load(regs, wide.dst + k, wide.how, first + k),
                    None => regs[(wide.dst + k) as usize] = 0,
                }
            }
        }
        Step::StoreWide(wide) => {
            let count = wide.values.len() as u32;
            if let Some(first) = first(word(regs, wide.at), count, memory.len(wide.how.buffer)) {
                for (reg, at) in wide.values.iter().zip(first..) {
                    let value = regs[*reg as usize];
                    memory.store(regs, wide.how, at, value);
                }
            }
        }
        Step::Fence { order, scope } => memory.fence(regs, *order, *scope),
        _ => unreachable!("the lane's loop does the others"),
    }
}

/// The first element of the 16 bytes that hold element `at`, if all of them are in range.
fn first(at: u32, count: u32, len: u32) -> Option<u32> {
    let first = at - at % count;
    first.checked_add(count).filter(|end| *end <= len).map(|_| first)
}

/// Starts a counted loop; gives whether it runs at all.
fn begin(enter: &Enter, regs: &mut [u64]) -> bool {
    let wide = |reg| {
        let bits = word(regs, reg);
        if enter.signed { i64::from(bits as i32) } else { i64::from(bits) }
    };
    let (from, to, step) = (wide(enter.from), wide(enter.to), wide(enter.step));
    if from >= to || step <= 0 {
        return false;
    }
    regs[enter.left as usize] = (to - from).unsigned_abs().div_ceil(step.unsigned_abs());
    regs[enter.i as usize] = regs[enter.from as usize];
    true
}
