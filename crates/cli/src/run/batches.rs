//! Runs tasks in batches, one pass per batch.

use pelton::drain::Statistics;
use pelton::protocol::log;
use pelton::protocol::priority::LEVELS;
use pelton::{Batch, Claim, Drain, Opcode, SubmitError};

use super::intake::{Halt, TaskSink};
use super::output::ResultOutput;
use super::results::{ResultWriter, TaskMark};
use super::task::TaskOrder;
use crate::error::CliError;
use crate::term::Term;

/// The largest number of tasks in a batch.
const MOST: usize = 1 << 16;

/// Collects tasks into batches, and runs them.
pub(super) struct BatchFeed<'a, 'n, O> {
    drain: &'a mut Drain,
    term: &'a Term,
    results: &'a mut ResultWriter<'n, O>,
    batch: Batch,
    /// Room for the longest reply.
    reply: Vec<u8>,
    marks: Vec<TaskMark>,
    /// The number of the batch's tasks, by level.
    levels: [u32; LEVELS],
    /// The number of the batch's tasks that may print.
    prints: u32,
    /// The statistics of all batches.
    pub statistics: Option<Statistics>,
}

impl<'a, 'n, O: ResultOutput> BatchFeed<'a, 'n, O> {
    pub(super) fn new(drain: &'a mut Drain, term: &'a Term, results: &'a mut ResultWriter<'n, O>) -> Self {
        let reply = vec![0; drain.layout().places.reply as usize];
        BatchFeed {
            drain,
            term,
            results,
            batch: Batch::new(),
            reply,
            marks: Vec::new(),
            levels: [0; LEVELS],
            prints: 0,
            statistics: None,
        }
    }
}

impl<O: ResultOutput> TaskSink for BatchFeed<'_, '_, O> {
    fn begin_chunk(&mut self) {}

    fn check(&mut self, order: &TaskOrder) -> Result<(), String> {
        // A shutdown would end the pass at an arbitrary line.
        if order.task.op == Opcode::SHUTDOWN {
            return Err(SubmitError::NotSubmittable(order.task.op).to_string());
        }
        // Graphs need no check here, because a spec that has any cannot be drained.
        if order.after.is_some() {
            return Err("a drained batch has no events; set lifetime = \"persistent\" in the spec".into());
        }
        let task = order.task.bytes(&order.payload);
        self.drain.check_task(order.tenant, &task).map_err(|error| error.to_string())
    }

    fn push(&mut self, order: TaskOrder, line: u64) -> Result<(), Halt> {
        let TaskOrder { mut task, tenant, payload, reply_form, .. } = order;
        let prints = task.op == Opcode::PRINTF;
        if self.batch.len() == MOST || prints && self.prints == log::CAPACITY {
            self.settle()?;
        }
        let owned = self.drain.spec().claim == Claim::Owned;
        let level = if owned { 0 } else { task.priority.code() as usize };
        if task.op == Opcode::BATCH_FENCE {
            // The tasks of earlier batches have ended, so the fence need not wait for them.
            task.args[0] = task.args[0].min(self.levels[level]);
        }
        self.levels[level] += 1;
        self.prints += u32::from(prints);
        self.batch.push(tenant, task.bytes(&payload))?;
        self.marks.push(TaskMark { line, op: task.op, tenant, graph: None, after: None, reply_form });
        Ok(())
    }

    fn pause(&mut self) -> Result<(), Halt> {
        Ok(())
    }

    fn progress(&mut self) -> Result<(), Halt> {
        self.settle()
    }

    fn settle(&mut self) -> Result<(), Halt> {
        if self.batch.is_empty() {
            return Ok(self.results.flush()?);
        }
        let readback = self.drain.run(&self.batch)?;
        let missing = || CliError::Wrong("the pass returned no results".into());
        let mut written = Ok(());
        for (at, (mark, result)) in
            self.marks.iter().zip(readback.outcomes().ok_or_else(missing)?).enumerate()
        {
            // All of the tasks have ended and count, even if a result cannot be written.
            let len = readback.reply_bytes(at, &mut self.reply).map_or(0, |reply| reply.unwrap_or(0));
            written = written.and(self.results.write(*mark, result, &self.reply[..len]));
        }
        match &mut self.statistics {
            Some(all) => add_statistics(all, readback.statistics()),
            None => self.statistics = Some(readback.statistics().clone()),
        }
        if self.prints > 0 {
            for line in self.drain.log()? {
                self.term.note(line);
            }
        }
        self.batch.clear();
        self.marks.clear();
        (self.levels, self.prints) = ([0; LEVELS], 0);
        written?;
        Ok(self.results.flush()?)
    }

    fn idle(&self) -> bool {
        self.batch.is_empty()
    }

    fn total(&self) -> u64 {
        self.results.ends.total()
    }
}

/// Adds the statistics of one batch to those of all.
fn add_statistics(all: &mut Statistics, one: &Statistics) {
    all.tasks += one.tasks;
    all.done += one.done;
    all.faults = all.faults.zip(one.faults).map(|(a, b)| a + b);
    all.left += one.left;
    all.epoch += one.epoch;
    all.lost += one.lost;
    all.passes += one.passes;
    all.wall += one.wall;
    for (all, one) in [
        (&mut all.opcodes, &one.opcodes),
        (&mut all.tenants, &one.tenants),
        (&mut all.priorities, &one.priorities),
    ] {
        for (all, one) in all.iter_mut().zip(one) {
            all.count += one.count;
        }
    }
}
