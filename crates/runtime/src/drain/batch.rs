//! Tasks that are run together.

use std::sync::Arc;

use pelton_device::Memory;
use pelton_device::memory::Line;

use crate::error::SubmitError;
use crate::kernel::{Tenant, TenantId};
use crate::protocol::drained::BatchEntry;
use crate::protocol::priority::LEVELS;
use crate::protocol::slot::PRIORITY;
use crate::protocol::{Opcode, Slot, Status};
use crate::session::submittable;
use crate::task::Task;

use super::lines::BatchLines;

/// Tasks that are run together, each as the slot that the kernel will find.
///
/// A task is checked when it is put in, so a batch is right as a whole before anything of it is visible. The same batch can be run
/// any number of times. One that [`Drain::batch`](super::Drain::batch) gives lies where the device reads it; any other is copied there
/// with every run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    lines: BatchLines,
    /// Who has published tasks, a bit each.
    tenants: u32,
    /// Slots by priority.
    levels: [usize; LEVELS],
    uses: BatchUses,
}

/// What the tasks of a batch touch beyond their slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BatchUses {
    /// Some are fences.
    pub fences: bool,
    /// Some print.
    pub prints: bool,
    /// One ends the pass.
    pub ends: bool,
}

impl BatchUses {
    /// What either touches.
    pub fn union(self, other: BatchUses) -> BatchUses {
        BatchUses {
            fences: self.fences | other.fences,
            prints: self.prints | other.prints,
            ends: self.ends | other.ends,
        }
    }
}

impl Batch {
    /// No tasks yet.
    pub fn new() -> Self {
        Batch::default()
    }

    /// No tasks yet, and room for so many.
    pub fn with_capacity(tasks: usize) -> Self {
        Batch { lines: BatchLines::Own(Vec::with_capacity(tasks)), ..Batch::default() }
    }

    /// No tasks yet, and memory of a drain's device for as many as its ring has slots.
    pub(super) fn in_device_memory(memory: Memory, owner: &Arc<()>) -> Self {
        Batch { lines: BatchLines::in_device_memory(memory, owner), ..Batch::default() }
    }

    /// Puts in a task of a tenant's.
    #[inline]
    pub fn push(&mut self, tenant: TenantId, task: Task) -> Result<(), SubmitError> {
        let Task { op, priority, args } = task;
        self.push_entry(&BatchEntry { status: Status::Published, opcode: op, tenant, priority, args })
    }

    /// Puts in a slot as it is. The kernel runs those that are PUBLISHED, and leaves all others alone.
    #[inline]
    pub fn push_entry(&mut self, entry: &BatchEntry) -> Result<(), SubmitError> {
        if entry.tenant >= Tenant::MAX_TENANTS {
            return Err(SubmitError::Tenant(entry.tenant));
        }
        if entry.status == Status::Cancelled {
            return Err(SubmitError::Opcode(Opcode::CANCEL));
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

    /// Checks an opcode that is built in, and notes what it touches.
    fn note_builtin(&mut self, op: Opcode) -> Result<(), SubmitError> {
        match op {
            Opcode::SHUTDOWN => self.uses.ends = true,
            Opcode::BATCH_FENCE => self.uses.fences = true,
            Opcode::PRINTF => self.uses.prints = true,
            _ => submittable(op)?,
        }
        Ok(())
    }

    /// How many slots.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes all tasks out, and keeps the memory.
    pub fn clear(&mut self) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.clear();
        *self = Batch { lines, ..Batch::default() };
    }

    /// The ring of the batch, in the order in which it was filled.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = Slot> {
        self.lines.iter().map(Slot::from)
    }

    pub(super) fn lines(&self) -> &BatchLines {
        &self.lines
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

/// The level of a slot.
pub(super) fn priority_level(line: &Line) -> usize {
    (line[PRIORITY as usize / 2] >> 32) as usize
}
