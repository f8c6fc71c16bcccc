//! What goes wrong between host and kernel, for tests of what the other side makes of it: lines with a wrong bit, as a torn or stale
//! write would leave them, and a host that does not say that it lives.

use std::sync::atomic::Ordering;

use super::Session;
use super::core::Stripe;
use super::producer::Producer;
use super::ticket::Ticket;
use crate::error::SubmitError;
use crate::protocol::slot::{self, generation};
use crate::ring::SlotLines;
use crate::task::Task;

impl Producer {
    /// Submits a task whose line has one wrong bit of its 512; bit 0 is the lowest of word 0.
    pub fn submit_torn(&mut self, task: Task, bit: u32) -> Result<Ticket, SubmitError> {
        self.submit_with(task, |to, position, task| {
            let mut line = slot::live(generation(position, to.log2), task.op, task.priority, &task.args);
            flip(&mut line, bit);
            to.lines.flush();
            to.lines.put(to.slot(position), &line);
        })
    }
}

impl Session {
    /// Ends the thread that renews the lease of the kernel, as if the host were stopped in a debugger.
    pub fn silence(&self) {
        self.core.closing.store(1, Ordering::Release);
        self.core.event.wake();
    }
}

impl Ticket {
    /// Writes its line again with one bit turned over: what [`Producer::submit_torn`] broke is mended.
    pub fn flip(&self, bit: u32) {
        let (core, Stripe { ring, .. }) = self.home();
        let at = ring.slot(self.place().1);
        let mut line = ring.lines.line(at);
        flip(&mut line, bit);
        ring.lines.flush();
        ring.lines.put(at, &line);
        core.run.wake();
    }
}

fn flip(line: &mut pelton_device::memory::Line, bit: u32) {
    line[bit as usize / 64 % line.len()] ^= 1 << (bit % 64);
}
