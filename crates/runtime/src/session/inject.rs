//! Ways to make things go wrong between host and kernel, so that tests can see what the other side makes of it: lines
//! with a wrong bit, as a torn or stale write would leave them, slots that name a wrong cell, asks that come too early
//! or too late, records that the kernel has not posted, and a host that shows no sign of life.

use std::sync::atomic::Ordering;

use super::Session;
use super::cells::{CellAsk, line_in_cell, publish_line};
use super::producer::Producer;
use super::rings::Stripe;
use super::ticket::Ticket;
use crate::error::{Error, SubmitError};
use crate::kernel::BufferId;
use crate::kernel::cells::{CELL_SHIFT, cell_state};
use crate::protocol::CompletionRecord;
use crate::protocol::record::TaskEnd;
use crate::protocol::slot::{self, generation_at};
use crate::ring::SlotLines;
use crate::task::Task;

impl Producer {
    /// Submits a task with one wrong bit in the 512 bits of its line. Bit 0 is the lowest bit of word 0.
    pub fn submit_torn(&mut self, task: Task, bit: u32) -> Result<Ticket, SubmitError> {
        self.submit_with(task, |to, position, task| {
            let mut line =
                slot::published_line(generation_at(position, to.log2), task.op, task.priority, &task.args);
            flip_bit(&mut line, bit);
            to.lines.flush();
            to.lines.put(to.slot_at(position), &line);
        })
    }

    /// Submits a task in a slot that names this cell, or none, whatever the task's handler is. The number counts the
    /// cells of all producers. The ticket is that of the slot.
    pub fn submit_with_cell(&mut self, task: Task, cell: Option<u32>) -> Result<Ticket, SubmitError> {
        self.submit_with(task, |to, position, task| match cell {
            Some(cell) => {
                let line = line_in_cell(to, position, task, (cell, false));
                publish_line(to, position, &line);
            }
            None => to.publish(position, task),
        })
    }

    /// Submits a task in a slot that names this cell, or none, and that says that the task waits for an event before its first
    /// step. The word is what the host has written as the condition, if the session has events and the cell is that of a
    /// producer. The ticket is that of the slot.
    pub fn submit_with_condition(
        &mut self,
        task: Task,
        cell: Option<u32>,
        condition: u64,
    ) -> Result<Ticket, SubmitError> {
        let cells = self.share.rings.cells.as_ref();
        if let Some((cells, cell)) = cells.zip(cell) {
            cells.write_condition(cell, condition);
        }
        // A number that no cell can have is written as that of no cell.
        let cell = cell.unwrap_or(u32::MAX >> CELL_SHIFT);
        self.submit_with(task, |to, position, task| {
            publish_line(to, position, &line_in_cell(to, position, task, (cell, true)));
        })
    }
}

impl Ticket {
    /// Posts the record of the task in place of the kernel, as one that ended well with this result. The kernel must not take
    /// the task meanwhile.
    pub fn post_result(&mut self, result: u32) {
        let (_, stripe) = self.slot_owner();
        let generation = generation_at(self.position(), stripe.ring.log2);
        let record = CompletionRecord::new(TaskEnd::Done(result), generation);
        stripe.ring.done[stripe.ring.slot_at(self.position())].store(record.0, Ordering::Release);
    }
}

impl Session {
    /// Lets the cells of all producers that are not in use count their generations from a number on, as if each had been
    /// used so often. No cell may have been used before.
    ///
    /// # Errors
    ///
    /// Those of the device.
    pub fn count_generations_from(&self, generation: u64) -> Result<(), Error> {
        let Some(cells) = &self.rings().cells else { return Ok(()) };
        cells.count_generations_from(generation);
        let state = (generation & u64::from(slot::GENERATION_MASK)) << cell_state::GENERATION_SHIFT;
        let kernel = self.kernel();
        let states = kernel.memories.need(BufferId::CellStates)?;
        Ok(states.upload(0, &vec![state; states.len()])?)
    }

    /// Stops renewing the lease of the kernel, as if the host were held by a debugger.
    pub fn stop_renewing(&self) {
        self.rings().wait_list.close();
    }
}

impl Ticket {
    /// Writes the line of the task again with one bit flipped, which repairs what [`Producer::submit_torn`] broke.
    pub fn flip_bit(&self, bit: u32) {
        let (share, Stripe { ring, .. }) = self.slot_owner();
        let at = ring.slot_at(self.position());
        let mut line = ring.lines.line(at);
        flip_bit(&mut line, bit);
        ring.lines.flush();
        ring.lines.put(at, &line);
        share.served.wake();
    }

    /// Asks that the task end which has the same cell so many generations later, or earlier if the number is negative.
    pub fn cancel_generation(&self, later: i64) {
        self.ask_generation(later, CellAsk::Cancel);
    }

    /// Asks that the task begin no further step which has the same cell so many generations later.
    pub fn pause_generation(&self, later: i64) {
        self.ask_generation(later, CellAsk::Pause);
    }

    /// Asks that the task go on which has the same cell so many generations later.
    pub fn resume_generation(&self, later: i64) {
        self.ask_generation(later, CellAsk::Resume);
    }

    fn ask_generation(&self, later: i64, what: CellAsk) {
        let (share, stripe) = self.slot_owner();
        let position = self.position().wrapping_add_signed(later << stripe.ring.log2);
        share.ask_cell(stripe, position, what);
    }
}

fn flip_bit(line: &mut pelton_device::memory::Line, bit: u32) {
    line[bit as usize / 64 % line.len()] ^= 1 << (bit % 64);
}
