//! The lanes of a group, and the ops that they execute together.
//!
//! Each lane runs by itself until it comes to such an op, and waits there. Once all lanes of the subgroup, or of the
//! group, wait at it, it is done for all of them at once. Subgroups wait only for their own lanes.

use super::code::{LaneSync, Pc, Step, fixed};
use super::lane::{self, Clock, LanePause};
use super::memory::LaneMemory;
use super::run::InterpJob;
use crate::eval::PureFunction;
use crate::op::Op;

/// The most lanes that a subgroup has.
pub(super) const SUBGROUP: usize = 32;

/// A group that has started.
pub(super) struct Group<M> {
    memory: M,
    lanes: Vec<LaneState>,
    /// The registers of all lanes, one lane after the other.
    regs: Vec<u64>,
    /// How many registers a lane has.
    width: usize,
    /// Lanes in a subgroup.
    size: usize,
    running: usize,
    ended: usize,
    /// How many lanes wait for the group, and how many for each subgroup.
    waiting: usize,
    apart: Vec<usize>,
}

struct LaneState {
    pc: Pc,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    Waits,
    Ended,
}

/// The outcome of a round over all lanes of a group.
#[derive(Default)]
pub(super) struct Round {
    pub steps: u64,
    /// Whether some lane did something other than back off.
    pub busy: bool,
    /// The shortest time for which a lane backs off.
    pub rest_ns: Option<u32>,
}

impl<M: LaneMemory> Group<M> {
    /// The `index`-th group of a launch, with all lanes at the kernel's start.
    pub(crate) fn new(job: &InterpJob<'_>, index: u32, memory: M) -> Self {
        let (count, size) = (job.launch.lanes as usize, job.launch.subgroup as usize);
        let width = job.registers.len();
        let mut regs = job.registers.repeat(count);
        for (lane, regs) in regs.chunks_exact_mut(width).enumerate() {
            regs[fixed::GROUP as usize] = index.into();
            regs[fixed::LANE as usize] = lane as u64;
            regs[fixed::SUBGROUP as usize] = (lane / size) as u64;
            regs[fixed::SUBLANE as usize] = (lane % size) as u64;
            regs[fixed::ELECTED as usize] = (lane % size == 0).into();
        }
        let lanes = (0..count).map(|_| LaneState { pc: job.entry, state: State::Runs }).collect();
        let apart = vec![0; count.div_ceil(size)];
        Group { memory, lanes, regs, width, size, running: count, ended: 0, waiting: 0, apart }
    }

    /// Returns whether all lanes have ended.
    pub(crate) fn done(&self) -> bool {
        self.ended == self.lanes.len()
    }

    /// Returns the first lane that can run, starting at `lane` and wrapping around.
    pub(crate) fn next(&self, lane: usize) -> Option<usize> {
        let count = self.lanes.len();
        (lane..lane + count).map(|k| k % count).find(|k| self.lanes[*k].state == State::Runs)
    }

    /// Gives every lane that can run one turn.
    pub(crate) fn round(&mut self, job: &InterpJob<'_>, clock: Clock, turn: u64) -> Round {
        let mut round = Round::default();
        for lane in 0..self.lanes.len() {
            if self.lanes[lane].state != State::Runs {
                continue;
            }
            let (pause, steps) = self.turn(job, lane, clock, turn);
            round.steps += steps;
            match pause {
                LanePause::Backoff { ns } => {
                    round.rest_ns = Some(round.rest_ns.map_or(ns, |rest| rest.min(ns)))
                }
                LanePause::Trap { .. } => break,
                _ => round.busy = true,
            }
        }
        round
    }

    /// Runs one lane for a turn, and the op that it comes to if it is the last that was waited for.
    pub(crate) fn turn(
        &mut self,
        job: &InterpJob<'_>,
        lane: usize,
        clock: Clock,
        turn: u64,
    ) -> (LanePause, u64) {
        let this = &mut self.lanes[lane];
        let regs = &mut self.regs[lane * self.width..][..self.width];
        self.memory.enter(lane as u32);
        let (pause, steps) =
            lane::run_lane(job.code, &mut this.pc, regs, &mut self.memory, job.board, (clock, turn));
        match pause {
            LanePause::Turn | LanePause::Backoff { .. } => {}
            LanePause::Trap { code } => job.board.trap(code, job.code.sites[this.pc as usize - 1]),
            LanePause::End => {
                this.state = State::Ended;
                self.running -= 1;
                self.ended += 1;
            }
            LanePause::Wait => {
                this.state = State::Waits;
                self.running -= 1;
                self.wait(job, lane);
            }
        }
        // The validator ensures that all lanes meet at the same op. If it is wrong, the launch must still end.
        if self.running == 0
            && let Some(stuck) = self.lanes.iter().find(|lane| lane.state == State::Waits)
        {
            job.board.diverge(job.code.sites[stuck.pc as usize]);
        }
        (pause, steps)
    }

    /// Counts a lane that has reached an op that lanes execute together, and executes the op if no lane is missing.
    fn wait(&mut self, job: &InterpJob<'_>, lane: usize) {
        let pc = self.lanes[lane].pc;
        let Step::Sync(sync) = &job.code.steps[pc as usize] else { return };
        let (first, count) = if sync.group() {
            (0, self.lanes.len())
        } else {
            let first = lane - lane % self.size;
            (first, self.size.min(self.lanes.len() - first))
        };
        let waiting = if sync.group() { &mut self.waiting } else { &mut self.apart[lane / self.size] };
        *waiting += 1;
        if *waiting < count || self.lanes[first..first + count].iter().any(|lane| lane.pc != pc) {
            return;
        }
        *waiting = 0;
        if sync.group() {
            self.gather(sync)
        } else {
            self.exchange(sync, first, count)
        }
        for lane in &mut self.lanes[first..first + count] {
            lane.pc += 1;
            lane.state = State::Runs;
        }
        self.running += count;
    }

    fn get(&self, lane: usize, reg: u32) -> u64 {
        self.regs[lane * self.width + reg as usize]
    }

    fn set(&mut self, lane: usize, reg: u32, value: u64) {
        self.regs[lane * self.width + reg as usize] = value;
    }

    /// An op of the whole group.
    fn gather(&mut self, sync: &LaneSync) {
        self.memory.meet();
        if sync.op == Op::GroupBroadcast {
            let from = self.get(0, sync.from) as usize;
            let value = if from < self.lanes.len() { self.get(from, sync.a) } else { 0 };
            (0..self.lanes.len()).for_each(|lane| self.set(lane, sync.dst, value));
        }
    }

    /// An op of the subgroup of these lanes.
    fn exchange(&mut self, sync: &LaneSync, first: usize, count: usize) {
        let mut values = [0; SUBGROUP];
        for (k, value) in values[..count].iter_mut().enumerate() {
            *value = self.get(first + k, sync.a);
        }
        let values = &values[..count];
        let together = match (sync.op, sync.f) {
            (Op::Ballot, _) => Some(values.iter().rev().fold(0, |bits, p| bits << 1 | p)),
            (Op::Any, _) => Some(values.contains(&1).into()),
            (Op::All, _) => Some(values.iter().all(|p| *p == 1).into()),
            (_, Some(f)) => Some(reduce(f, values)),
            _ => None,
        };
        for lane in first..first + count {
            let from = self.get(lane, sync.from) as usize;
            let value = together.unwrap_or_else(|| values.get(from).copied().unwrap_or(0));
            self.set(lane, sync.dst, value);
        }
    }
}

fn reduce(f: PureFunction, values: &[u64]) -> u64 {
    values[1..].iter().fold(values[0], |sum, value| f(sum, *value, 0))
}
