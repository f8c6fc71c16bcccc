//! Submits tasks to a session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton::kernel::TenantId;
use pelton::protocol::log;
use pelton::session::SessionGraph;
use pelton::{Aim, EventCondition, Opcode, Priority, Producer, Session, Spec, SubmitError, Task, TaskAfter};

use super::intake::{Halt, TaskSink, halt_if_pressed};
use super::output::ResultOutput;
use super::passing::{once_recovered, unless_passing};
use super::results::TaskMark;
use super::standstill::{FeedWait, StandstillWatch};
use super::submitted::SubmittedSpans;
use super::task::{TaskNames, TaskOrder};
use crate::term::Term;

/// The largest number of tasks that are submitted together.
const MOST: usize = 256;

/// The time that tasks have to end after they were cancelled because the run stands still.
const CANCEL_TIME: Duration = Duration::from_secs(10);

/// Collects tasks, and submits them to a session.
pub(super) struct SessionFeed<'a, 'n, O> {
    session: &'a Session,
    names: &'a TaskNames,
    /// The spec whose handlers the names are of.
    spec: Arc<Spec>,
    term: &'a Term,
    submitted: &'a mut SubmittedSpans<'n, O>,
    producers: Vec<Producer>,
    /// The graphs that the session was given, with their numbers in the spec.
    graphs: Vec<(usize, SessionGraph)>,
    /// Tasks of one tenant and one priority, which are submitted together.
    tasks: Vec<Task>,
    /// What these tasks wait for before they begin. Either all of them wait or none.
    conditions: Vec<EventCondition>,
    /// The payloads of these tasks, one after another, and where each ends.
    payloads: Vec<u8>,
    payload_ends: Vec<usize>,
    marks: Vec<TaskMark>,
    tenant: TenantId,
    priority: Priority,
    most: usize,
    /// The number of tasks that may have printed since the log was last read.
    prints: u32,
}

impl<'a, 'n, O: ResultOutput> SessionFeed<'a, 'n, O> {
    pub(super) fn new(
        session: &'a Session,
        names: &'a TaskNames,
        term: &'a Term,
        submitted: &'a mut SubmittedSpans<'n, O>,
    ) -> Self {
        SessionFeed {
            session,
            names,
            spec: session.spec(),
            term,
            submitted,
            producers: Vec::new(),
            graphs: Vec::new(),
            tasks: Vec::new(),
            conditions: Vec::new(),
            payloads: Vec::new(),
            payload_ends: Vec::new(),
            marks: Vec::new(),
            tenant: 0,
            priority: Priority::Normal,
            most: MOST.min(session.layout().largest_stripe() as usize).min(cells(session)),
            prints: 0,
        }
    }

    /// Submits the collected tasks, and waits for room if there is none.
    fn submit_tasks(&mut self) -> Result<(), Halt> {
        let mut watch = StandstillWatch::new();
        while !self.tasks.is_empty() {
            let line = self.marks.first().map_or(0, |mark| mark.line);
            let wait = match self.try_submit(self.tasks.len()) {
                Ok(()) => return Ok(()),
                Err(SubmitError::Full { .. }) => FeedWait::Slots(line),
                Err(SubmitError::NoCells { .. }) => {
                    // Tasks that need no cell do not wait for one, because they may signal what others wait for.
                    let first = self.leading_without_cells();
                    if first > 0 && self.try_submit(first).is_ok() {
                        continue;
                    }
                    FeedWait::Cells(line)
                }
                Err(SubmitError::Ended(_)) => return Err(Halt::Lost),
                Err(error) => return Err(error.into()),
            };
            halt_if_pressed()?;
            if !self.submitted.collect()? {
                self.halt_if_still(&mut watch, wait)?;
                self.submitted.wait();
            }
        }
        Ok(())
    }

    /// How many of the collected tasks need no cell and stand before the first one that needs one. It is 0 if a fence is
    /// among the collected tasks, because a fence is submitted together with the tasks that it waits for.
    fn leading_without_cells(&self) -> usize {
        let needs_cell = |task: &Task| self.session.layout().resumable_ops.contains(&task.op);
        match self.conditions.is_empty() && self.tasks.iter().all(|task| task.op != Opcode::BATCH_FENCE) {
            true => self.tasks.iter().take_while(|task| !needs_cell(task)).count(),
            false => 0,
        }
    }

    /// Submits the first `count` of the collected tasks if there is room for them.
    fn try_submit(&mut self, count: usize) -> Result<(), SubmitError> {
        let Some(producer) = self.producers.iter_mut().find(|p| p.tenant() == self.tenant) else {
            return Ok(());
        };
        let bytes = |at: usize| {
            let start = at.checked_sub(1).map_or(0, |last| self.payload_ends[last]);
            &self.payloads[start..self.payload_ends[at]]
        };
        let tasks = self.tasks[..count].iter().enumerate().map(|(at, task)| task.bytes(bytes(at)));
        let span = match self.conditions.is_empty() {
            true => producer.submit_all(tasks),
            false => {
                let waits = tasks.zip(&self.conditions);
                producer.submit_all(waits.map(|(submission, &condition)| TaskAfter { submission, condition }))
            }
        }?;
        let end = self.payload_ends[count - 1];
        self.tasks.drain(..count);
        self.conditions.drain(..count.min(self.conditions.len()));
        self.payloads.drain(..end);
        self.payload_ends.drain(..count);
        self.payload_ends.iter_mut().for_each(|at| *at -= end);
        let later = self.marks.split_off(count);
        self.submitted.add(span, &mut self.marks);
        self.marks.extend(later);
        Ok(())
    }

    /// Halts if the run stands still. Tasks that wait are cancelled, and their results are collected.
    fn halt_if_still(&mut self, watch: &mut StandstillWatch, wait: FeedWait) -> Result<(), Halt> {
        let unfinished = || self.submitted.unfinished();
        let Some(why) = watch.look(self.session, self.names, unfinished, wait)? else { return Ok(()) };
        self.submitted.cancel();
        let cancelled = Instant::now();
        while !self.submitted.is_empty() && cancelled.elapsed() < CANCEL_TIME {
            halt_if_pressed()?;
            self.progress()?;
        }
        Err(Halt::Standstill(why))
    }

    /// Submits the collected tasks, and waits until every task has ended and its result is written.
    fn settle_for(&mut self, wait: FeedWait) -> Result<(), Halt> {
        self.submit_tasks()?;
        let mut watch = StandstillWatch::new();
        while !self.submitted.is_empty() {
            halt_if_pressed()?;
            self.progress()?;
            self.halt_if_still(&mut watch, wait)?;
        }
        self.submitted.results.flush()?;
        self.show_log()?;
        self.prints = 0;
        Ok(())
    }

    /// The task of a line. A graph is given to the session when it is launched for the first time.
    fn complete_task(&mut self, order: &TaskOrder) -> Result<Task, pelton::Error> {
        let Some(number) = order.graph else { return Ok(order.task) };
        let known = self.graphs.iter().position(|(of, graph)| (*of, graph.tenant) == (number, order.tenant));
        let at = match known {
            Some(at) => at,
            None => {
                let add = || self.session.add_graph(order.tenant, self.names.graph(number));
                let graph = once_recovered(self.session, add)?;
                self.graphs.push((number, graph));
                self.graphs.len() - 1
            }
        };
        let graph = &self.graphs[at].1;
        let launch = graph.launch(&order.task.args[..graph.parameters as usize])?;
        Ok(launch.priority(order.task.priority))
    }

    /// Shows the lines that tasks have printed.
    fn show_log(&mut self) -> Result<(), Halt> {
        if self.prints > 0 {
            // What was printed and not read is lost with the device.
            for line in unless_passing(self.session, self.session.log())?.into_iter().flatten() {
                self.term.note(line);
            }
        }
        Ok(())
    }
}

impl<O: ResultOutput> TaskSink for SessionFeed<'_, '_, O> {
    fn begin_chunk(&mut self) {
        // The session may have been handed over since the last lines.
        let spec = self.session.spec();
        if !Arc::ptr_eq(&spec, &self.spec) {
            self.names.update_handlers(&spec);
            self.spec = spec;
        }
    }

    fn check(&mut self, order: &TaskOrder) -> Result<(), String> {
        let at = match self.producers.iter().position(|p| p.tenant() == order.tenant) {
            Some(at) => at,
            None => {
                let producer = self.session.producer(order.tenant).map_err(|error| error.to_string())?;
                // A fence must find the tasks before it in the same rings, so all tasks have the same aim.
                self.producers.push(producer.aim(Aim::Throughput));
                self.producers.len() - 1
            }
        };
        let task = self.complete_task(order).map_err(|error| error.to_string())?.bytes(&order.payload);
        let checked = match order.after {
            None => self.producers[at].check_task(&task),
            Some(EventCondition { event, count }) => self.producers[at].check_task(&task.after(event, count)),
        };
        checked.map_err(|error| error.to_string())
    }

    fn push(&mut self, order: TaskOrder, line: u64) -> Result<(), Halt> {
        let mut task = self.complete_task(&order)?;
        let TaskOrder { graph, after, tenant, payload, reply_form, .. } = order;
        let other = self.tenant != tenant || self.priority != task.priority;
        let other = other || self.conditions.is_empty() == after.is_some();
        if other || self.tasks.len() >= self.most {
            self.submit_tasks()?;
            (self.tenant, self.priority) = (tenant, task.priority);
        }
        if task.op == Opcode::BATCH_FENCE && task.args[0] as usize > self.tasks.len() {
            // The tasks that the fence waits for may lie in several stripes. Once all tasks before it have ended,
            // the fence need not wait for any.
            self.settle_for(FeedWait::AllBefore(line))?;
            task.args[0] = 0;
        }
        if task.op == Opcode::PRINTF {
            if self.prints == log::CAPACITY {
                self.settle_for(FeedWait::AllBefore(line))?;
            }
            self.prints += 1;
        }
        self.tasks.push(task);
        self.conditions.extend(after);
        self.payloads.extend(payload);
        self.payload_ends.push(self.payloads.len());
        self.marks.push(TaskMark { line, op: task.op, tenant, graph, after, reply_form });
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
        self.settle_for(FeedWait::InputEnd)
    }

    fn idle(&self) -> bool {
        self.submitted.is_empty()
    }

    fn total(&self) -> u64 {
        self.submitted.results.ends.total()
    }
}

/// How many resumable tasks a producer can have under way at once. There is no limit if no task is resumable.
fn cells(session: &Session) -> usize {
    session.layout().steps.map_or(usize::MAX, |steps| steps.producer_cells as usize)
}
