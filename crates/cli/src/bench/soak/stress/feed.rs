//! A producer of the load `stress`: it submits tasks in batches, cancels, pauses, resumes and drops some of them, and
//! checks how each of them ended and what it left.
//!
//! Two batches are under way at a time. Nobody learns how a task ends whose ticket was dropped, so its row or block is
//! checked only when the session says that all tasks submitted so far have ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pelton::{Priority, Producer, Session, SessionGraph, Task, TaskError, TenantId, Ticket};

use super::handlers::{StressOps, row_word};
use super::job::{EventOf, Job, JobEnd, JobKind, Row};
use super::plan::{BLOCKS, ROWS, StressPlan};
use crate::bench::flood::PATIENCE;
use crate::bench::soak::aim_of;
use crate::bench::soak::random_graph::{PARAMETERS, Ran, Random, RandomGraph};
use crate::bench::soak::workers::SoakProgress;
use crate::error::CliError;

/// The number of tasks per batch.
pub(super) const BATCH: u32 = 64;
/// The number of graphs that a producer has.
const GRAPHS: u32 = 3;
/// The number of words of a row.
const WIDTH: usize = row_word::WORDS as usize;
/// How long a task may wait before its producer does something about it.
const SHORT: Duration = Duration::from_micros(500);

/// What a task was submitted for, and where it leaves what it does.
#[derive(Clone, Copy, Debug)]
enum Errand {
    Job {
        job: Job,
        row: u32,
    },
    /// A launch of one of the producer's graphs.
    Launch {
        graph: usize,
        block: u32,
        parameters: [u32; PARAMETERS as usize],
    },
}

impl Errand {
    /// Whether only the ticket says if the task ran.
    fn leaves_nothing(&self) -> bool {
        matches!(self, Errand::Job { job, .. } if matches!(job.kind, JobKind::BuiltInSignal { .. }))
    }
}

/// A task whose ticket the producer holds.
struct Flight {
    ticket: Ticket,
    errand: Errand,
    cancelled: bool,
    paused: bool,
}

/// What a producer knows of an event.
#[derive(Clone, Copy, Debug)]
struct EventAccount {
    /// The number of the event.
    number: u32,
    /// How often this producer and its tasks have signalled it.
    sent: u32,
    /// How often it was signalled at least.
    known: u32,
    /// How often it has to be signalled so that no task of this producer waits any more.
    needed: u32,
}

impl EventAccount {
    fn new(number: u32) -> Self {
        EventAccount { number, sent: 0, known: 0, needed: 0 }
    }

    /// Notes signals that have come.
    fn note_signals(&mut self, times: u32) {
        self.sent += times;
        self.known = self.known.max(self.sent);
    }
}

/// A task that has ended, or whose ticket was dropped.
struct EndedTask {
    errand: Errand,
    cancelled: bool,
    /// How the task ended, or `None` if its ticket was dropped.
    end: Option<Result<u32, TaskError>>,
}

/// How many tasks a producer has submitted, and what became of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FeedTotals {
    pub submitted: u64,
    pub launches: u64,
    pub cancelled: u64,
    pub dropped: u64,
    pub faults: u64,
}

impl FeedTotals {
    pub(super) fn and(self, other: FeedTotals) -> FeedTotals {
        FeedTotals {
            submitted: self.submitted + other.submitted,
            launches: self.launches + other.launches,
            cancelled: self.cancelled + other.cancelled,
            dropped: self.dropped + other.dropped,
            faults: self.faults + other.faults,
        }
    }
}

/// What a producer leaves.
pub(super) struct FeedEnd {
    /// What its rows hold.
    pub rows: Vec<Row>,
    /// How often it and its tasks have signalled the event that all producers of its tenant share.
    pub shared_signals: u64,
    pub totals: FeedTotals,
}

/// A producer of the load.
pub(super) struct StressFeed<'s> {
    session: &'s Session,
    ops: StressOps,
    plan: StressPlan,
    /// The number of the producer, which is also that of its event.
    index: u32,
    tenant: TenantId,
    producer: Producer,
    random: Random,
    graphs: Vec<(RandomGraph, SessionGraph)>,
    free_rows: Vec<u32>,
    free_blocks: Vec<u32>,
    /// Tasks whose tickets were dropped, and whose rows or blocks were not checked yet.
    dropped: Vec<EndedTask>,
    /// What the rows hold, as far as the producer knows.
    rows: Vec<Row>,
    events: [EventAccount; EventOf::ALL.len()],
    totals: FeedTotals,
}

impl<'s> StressFeed<'s> {
    pub(super) fn new(
        session: &'s Session,
        ops: StressOps,
        plan: StressPlan,
        (index, seed): (u32, u64),
    ) -> Result<Self, CliError> {
        let tenant = plan.tenant(index);
        let mut feed = StressFeed {
            session,
            ops,
            plan,
            index,
            tenant,
            producer: session.producer(tenant)?.patience(PATIENCE).aim(aim_of(index)),
            random: Random::new(seed.wrapping_add(u64::from(index))),
            graphs: Vec::new(),
            free_rows: (0..ROWS).collect(),
            free_blocks: (0..BLOCKS).collect(),
            dropped: Vec::new(),
            rows: vec![Row::default(); ROWS as usize],
            events: [index, plan.shared_event()].map(EventAccount::new),
            totals: FeedTotals::default(),
        };
        for _ in 0..GRAPHS {
            let graph = feed.new_graph()?;
            feed.graphs.push(graph);
        }
        Ok(feed)
    }

    /// Submits batches until enough tasks have run, and checks all of them.
    /// `submitted` is the number of tasks that all producers have submitted.
    pub(super) fn run(
        &mut self,
        tasks: u64,
        progress: &SoakProgress,
        submitted: &AtomicU64,
    ) -> Result<(), CliError> {
        let mut before = Vec::new();
        while progress.goes_on() && progress.done() < tasks {
            if self.free_rows.len() < BATCH as usize {
                self.settle(std::mem::take(&mut before))?;
                self.check_dropped()?;
            }
            let batch = self.submit_batch()?;
            submitted.fetch_add(BATCH.into(), Ordering::Relaxed);
            self.settle(std::mem::replace(&mut before, batch))?;
        }
        self.settle(before)?;
        self.check_dropped()
    }

    /// Checks that the producer's event was signalled as often as it must have been, and takes the graphs away. Returns
    /// what the producer leaves.
    pub(super) fn finish(self) -> Result<FeedEnd, CliError> {
        let [own, shared] = self.events;
        check_event(self.session, self.tenant, own.number, own.sent.into())?;
        for (_, taken) in &self.graphs {
            self.session.remove_graph(taken, PATIENCE)?;
        }
        Ok(FeedEnd { rows: self.rows, shared_signals: shared.sent.into(), totals: self.totals })
    }

    fn wrong(&self, what: impl std::fmt::Display) -> CliError {
        CliError::Wrong(format!("producer {}: {what}", self.index))
    }

    fn wrong_errand(&self, errand: Errand, cancelled: bool, what: impl std::fmt::Display) -> CliError {
        let asked = if cancelled { ", which was cancelled" } else { "" };
        let graph = match errand {
            Errand::Launch { graph, .. } => format!("\n{}", self.graphs[graph].0.graph),
            Errand::Job { .. } => String::new(),
        };
        self.wrong(format!("{errand:?}{asked}: {what}{graph}"))
    }

    /// Gives the session a random graph that is not too large.
    fn new_graph(&mut self) -> Result<(RandomGraph, SessionGraph), CliError> {
        loop {
            let number = u64::from(self.random.next_word()) << 32 | u64::from(self.random.next_word());
            let graph = RandomGraph::new(number);
            if graph.graph.nodes.len() <= self.plan.graph_nodes() {
                let taken = self.session.add_graph(self.tenant, &graph.graph)?;
                return Ok((graph, taken));
            }
        }
    }

    /// Submits a batch, and cancels, pauses, resumes and drops some of its tasks.
    fn submit_batch(&mut self) -> Result<Vec<Flight>, CliError> {
        let mut batch = Vec::with_capacity(BATCH as usize);
        for _ in 0..BATCH {
            let mut flight = self.submit_one()?;
            if self.random.one_in(8) {
                self.disturb(&mut flight);
            }
            batch.push(flight);
        }
        for at in (0..BATCH as usize).rev() {
            for _ in 0..self.random.below(3) {
                let flight = &mut batch[at];
                self.disturb(flight);
            }
            let known = !(batch[at].cancelled && batch[at].errand.leaves_nothing());
            if known && self.random.one_in(12) {
                let flight = batch.swap_remove(at);
                self.drop_ticket(flight)?;
            }
        }
        Ok(batch)
    }

    /// Submits a random task.
    fn submit_one(&mut self) -> Result<Flight, CliError> {
        let launches = self.random.one_in(10);
        let (errand, task) = match self.free_blocks.pop_if(|_| launches) {
            Some(block) => self.random_launch(block)?,
            None => {
                let job = Job::random(&mut self.random, self.events.map(|event| event.known));
                if let JobKind::Waits { event, count } = job.kind {
                    self.need_signals(event, count);
                }
                let row = self.free_rows.pop().ok_or_else(|| self.wrong("it has no rows left"))?;
                let task = job.task(
                    &self.ops,
                    self.plan.row_at(self.index, row),
                    self.events.map(|event| event.number),
                );
                (Errand::Job { job, row }, task)
            }
        };
        let priority = Priority::ALL[self.random.below(Priority::ALL.len() as u32) as usize];
        let task = task.priority(priority);
        let can_wait = !matches!(errand, Errand::Job { job, .. } if !job.can_wait());
        let ticket = if can_wait && self.random.one_in(12) {
            let event = EventOf::random(&mut self.random);
            let EventAccount { number, known, .. } = self.events[event as usize];
            let count = known + self.random.below(8);
            self.need_signals(event, count);
            self.producer.submit(task.after(number, count))?
        } else {
            self.producer.submit(task)?
        };
        self.totals.submitted += 1;
        self.totals.launches += u64::from(matches!(errand, Errand::Launch { .. }));
        Ok(Flight { ticket, errand, cancelled: false, paused: false })
    }

    /// Notes that a task waits until an event was signalled so many times.
    fn need_signals(&mut self, event: EventOf, count: u32) {
        let event = &mut self.events[event as usize];
        event.needed = event.needed.max(count);
    }

    fn random_launch(&mut self, block: u32) -> Result<(Errand, Task), CliError> {
        let graph = self.random.below(GRAPHS) as usize;
        let parameters =
            [self.plan.block_at(self.index, block), self.random.next_word(), self.random.next_word()];
        let task = self.graphs[graph].1.launch(&parameters)?;
        Ok((Errand::Launch { graph, block, parameters }, task))
    }

    /// Cancels, pauses or resumes a task, or does nothing.
    fn disturb(&mut self, flight: &mut Flight) {
        match self.random.below(8) {
            0 => {
                flight.ticket.cancel();
                flight.cancelled = true;
            }
            1 | 2 => {
                flight.ticket.pause();
                flight.paused = true;
            }
            3 | 4 => {
                flight.ticket.resume();
                flight.paused = false;
            }
            _ => {}
        }
    }

    /// Drops the ticket of a task, and makes sure that the task can end without it.
    fn drop_ticket(&mut self, mut flight: Flight) -> Result<(), CliError> {
        self.let_go_on(&mut flight)?;
        // A task that parks when it is not paused any more needs another call.
        flight.ticket.resume();
        self.dropped.push(EndedTask { errand: flight.errand, cancelled: flight.cancelled, end: None });
        self.totals.dropped += 1;
        Ok(())
    }

    /// Resumes a task that is paused or has parked, and signals events as often as tasks wait for.
    fn let_go_on(&mut self, flight: &mut Flight) -> Result<(), CliError> {
        flight.ticket.resume();
        flight.paused = false;
        for event in self.events.iter_mut().filter(|event| event.needed > event.known) {
            // Other producers may have signalled it.
            let now = self.session.event_count(self.tenant, event.number)?;
            event.known = event.known.max(u32::try_from(now).unwrap_or(u32::MAX));
            if let Some(times @ 1..) = event.needed.checked_sub(event.known) {
                self.session.signal(self.tenant, event.number, times)?;
                event.known += times;
                event.sent += times;
            }
        }
        Ok(())
    }

    /// Waits for all tasks of a batch, and checks how they ended and what they left.
    fn settle(&mut self, batch: Vec<Flight>) -> Result<(), CliError> {
        let mut ended = Vec::with_capacity(batch.len());
        for mut flight in batch {
            let end = self.wait_for(&mut flight)?;
            self.totals.cancelled += u64::from(matches!(end, Err(TaskError::Cancelled { .. })));
            self.totals.faults += u64::from(matches!(end, Err(TaskError::Fault(_))));
            ended.push(EndedTask { errand: flight.errand, cancelled: flight.cancelled, end: Some(end) });
        }
        self.check_tasks(ended)
    }

    /// Waits for the end of a task, and helps it to go on if it does not end by itself.
    fn wait_for(&mut self, flight: &mut Flight) -> Result<Result<u32, TaskError>, CliError> {
        let since = Instant::now();
        loop {
            let end = flight.ticket.wait(SHORT);
            if end != Err(TaskError::Late) {
                return Ok(end);
            }
            if since.elapsed() > PATIENCE {
                let state = self.session.task_state(&mut flight.ticket)?;
                let what = format!("it does not end; it is {state:?}");
                return Err(self.wrong_errand(flight.errand, flight.cancelled, what));
            }
            self.let_go_on(flight)?;
        }
    }

    /// Waits until all tasks have ended, and checks what those left whose tickets were dropped. No other task of this
    /// producer is under way.
    fn check_dropped(&mut self) -> Result<(), CliError> {
        self.session.quiesce(PATIENCE)?;
        let dropped = std::mem::take(&mut self.dropped);
        self.check_tasks(dropped)?;
        let at = self.random.below(GRAPHS) as usize;
        self.session.remove_graph(&self.graphs[at].1, PATIENCE)?;
        self.graphs[at] = self.new_graph()?;
        Ok(())
    }

    /// Checks how tasks ended, if anyone knows, and what they left. Their rows and blocks are free afterwards.
    fn check_tasks(&mut self, tasks: Vec<EndedTask>) -> Result<(), CliError> {
        let data = self.session.view::<u32>(self.tenant, "data")?;
        let words = data.read(self.plan.row_at(self.index, 0) as usize, self.rows.len() * WIDTH)?;
        let (rows, _) = words.as_chunks::<WIDTH>();
        for EndedTask { errand, cancelled, end } in tasks {
            let checked = match errand {
                Errand::Job { job, row } => self.check_job(job, row, rows[row as usize], (cancelled, end)),
                Errand::Launch { graph, block, parameters } => {
                    let graph = &self.graphs[graph].0;
                    let first = parameters[0] as usize;
                    let words = data.read(first, graph.block_words())?;
                    data.write(first, &vec![0; words.len()])?;
                    self.free_blocks.push(block);
                    check_launch(graph, parameters, &words, (cancelled, end))
                }
            };
            checked.map_err(|what| self.wrong_errand(errand, cancelled, what))?;
        }
        Ok(())
    }

    /// Checks a job, given what its row holds now. The row is free afterwards.
    fn check_job(
        &mut self,
        job: Job,
        row: u32,
        now: Row,
        (cancelled, end): (bool, Option<Result<u32, TaskError>>),
    ) -> Result<(), String> {
        let before = std::mem::replace(&mut self.rows[row as usize], now);
        let change: Row = std::array::from_fn(|word| now[word].wrapping_sub(before[word]));
        let end = match end {
            Some(end) => job.check_end(end, cancelled, before)?,
            None if cancelled => JobEnd::Unknown,
            None => JobEnd::Whole,
        };
        job.check_row(change, end)?;
        self.free_rows.push(row);
        if let Some((event, times)) = job.signals().filter(|_| job.ran_whole(change, end)) {
            self.events[event as usize].note_signals(times);
        }
        Ok(())
    }
}

/// Checks the launch of a graph, given what its block holds.
fn check_launch(
    graph: &RandomGraph,
    parameters: [u32; PARAMETERS as usize],
    block: &[u32],
    (cancelled, end): (bool, Option<Result<u32, TaskError>>),
) -> Result<(), String> {
    let results = graph.node_results(parameters);
    let right = Ok(graph.launch_result(&results));
    let ran = match end {
        Some(end) if end == right => Ran::Whole,
        Some(Err(TaskError::Cancelled { .. })) | None if cancelled => Ran::Partly,
        None => Ran::Whole,
        Some(end) => return Err(format!("it ended with {end:?}, not {right:?}")),
    };
    graph.check_block(block, &results, ran)
}

/// Checks that an event was signalled so many times. The kernel may not have seen the last signals of the host yet.
pub(super) fn check_event(
    session: &Session,
    tenant: TenantId,
    event: u32,
    wanted: u64,
) -> Result<(), CliError> {
    let since = Instant::now();
    loop {
        let found = session.event_count(tenant, event)?;
        if found == wanted {
            return Ok(());
        }
        if found > wanted || since.elapsed() > PATIENCE {
            let what = format!("event {event} of tenant {tenant} was signalled {found} times, not {wanted}");
            return Err(CliError::Wrong(what));
        }
        std::thread::yield_now();
    }
}
