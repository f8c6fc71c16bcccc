//! Emitting the code of a function: registers, labels, and moves that happen at the same time.
//!
//! Registers are given by stack discipline: what a region defines is dead after it, so the next region takes the
//! same registers again. Jumps name labels until the function is whole.

use super::code::{Code, Pc, Reg, Step, fixed};
use crate::arena::{Func, Inst};
use crate::module::Site;

/// How far back a move looks for the step that computed its source.
const REACH: usize = 8;

/// A move among others that happen at the same time.
#[derive(Clone, Copy)]
pub(super) struct Move {
    pub dst: Reg,
    pub src: Reg,
    /// Whether nothing else reads the source.
    pub last: bool,
}

/// The code of a function that is being emitted.
pub(super) struct CodeEmitter<'c> {
    code: &'c mut Code,
    func: Func,
    inst: Inst,
    /// Where the function's code starts.
    start: usize,
    /// What each label stands for.
    labels: Vec<Pc>,
    /// The last position to which a jump may lead. The step before such a position is not always the one that ran
    /// before.
    bound: usize,
    top: Reg,
    high: Reg,
}

impl<'c> CodeEmitter<'c> {
    /// Starts a function whose registers begin at `base`.
    pub(crate) fn new(code: &'c mut Code, func: Func, inst: Inst, base: Reg) -> Self {
        let start = code.steps.len();
        CodeEmitter { code, func, inst, start, labels: Vec::new(), bound: start, top: base, high: base }
    }

    /// Sets the instruction from which the following steps come.
    pub(crate) fn set_inst(&mut self, inst: Inst) {
        self.inst = inst;
    }

    /// Adds a step.
    pub(crate) fn push(&mut self, step: Step) {
        self.code.steps.push(step);
        self.code.sites.push(Site { func: self.func, inst: self.inst });
    }

    /// Takes consecutive registers and returns the first.
    pub(crate) fn take_registers(&mut self, count: usize) -> Reg {
        let first = self.top;
        self.top += count as Reg;
        self.high = self.high.max(self.top);
        first
    }

    /// The register that would be taken next.
    pub(crate) fn top(&self) -> Reg {
        self.top
    }

    /// Gives back all registers from that one on.
    pub(crate) fn release_registers(&mut self, top: Reg) {
        self.top = top;
    }

    /// Creates a label.
    pub(crate) fn label(&mut self) -> Pc {
        self.labels.push(Pc::MAX);
        self.labels.len() as Pc - 1
    }

    /// Binds a label to the current position. A jump to the label that comes directly before is removed.
    pub(crate) fn bind_label(&mut self, label: Pc) {
        while self.code.steps.len() > self.bound
            && matches!(self.code.steps.last(), Some(Step::Jump { to }) if *to == label)
        {
            self.code.steps.pop();
            self.code.sites.pop();
        }
        self.bound = self.code.steps.len();
        self.labels[label as usize] = self.bound as Pc;
    }

    /// Emits moves that happen at the same time: a register that is also a source is read before it is written.
    pub(crate) fn assign(&mut self, mut moves: Vec<Move>) {
        moves.retain(|m| m.dst != m.src);
        let mut k = 0;
        while k < moves.len() {
            let m = moves[k];
            let free = moves.iter().all(|other| other.src != m.dst);
            if free && m.last && self.rename(m.src, m.dst) {
                moves.swap_remove(k);
            } else {
                k += 1;
            }
        }
        while !moves.is_empty() {
            match moves.iter().position(|m| moves.iter().all(|other| other.src != m.dst)) {
                Some(ready) => {
                    let Move { dst, src, .. } = moves.swap_remove(ready);
                    self.push(Step::Move { dst, src });
                }
                // Only cycles are left. One scratch register will do: its cycle unwinds before another is broken.
                None => {
                    let held = moves[0].dst;
                    self.push(Step::Move { dst: fixed::SCRATCH, src: held });
                    moves.iter_mut().filter(|m| m.src == held).for_each(|m| m.src = fixed::SCRATCH);
                }
            }
        }
    }

    /// Lets the step that computed `from` write `to` instead, if the step is near and nothing in between uses either.
    fn rename(&mut self, from: Reg, to: Reg) -> bool {
        let end = self.code.steps.len();
        for step in self.code.steps[self.bound.max(end.saturating_sub(REACH))..].iter_mut().rev() {
            if let Step::Pure { dst, .. } | Step::Load { dst, .. } = step
                && *dst == from
            {
                *dst = to;
                return true;
            }
            let mut clash = step.leaves();
            step.reads(|reg| clash |= reg == to);
            if clash {
                return false;
            }
        }
        false
    }

    /// Replaces labels by positions, and returns the register after the last one that is used.
    pub(crate) fn finish(self) -> Reg {
        for step in &mut self.code.steps[self.start..] {
            step.targets(|pc| *pc = self.labels[*pc as usize]);
        }
        self.high
    }
}
