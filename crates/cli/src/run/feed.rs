//! Tasks into a session.

use std::io::Write;

use pelton::kernel::TenantId;
use pelton::protocol::log;
use pelton::{Aim, Opcode, Priority, Producer, Session, SubmitError, Task};

use super::intake::{Halt, TaskSink, halt_if_pressed};
use super::results::TaskMark;
use super::submitted::SubmittedSpans;
use super::task::TaskOrder;
use crate::term::Term;

/// The most tasks that are submitted at once.
const MOST: usize = 256;

/// Feeds a session.
pub struct SessionFeed<'a, 'n, W> {
    session: &'a Session,
    term: &'a Term,
    submitted: &'a mut SubmittedSpans<'n, W>,
    producers: Vec<Producer>,
    /// Tasks of one tenant and one priority, to be submitted at once.
    tasks: Vec<Task>,
    marks: Vec<TaskMark>,
    tenant: TenantId,
    priority: Priority,
    most: usize,
    /// Tasks that may have printed since the log was read.
    prints: u32,
}

impl<'a, 'n, W: Write> SessionFeed<'a, 'n, W> {
    pub fn new(session: &'a Session, term: &'a Term, submitted: &'a mut SubmittedSpans<'n, W>) -> Self {
        SessionFeed {
            session,
            term,
            submitted,
            producers: Vec::new(),
            tasks: Vec::new(),
            marks: Vec::new(),
            tenant: 0,
            priority: Priority::Normal,
            most: MOST.min(session.layout().largest_stripe() as usize),
            prints: 0,
        }
    }

    /// Submits what is in hand.
    fn submit_tasks(&mut self) -> Result<(), Halt> {
        let Some(producer) = self.producers.iter_mut().find(|p| p.tenant() == self.tenant) else {
            return Ok(());
        };
        while !self.tasks.is_empty() {
            match producer.submit_all(self.tasks.iter().copied()) {
                Ok(span) => {
                    self.tasks.clear();
                    self.submitted.add(span, &mut self.marks);
                }
                Err(SubmitError::Full { .. }) => {
                    halt_if_pressed()?;
                    if !self.submitted.collect()? {
                        self.submitted.wait();
                    }
                }
                Err(SubmitError::Ended(_)) => return Err(Halt::Lost),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Shows what tasks have printed.
    fn show_log(&mut self) -> Result<(), Halt> {
        if self.prints > 0 {
            for line in self.session.log()? {
                self.term.note(line);
            }
        }
        Ok(())
    }
}

impl<W: Write> TaskSink for SessionFeed<'_, '_, W> {
    fn check(&mut self, order: &TaskOrder) -> Result<(), String> {
        let at = match self.producers.iter().position(|p| p.tenant() == order.tenant) {
            Some(at) => at,
            None => {
                let producer = self.session.producer(order.tenant).map_err(|error| error.to_string())?;
                // A fence finds the tasks before it where they are, so they all go one way.
                self.producers.push(producer.aim(Aim::Throughput));
                self.producers.len() - 1
            }
        };
        self.producers[at].check(&order.task).map_err(|error| error.to_string())
    }

    fn push(&mut self, order: TaskOrder, line: u64) -> Result<(), Halt> {
        let TaskOrder { mut task, tenant } = order;
        let other = self.tenant != tenant || self.priority != task.priority;
        if other || self.tasks.len() >= self.most {
            self.submit_tasks()?;
            (self.tenant, self.priority) = (tenant, task.priority);
        }
        if task.op == Opcode::BATCH_FENCE && task.args[0] as usize > self.tasks.len() {
            // What it fences may stand in several stripes. When all before it have ended, there is nothing to wait for.
            self.settle()?;
            task.args[0] = 0;
        }
        if task.op == Opcode::PRINTF {
            if self.prints == log::CAPACITY {
                self.settle()?;
            }
            self.prints += 1;
        }
        self.tasks.push(task);
        self.marks.push(TaskMark { line, op: task.op });
        Ok(())
    }

    fn pause(&mut self) -> Result<(), Halt> {
        self.submit_tasks()?;
        self.submitted.collect()?;
        if self.submitted.is_empty() {
            self.submitted.results.flush()?;
        }
        Ok(())
    }

    fn progress(&mut self) -> Result<(), Halt> {
        if !self.submitted.collect()? {
            self.submitted.results.flush()?;
            self.submitted.wait();
        }
        if self.submitted.is_empty() {
            self.submitted.results.flush()?;
        }
        self.show_log()
    }

    fn settle(&mut self) -> Result<(), Halt> {
        self.submit_tasks()?;
        while !self.submitted.is_empty() {
            halt_if_pressed()?;
            self.progress()?;
        }
        self.submitted.results.flush()?;
        self.show_log()?;
        self.prints = 0;
        Ok(())
    }

    fn idle(&self) -> bool {
        self.submitted.is_empty()
    }

    fn total(&self) -> u64 {
        self.submitted.results.ends.total()
    }
}
