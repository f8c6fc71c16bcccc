//! From lines to a session: reads, submits and takes results, all in one loop that never waits for one of them alone.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use pelton::kernel::TenantId;
use pelton::protocol::log;
use pelton::{Opcode, Priority, Producer, Session, SubmitError, Task};

use super::flights::{Flights, Mark};
use super::lines::{Chunk, Chunks};
use super::task::{self, Names};
use crate::error::Error;
use crate::stop;
use crate::term::Term;

/// How often Ctrl-C is looked for while nothing comes.
const GLANCE: Duration = Duration::from_millis(20);

/// The most tasks that are submitted at once.
const BATCH: usize = 256;

/// What becomes of the lines after a bad one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Bad {
    /// They are submitted; the bad line is left out
    Skip,
    /// They are not submitted; what came before is finished
    Stop,
}

/// Why the feeding ended before the lines did.
#[derive(Debug)]
pub enum Halt {
    /// A bad line.
    Bad,
    /// Ctrl-C.
    Interrupted,
    /// The kernel has ended by itself.
    Lost,
    /// Something failed.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Halt {
    fn from(error: E) -> Halt {
        Halt::Failed(error.into())
    }
}

/// Tasks of one tenant and one priority, to be submitted at once.
struct Batch {
    tenant: TenantId,
    priority: Priority,
    tasks: Vec<Task>,
    marks: Vec<Mark>,
}

/// A producer, and how many tasks it was given.
struct Fed {
    producer: Producer,
    count: u64,
}

/// Feeds a session.
pub struct Feed<'a, 'n, W> {
    session: &'a Session,
    names: &'n Names,
    term: &'a Term,
    flights: &'a mut Flights<'n, W>,
    bad: Bad,
    producers: Vec<Fed>,
    batch: Batch,
    most: usize,
    /// Tasks that may have printed since the log was read.
    prints: u32,
    /// Lines read so far.
    pub lines: u64,
    /// Bad ones among them.
    pub skipped: u64,
    /// Bytes read so far.
    pub bytes: u64,
}

impl<'a, 'n, W: Write> Feed<'a, 'n, W> {
    pub fn new(
        session: &'a Session,
        names: &'n Names,
        term: &'a Term,
        flights: &'a mut Flights<'n, W>,
        bad: Bad,
    ) -> Self {
        let batch = Batch { tenant: 0, priority: Priority::Normal, tasks: Vec::new(), marks: Vec::new() };
        let most = BATCH.min(session.layout().slots() as usize);
        Feed {
            session,
            names,
            term,
            flights,
            bad,
            producers: Vec::new(),
            batch,
            most,
            prints: 0,
            lines: 0,
            skipped: 0,
            bytes: 0,
        }
    }

    /// Feeds all lines, and finishes what was fed. `show` is told from time to time how far it is.
    pub fn run(&mut self, chunks: &Chunks, mut show: impl FnMut(u64, u64)) -> Result<(), Halt> {
        let mut shown = Instant::now();
        loop {
            unless_pressed()?;
            if shown.elapsed() > 4 * GLANCE {
                show(self.bytes, self.flights.ends.total());
                shown = Instant::now();
            }
            match self.next(chunks)? {
                Ok(Ok(chunk)) => match self.chunk(&chunk) {
                    Err(Halt::Bad) => {
                        self.settle()?;
                        return Err(Halt::Bad);
                    }
                    taken => taken?,
                },
                Ok(Err(error)) => {
                    self.settle()?;
                    return Err(Error::Input(error).into());
                }
                Err(RecvTimeoutError::Timeout) => self.progress()?,
                Err(RecvTimeoutError::Disconnected) => return self.settle(),
            }
        }
    }

    /// The next lines. It waits for them only while nothing is under way.
    fn next(&mut self, chunks: &Chunks) -> Result<Result<Chunk, RecvTimeoutError>, Halt> {
        if self.flights.is_empty() {
            self.flights.flush()?;
            return Ok(chunks.recv_timeout(GLANCE));
        }
        Ok(chunks.try_recv().map_err(|error| match error {
            TryRecvError::Empty => RecvTimeoutError::Timeout,
            TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
        }))
    }

    /// Takes lines in.
    fn chunk(&mut self, bytes: &[u8]) -> Result<(), Halt> {
        self.bytes += bytes.len() as u64;
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            self.lines += 1;
            let line = line.trim_ascii();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            match self.order(line) {
                Ok(order) => self.push(order)?,
                Err(why) => {
                    self.skipped += 1;
                    self.term.wrong(format_args!("line {}: {why}", self.lines));
                    if self.bad == Bad::Stop {
                        return Err(Halt::Bad);
                    }
                }
            }
        }
        self.submit()?;
        self.flights.collect()?;
        Ok(())
    }

    /// What a line asks for, if it can be submitted.
    fn order(&mut self, line: &[u8]) -> Result<task::Order, String> {
        let order = self.names.order(line)?;
        let at = match self.producers.iter().position(|fed| fed.producer.tenant() == order.tenant) {
            Some(at) => at,
            None => {
                let producer = self.session.producer(order.tenant).map_err(|error| error.to_string())?;
                self.producers.push(Fed { producer, count: 0 });
                self.producers.len() - 1
            }
        };
        let Fed { producer, count } = &mut self.producers[at];
        producer.check(&order.task).map_err(|error| error.to_string())?;
        // A task beyond the quota would wait for credit that nobody gives.
        let quota = self.names.quota(order.tenant);
        if quota > 0 && *count >= quota {
            return Err(format!("its tenant has a quota of {quota} tasks, and has used it"));
        }
        *count += 1;
        Ok(order)
    }

    /// Puts a task into the batch.
    fn push(&mut self, order: task::Order) -> Result<(), Halt> {
        let task::Order { mut task, tenant } = order;
        let Batch { tasks, .. } = &self.batch;
        let whole = tasks.len() >= self.most || self.batch.tenant != tenant;
        if whole || self.batch.priority != task.priority {
            self.submit()?;
            (self.batch.tenant, self.batch.priority) = (tenant, task.priority);
        }
        if task.op == Opcode::BATCH_FENCE && task.args[0] as usize > self.batch.tasks.len() {
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
        self.batch.tasks.push(task);
        self.batch.marks.push(Mark { line: self.lines, op: task.op });
        Ok(())
    }

    /// Submits the batch.
    fn submit(&mut self) -> Result<(), Halt> {
        let Batch { tenant, tasks, marks, .. } = &mut self.batch;
        let Some(fed) = self.producers.iter_mut().find(|fed| fed.producer.tenant() == *tenant) else {
            return Ok(());
        };
        while !tasks.is_empty() {
            match fed.producer.submit_all(tasks.iter().copied()) {
                Ok(span) => {
                    tasks.clear();
                    self.flights.add(span, marks);
                }
                Err(SubmitError::Full { .. }) => {
                    unless_pressed()?;
                    if !self.flights.collect()? {
                        self.flights.wait();
                    }
                }
                Err(SubmitError::Ended) => return Err(Halt::Lost),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes results, or waits a moment for some.
    fn progress(&mut self) -> Result<(), Halt> {
        if !self.flights.collect()? {
            self.flights.flush()?;
            self.flights.wait();
        }
        self.log()
    }

    /// Submits what is in hand, and waits until everything has ended.
    fn settle(&mut self) -> Result<(), Halt> {
        self.submit()?;
        while !self.flights.is_empty() {
            unless_pressed()?;
            if !self.flights.collect()? {
                self.flights.flush()?;
                self.flights.wait();
            }
        }
        self.flights.flush()?;
        self.log()?;
        self.prints = 0;
        Ok(())
    }

    /// Shows what tasks have printed.
    fn log(&mut self) -> Result<(), Halt> {
        if self.prints > 0 {
            for line in self.session.log()? {
                self.term.note(line);
            }
        }
        Ok(())
    }
}

fn unless_pressed() -> Result<(), Halt> {
    if stop::pressed() { Err(Halt::Interrupted) } else { Ok(()) }
}
