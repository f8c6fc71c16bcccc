//! What adapted handlers do with their steps: they keep words in the task's frame, and ask to be called again.

use pelton_ir::builder;
use pelton_ir::module::{Attr, Operand};
use pelton_ir::op::Op;

use super::HandlerTask;
use crate::kernel::context::{LINE, U32};
use crate::kernel::handler::Width;
use crate::kernel::steps::outcome;
use crate::protocol::FaultCode;
use crate::protocol::priority::LEVELS;

impl<'b> HandlerTask<'b, '_> {
    /// Writes what `yield_now` does: the task is to run again, unless the step asks for something that comes first.
    pub(super) fn ask_to_yield(self) {
        let Some(steps) = &self.kernel.steps else { return };
        let asked = steps.buffers.outcomes.at(self.args.task);
        self.once_per_task(|| {
            self.f.when(self.f.load(asked).eq(0), || self.f.store(asked, outcome::YIELD));
        });
    }

    /// Writes what `requeue` does: the task is to run again at another level. The last call of a step counts. A number
    /// that is no level is a fault.
    pub(super) fn ask_to_requeue(self, level: U32<'b>) {
        let Some(steps) = &self.kernel.steps else { return };
        let asked = steps.buffers.outcomes.at(self.args.task);
        self.once_per_task(|| {
            let well = level.lt(LEVELS as u32);
            self.f.when(!well, || self.record_fault(self.f.lit(FaultCode::ARGUMENTS.code())));
            let asked_before = self.f.load(asked);
            let waits = match self.kernel.trees {
                Some(_) => (asked_before & outcome::KIND).ge(outcome::PARK),
                None => asked_before.eq(outcome::PARK),
            };
            self.f.when(well & !waits, || {
                self.f.store(asked, level << outcome::LEVEL_SHIFT | outcome::REQUEUE);
            });
        });
    }

    /// Writes what `park` and other verbs do that put the task aside, whatever else the step asks for.
    pub(super) fn ask_to_wait(self, what: u32) {
        let Some(steps) = &self.kernel.steps else { return };
        let asked = steps.buffers.outcomes.at(self.args.task);
        self.once_per_task(|| self.f.store(asked, what));
    }

    /// Writes code that runs once, however many lanes run the task.
    pub(super) fn once_per_task(self, body: impl FnOnce()) {
        match self.width {
            Width::Lane => body(),
            Width::Group => self.f.when(self.f.lane().eq(0), body),
        }
    }

    /// Writes an access to the frame, which has this many words. A word beyond the frame does not exist, as in any
    /// buffer of the language: a load gives 0 and a store does nothing.
    pub(super) fn access_frame(self, op: Op, attr: &Attr, words: u32, args: &[Operand]) -> Vec<Operand> {
        let f = self.f;
        let Some(frames) = self.kernel.steps.as_ref().and_then(|steps| steps.frames) else {
            return Vec::new();
        };
        let word: U32<'b> = f.value(args[0]);
        let frame = match self.kernel.cells() {
            Some(_) => self.args.words / LINE,
            None => self.args.task,
        };
        let place = self.kernel.frame_place(f, frame, word);
        let place = match word.constant() {
            Some(known) if known.bits() < u64::from(words) => place,
            _ => f.select(word.lt(words), place, u32::MAX),
        };
        let mut args = args.to_vec();
        args[0] = builder::Arg::operand(place);
        let attr = match *attr {
            Attr::Atomic(_, order, scope) => Attr::Atomic(frames.handle(), order, scope),
            _ => Attr::Buffer(frames.handle()),
        };
        f.push_op(op, attr, args)
    }
}
