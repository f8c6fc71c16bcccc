//! What adapted handlers do with other tasks: they spawn children, signal events and ask to wait for either.

use pelton_ir::types::{Order, Scope};

use super::HandlerTask;
use crate::kernel::context::{LINE, U32};
use crate::kernel::event;
use crate::kernel::handler::Width;
use crate::kernel::spawn::{self, ChildTask, MAX_CHILDREN_PER_STEP, attempt};
use crate::kernel::steps::outcome;
use crate::kernel::tree::tree_word;
use crate::protocol::FaultCode;
use crate::protocol::priority::LEVELS;

impl<'b> HandlerTask<'b, '_> {
    /// The task's cell.
    fn cell(self) -> U32<'b> {
        self.args.words / LINE
    }

    /// Writes code that gives a number and runs once, however many lanes run the task. All lanes get the number.
    fn once_for_all(self, body: impl FnOnce() -> U32<'b>) -> U32<'b> {
        let f = self.f;
        match self.width {
            Width::Lane => body(),
            Width::Group => f.group_broadcast(f.choose(f.lane().eq(0), body, || f.lit(0)), 0),
        }
    }

    /// Writes what `reserve_children` does. A number that is not possible, and a second call in one step, are faults.
    pub(super) fn reserve_children(self, count: U32<'b>) -> U32<'b> {
        let (f, kernel) = (self.f, self.kernel);
        let Some(buffers @ (_, tree, _)) = kernel.spawning() else { return f.lit(0) };
        let place = self.args.task;
        self.once_for_all(|| {
            let possible = (count - 1).lt(MAX_CHILDREN_PER_STEP) & !spawn::has_children(f, tree, place);
            f.when(!possible, || self.record_fault(f.lit(FaultCode::ARGUMENTS.code())));
            let task = (place, self.cell(), self.args.tenant);
            let reserve = || spawn::reserve_cells(f, kernel, buffers, task, count);
            let found = f.choose(possible, reserve, || f.lit(attempt::NO_ROOM));
            f.when(found.eq(attempt::TOO_OFTEN), || self.record_fault(f.lit(FaultCode::POOL.code())));
            f.select(found.eq(attempt::RESERVED), 1, 0)
        })
    }

    /// Writes what `own_opcode` does.
    pub(super) fn own_opcode(self) -> U32<'b> {
        let (f, kernel) = (self.f, self.kernel);
        let Some(cells) = kernel.cells() else { return f.lit(0) };
        self.once_for_all(|| f.cast::<u32>(f.load(cells.lines.at(self.args.words)) >> 32))
    }

    /// Writes what `spawn` does. The arguments are the opcode, the level, the word of the frame for the result, and those of
    /// the child. A number that is no level stands for the level of the task itself. Without room that was reserved, it is a
    /// fault.
    pub(super) fn spawn_child(self, args: &[U32<'b>]) {
        let (f, kernel) = (self.f, self.kernel);
        let Some(buffers @ (cells, ..)) = kernel.spawning() else { return };
        let [op, level, result_word, rest @ ..] = args else { return };
        self.once_per_task(|| {
            let own = f.cast::<u32>(f.load(cells.lines.at(self.args.words + 1)) >> 32);
            let level = f.select(level.lt(LEVELS as u32), *level, own);
            let task = (self.args.task, self.cell(), self.args.tenant);
            let child = ChildTask { op: *op, level, result_word: *result_word, args: rest };
            let made = spawn::make_child(f, kernel, buffers, task, child);
            f.when(!made, || self.record_fault(f.lit(FaultCode::POOL.code())));
        });
    }

    /// Writes what `child_faults` does.
    pub(super) fn child_faults(self) -> U32<'b> {
        let f = self.f;
        let Some(tree) = &self.kernel.trees else { return f.lit(0) };
        let count = || {
            let faults = tree.link(self.cell(), tree_word::FAULTS);
            f.cast::<u32>(f.atomic_load(Order::Relaxed, Scope::Device, faults))
        };
        self.once_for_all(count)
    }

    /// Writes what `signal` does. An event that does not exist is a fault.
    pub(super) fn signal(self, event: U32<'b>, times: U32<'b>) {
        let f = self.f;
        self.once_per_task(|| {
            let known = self.check_event(event);
            f.when(known, || {
                let event = event::event_number(self.kernel, self.args.tenant, event);
                event::signal_event(f, self.kernel, event::Signaller::Task, (event, times));
            });
        });
    }

    /// Writes what `wait_event` does. An event that does not exist is a fault.
    pub(super) fn ask_to_wait_for_event(self, event: U32<'b>, count: U32<'b>) {
        let f = self.f;
        let Some(tree) = &self.kernel.trees else { return };
        self.once_per_task(|| {
            self.check_event(event);
            let event = event::event_number(self.kernel, self.args.tenant, event);
            let word = f.cast::<u64>(event) | f.cast::<u64>(count) << 32;
            f.store(tree.link(self.cell(), tree_word::WAIT), word);
        });
        self.ask_to_wait(outcome::EVENT);
    }

    /// Whether the tenant has an event of this number. If it has not, the task has a fault.
    fn check_event(self, event: U32<'b>) -> pelton_ir::builder::Val<'b, bool> {
        let known = event.lt(self.kernel.layout.trees.map_or(0, |trees| trees.events));
        self.f.when(!known, || self.record_fault(self.f.lit(FaultCode::ARGUMENTS.code())));
        known
    }
}
