//! Batches of tasks that are run together.

use std::sync::Arc;

use pelton_device::Memory;
use pelton_device::memory::Line;

use crate::error::SubmitError;
use crate::kernel::layout::Layout;
use crate::kernel::{PROVIDED_OPS, PlaceSizes, Spec, Tenant, TenantId, check_provided, provided_index};
use crate::payload::Submission;
use crate::protocol::drained::BatchEntry;
use crate::protocol::priority::LEVELS;
use crate::protocol::slot::PRIORITY;
use crate::protocol::{Opcode, Slot, Status};
use crate::session::{check_payload, check_submittable};
use crate::task::Task;

use super::lines::BatchLines;
use super::payload::BatchPayloads;

/// Tasks that are run together, each stored as the slot that the kernel reads.
///
/// Every task is checked when it is added, so the whole batch is correct before any part of it is visible. The same
/// batch can be run any number of times. A batch from [`Drain::batch`](super::Drain::batch) lies in memory that the
/// device reads; any other batch is copied there in every run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    lines: BatchLines,
    payloads: BatchPayloads,
    /// The tenants with published tasks, one bit per tenant.
    tenants: u32,
    /// The number of slots per priority.
    levels: [usize; LEVELS],
    uses: BatchUses,
}

/// What the tasks of a batch use beyond their slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BatchUses {
    /// Whether some of the tasks are fences.
    pub fences: bool,
    /// Whether some of the tasks print.
    pub prints: bool,
    /// Whether one of the tasks ends the pass.
    pub ends: bool,
    /// The opcodes of [`PROVIDED_OPS`] among the tasks, one bit each.
    pub provided: u32,
}

impl BatchUses {
    /// Returns an error if there is a task whose operation the kernel does not have.
    pub(super) fn check_provided_ops(self, layout: &Layout) -> Result<(), SubmitError> {
        let used = (0..).zip(PROVIDED_OPS).filter(|(at, _)| self.provided >> at & 1 != 0);
        used.map(|(_, (op, _))| *op).try_for_each(|op| check_provided(op, layout))
    }

    /// Returns everything that one of the two batches uses.
    pub(super) fn union(self, other: BatchUses) -> BatchUses {
        BatchUses {
            fences: self.fences | other.fences,
            prints: self.prints | other.prints,
            ends: self.ends | other.ends,
            provided: self.provided | other.provided,
        }
    }
}

impl Batch {
    /// Returns a batch without tasks.
    pub fn new() -> Self {
        Batch::default()
    }

    /// Returns a batch without tasks that has room for this many.
    pub fn with_capacity(tasks: usize) -> Self {
        Batch { lines: BatchLines::Own(Vec::with_capacity(tasks)), ..Batch::default() }
    }

    /// Returns a batch without tasks in memory of a drain's device, with room for as many tasks as the ring has slots.
    pub(super) fn in_device_memory(memory: Memory, owner: &Arc<()>) -> Self {
        Batch { lines: BatchLines::in_device_memory(memory, owner), ..Batch::default() }
    }

    /// Adds a task of a tenant, or returns an error if the task can never run. A payload is copied, and a run refuses
    /// the batch if the payload is longer than the `Spec` of the drain allows.
    #[inline]
    pub fn push(&mut self, tenant: TenantId, task: impl Submission) -> Result<(), SubmitError> {
        let (slot, payload) = (self.len(), task.payload());
        if let Some(wait) = task.condition() {
            // A drained batch has no events.
            return Err(SubmitError::UnknownEvent { event: wait.event, events: 0 });
        }
        // How long a payload may be depends on the drain, which is not known here, but no drain takes a longer one.
        check_payload(PlaceSizes { payload: Spec::MAX_PLACE_BYTES, reply: 0 }, payload)?;
        let Task { op, priority, args } = task.task();
        self.push_entry(&BatchEntry { status: Status::Published, opcode: op, tenant, priority, args })?;
        self.payloads.push(slot, payload);
        Ok(())
    }

    /// Adds a slot with exactly these fields. The kernel runs slots that are PUBLISHED and leaves all others
    /// unchanged.
    #[inline]
    pub fn push_entry(&mut self, entry: &BatchEntry) -> Result<(), SubmitError> {
        if entry.tenant >= Tenant::MAX_TENANTS {
            return Err(SubmitError::UnknownTenant(entry.tenant));
        }
        if matches!(entry.status, Status::Cancelled | Status::Lost) {
            return Err(SubmitError::NotSubmittable(Opcode::CANCEL));
        }
        if entry.status == Status::Published {
            if entry.opcode.is_reserved() {
                self.note_builtin(entry.opcode)?;
            }
            self.tenants |= 1 << entry.tenant;
        }
        self.levels[entry.priority.code() as usize] += 1;
        self.lines.push(entry.encode().line());
        Ok(())
    }

    /// Checks an opcode of the protocol and notes what it uses. Whether the kernel has the operation is checked when the
    /// batch is run.
    fn note_builtin(&mut self, op: Opcode) -> Result<(), SubmitError> {
        if let Some(at) = provided_index(op) {
            self.uses.provided |= 1 << at;
        }
        match op {
            Opcode::SHUTDOWN => self.uses.ends = true,
            Opcode::BATCH_FENCE => self.uses.fences = true,
            Opcode::PRINTF => self.uses.prints = true,
            _ => check_submittable(op)?,
        }
        Ok(())
    }

    /// Returns the number of slots.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether the batch has no slots.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all tasks and keeps the memory.
    pub fn clear(&mut self) {
        let (mut lines, mut payloads) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.payloads));
        lines.clear();
        payloads.clear();
        *self = Batch { lines, payloads, ..Batch::default() };
    }

    /// Returns the slots of the batch in the order in which they were added.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = Slot> {
        self.lines.iter().map(Slot::from)
    }

    pub(super) fn lines(&self) -> &BatchLines {
        &self.lines
    }

    pub(super) fn payloads(&self) -> &BatchPayloads {
        &self.payloads
    }

    pub(super) fn tenants(&self) -> u32 {
        self.tenants
    }

    pub(super) fn levels(&self) -> &[usize; LEVELS] {
        &self.levels
    }

    pub(super) fn uses(&self) -> BatchUses {
        self.uses
    }
}

/// Returns the priority of a slot as an index.
pub(super) fn priority_level(line: &Line) -> usize {
    (line[PRIORITY as usize / 2] >> 32) as usize
}
