//! Producers that keep a session busy while its handlers change, and see for how long no task of theirs ends.
//!
//! Every producer submits four plain tasks, three that yield, and one that spawns two others which yield, in turn, and has
//! a few of them under way. Every result is compared with what it must be, including the version of the handler that gave
//! it: one that was there at some time between the task's submission and its end. Each task also counts itself in memory,
//! and at the end these counts must be exactly those of the tasks that were submitted, so each has run once. A few more
//! tasks yield for ever, so that tasks are under way at every hand-over. They are cancelled at the end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pelton::{Opcode, Producer, Session, Span, SubmitError, Task, TaskError, Ticket};

use super::load_tasks::{ENDLESS, FACTOR, LoadKind, LoadShape, PLACES, RAN, UNDER_WAY, YIELDS};
use crate::bench::flood::PATIENCE;
use crate::error::CliError;
use crate::stop;

/// The time between two looks at what producers have seen.
const GLANCE: Duration = Duration::from_micros(20);

/// What all producers and the thread that changes handlers tell each other.
struct LoadNews {
    /// Whether producers are to submit no more tasks.
    over: AtomicBool,
    /// The version that the session began with. Others are counted from it.
    first: u32,
    /// The newest version that is certainly there, and the newest that may be.
    certain: AtomicU32,
    possible: AtomicU32,
    producers: Vec<ProducerNews>,
}

/// What one producer has seen. It writes this at every task, so each has cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct ProducerNews {
    /// The number of tasks that have ended.
    ended: AtomicU64,
    /// The longest time between the ends of two tasks since this was last set to 0, in nanoseconds.
    longest_ns: AtomicU64,
}

/// What happened while something else was done.
pub(super) struct LoadWindow {
    /// The longest time for which a producer saw no task end.
    pub longest: Duration,
    /// How long it took.
    pub took: Duration,
}

/// The producers of a session, each on a thread of its own.
pub(super) struct HandOverLoad {
    news: Arc<LoadNews>,
    threads: Vec<JoinHandle<Result<FedTasks, CliError>>>,
    /// The tasks that yield for ever, and their producer, whose cells they have.
    endless: Span,
    _producer: Producer,
}

/// The tasks of a producer.
struct FedTasks {
    submitted: u64,
    /// How many of them did not end before the session was stopped.
    stopped: u64,
}

impl HandOverLoad {
    /// Starts the producers of a session that was launched with this version, and waits until tasks of all of them end.
    pub(super) fn start(session: &Session, shape: LoadShape, version: u32) -> Result<Self, CliError> {
        let op = |name| session.opcode(name);
        let ops = [op("plain")?, op(YIELDS)?, op("family")?];
        let news = Arc::new(LoadNews {
            over: AtomicBool::new(false),
            first: version,
            certain: AtomicU32::new(0),
            possible: AtomicU32::new(0),
            producers: (0..shape.producers).map(|_| ProducerNews::default()).collect(),
        });
        let mut producer = session.producer(0)?;
        let endless = producer.submit_all([Task::new(ops[1]).args([0, 0, u32::MAX]); ENDLESS])?;
        let mut load = HandOverLoad { news, threads: Vec::new(), endless, _producer: producer };
        for at in 0..shape.producers {
            let producer = session.producer(0)?.patience(PATIENCE);
            let (news, open) = (load.news.clone(), VecDeque::new());
            let tasks = FedTasks { submitted: 0, stopped: 0 };
            let feeder = LoadFeeder { news, at, producer, ops, tasks, open, last: Instant::now() };
            load.threads.push(thread::spawn(|| feeder.feed()));
        }
        load.wait_for_ends(UNDER_WAY as u64)?;
        Ok(load)
    }

    /// Waits until so many more tasks of every producer have ended.
    fn wait_for_ends(&mut self, more: u64) -> Result<(), CliError> {
        // Acquire pairs with the release of the producer, so that its longest time is seen too.
        let ended = |one: &ProducerNews| one.ended.load(Ordering::Acquire);
        let goals: Vec<u64> = self.news.producers.iter().map(|one| ended(one) + more).collect();
        while self.news.producers.iter().zip(&goals).any(|(one, goal)| ended(one) < *goal) {
            stop::unless_pressed()?;
            if let Some(at) = self.threads.iter().position(JoinHandle::is_finished) {
                join(self.threads.swap_remove(at))?;
                return Err(CliError::Wrong("a producer has ended too early".into()));
            }
            thread::sleep(GLANCE);
        }
        Ok(())
    }

    /// Does something, and returns the longest time without the end of a task that any producer saw: of the times that
    /// ended meanwhile, and of the ones that had begun by its end.
    pub(super) fn watch(
        &mut self,
        action: impl FnOnce() -> Result<(), CliError>,
    ) -> Result<LoadWindow, CliError> {
        self.news.producers.iter().for_each(|one| one.longest_ns.store(0, Ordering::Relaxed));
        let start = Instant::now();
        action()?;
        let took = start.elapsed();
        // The first task that a producer reports may have ended before, and the next one has not.
        self.wait_for_ends(2)?;
        let longest = self.news.producers.iter().map(|one| one.longest_ns.load(Ordering::Relaxed)).max();
        Ok(LoadWindow { longest: Duration::from_nanos(longest.unwrap_or(0)), took })
    }

    /// Changes the version of the handler, with a function that is given the next one.
    pub(super) fn next_version(
        &mut self,
        change: impl FnOnce(u32) -> Result<(), CliError>,
    ) -> Result<LoadWindow, CliError> {
        let news = self.news.clone();
        self.watch(|| {
            let next = news.possible.fetch_add(1, Ordering::SeqCst) + 1;
            change(news.first.wrapping_add(next))?;
            news.certain.store(next, Ordering::SeqCst);
            Ok(())
        })
    }

    /// Lets the producers end, and returns the tasks of each, in order.
    fn end(mut self) -> Result<Vec<FedTasks>, CliError> {
        self.news.over.store(true, Ordering::Relaxed);
        std::mem::take(&mut self.threads).into_iter().map(join).collect()
    }

    /// Lets the producers end, and checks that each task has run once.
    pub(super) fn end_and_check(mut self, session: &Session) -> Result<(), CliError> {
        self.endless.cancel();
        let ends = self.endless.wait(PATIENCE)?;
        if ends.cancelled as usize != ENDLESS {
            return Err(CliError::Wrong(format!("tasks that never end have ended: {ends:?}")));
        }
        let fed = self.end()?;
        let ran = session.view::<u32>(0, RAN)?.read_all()?;
        for (at, (counts, tasks)) in ran.chunks(PLACES as usize).zip(fed).enumerate() {
            if tasks.stopped != 0 {
                return Err(CliError::Wrong(format!("{} tasks of producer {at} were lost", tasks.stopped)));
            }
            for (place, found) in (0..PLACES).zip(counts) {
                let wanted = (tasks.submitted + u64::from(PLACES - 1 - place)) / u64::from(PLACES);
                let wanted = (wanted * LoadKind::of(place).counts()) as u32;
                if *found != wanted {
                    return Err(CliError::Wrong(format!(
                        "tasks of place {place} of producer {at} ran {found} times instead of {wanted}; \
                         this is a defect of Pelton"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Waits for the producers of a session that was stopped, and checks that they had submitted tasks.
    pub(super) fn end_after_stop(self) -> Result<(), CliError> {
        let fed = self.end()?;
        match fed.iter().all(|tasks| tasks.submitted > tasks.stopped) {
            true => Ok(()),
            false => Err(CliError::Wrong("a producer has seen no task end".into())),
        }
    }
}

impl Drop for HandOverLoad {
    /// Lets producers end that nobody waits for any more, after a failure.
    fn drop(&mut self) {
        self.news.over.store(true, Ordering::Relaxed);
    }
}

fn join(thread: JoinHandle<Result<FedTasks, CliError>>) -> Result<FedTasks, CliError> {
    thread.join().unwrap_or_else(|_| Err(CliError::Wrong("a producer's thread panicked".into())))
}

/// A task that is under way.
struct OpenTask {
    ticket: Ticket,
    number: u32,
    kind: LoadKind,
    /// The version that was certainly there when the task was submitted.
    certain: u32,
}

/// A thread that submits tasks.
struct LoadFeeder {
    news: Arc<LoadNews>,
    /// The number of the producer.
    at: u32,
    producer: Producer,
    /// The opcodes of plain tasks, of tasks that yield, and of those that spawn others.
    ops: [Opcode; 3],
    tasks: FedTasks,
    open: VecDeque<OpenTask>,
    /// When the last task was seen to end.
    last: Instant,
}

impl LoadFeeder {
    /// Submits tasks until it is told to end or the session is stopped.
    fn feed(mut self) -> Result<FedTasks, CliError> {
        while !self.news.over.load(Ordering::Relaxed) {
            if self.open.len() == UNDER_WAY {
                self.settle_oldest()?;
            }
            match self.submit_next() {
                Err(CliError::Submit(SubmitError::Ended(pelton::EndReason::Stopped))) => break,
                submitted => submitted?,
            }
        }
        while !self.open.is_empty() {
            self.settle_oldest()?;
        }
        Ok(self.tasks)
    }

    fn submit_next(&mut self) -> Result<(), CliError> {
        let (number, [plain, yields, family]) = (self.tasks.submitted as u32, self.ops);
        let place = number % PLACES;
        let (kind, certain) = (LoadKind::of(place), self.news.certain.load(Ordering::SeqCst));
        let op = match kind {
            LoadKind::Plain => plain,
            LoadKind::Yields => yields,
            LoadKind::Family => family,
        };
        let args = [self.at * PLACES + place, number, number % 50, yields.code()];
        let ticket = self.producer.submit(Task::new(op).args(args))?;
        self.open.push_back(OpenTask { ticket, number, kind, certain });
        self.tasks.submitted += 1;
        Ok(())
    }

    /// Waits for the oldest task, and checks its result.
    fn settle_oldest(&mut self) -> Result<(), CliError> {
        let Some(mut task) = self.open.pop_front() else { return Ok(()) };
        let result = match task.ticket.wait(PATIENCE) {
            Err(TaskError::Stopped { .. }) => {
                self.tasks.stopped += 1;
                return Ok(());
            }
            result => result?,
        };
        let (now, own) = (Instant::now(), &self.news.producers[self.at as usize]);
        own.longest_ns.fetch_max((now - self.last).as_nanos() as u64, Ordering::Relaxed);
        // Pairs with the acquire of whoever waits for the ends of tasks.
        own.ended.fetch_add(1, Ordering::Release);
        self.last = now;
        let times = task.kind.versions();
        let scaled = task.number.wrapping_mul(FACTOR).wrapping_mul(times.max(1));
        let version = result.wrapping_sub(scaled).wrapping_sub(self.news.first.wrapping_mul(times));
        let possible = self.news.possible.load(Ordering::SeqCst);
        match (task.certain * times..=possible * times).contains(&version) {
            true => Ok(()),
            false => Err(CliError::Wrong(format!(
                "task {} of producer {} gave {result:#x}, which no version of its handler gives; \
                 this is a defect of Pelton",
                task.number, self.at
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::load_tasks::yields_handler;
    use super::*;

    fn loaded() -> (Session, HandOverLoad) {
        let device = pelton_device::open("cpu").expect("there is a CPU");
        let shape = LoadShape { producers: 2, groups: Some(1) };
        let session = Session::launch(&device, &shape.spec(7)).expect("the spec is right");
        let load = HandOverLoad::start(&session, shape, 7).expect("it starts");
        (session, load)
    }

    #[test]
    fn a_gap_is_seen_and_every_task_runs_once() {
        let (session, mut load) = loaded();
        let pause = Duration::from_millis(30);
        let window = load
            .watch(|| {
                session.pause_tenant(0)?;
                thread::sleep(pause);
                Ok(session.resume_tenant(0)?)
            })
            .expect("the tenant can be paused");
        // No task ends in the pause but those that were under way, so they cut it into this many pieces at most.
        assert!(window.longest * (UNDER_WAY as u32 + 1) >= pause, "{:?}", window.longest);
        assert!(window.took >= pause);
        load.end_and_check(&session).expect("each task ran once");
    }

    #[test]
    fn a_version_that_nobody_has_announced_is_found() {
        let (session, mut load) = loaded();
        let replace = |version| Ok(session.replace(YIELDS, yields_handler(version), PATIENCE)?);
        load.next_version(replace).expect("version 8 is the next one");
        let failed = load.watch(|| replace(10)).and_then(|_| load.wait_for_ends(1000)).err();
        let text = failed.expect("version 10 is not").to_string();
        assert!(text.contains("which no version of its handler gives"), "{text}");
    }

    #[test]
    fn a_task_that_ran_twice_is_found() {
        let (session, load) = loaded();
        let twice = Task::new(session.opcode("plain").expect("it has the handler")).args([1, 1]);
        let mut producer = session.producer(0).expect("there is one more");
        producer.submit(twice).expect("there is room").wait(PATIENCE).expect("it runs");
        let text = load.end_and_check(&session).expect_err("one task is too many").to_string();
        assert!(text.contains("tasks of place 1 of producer 0"), "{text}");
    }

    #[test]
    fn a_session_can_be_stopped_under_load() {
        let (session, load) = loaded();
        session.stop().expect("it stops");
        load.end_after_stop().expect("tasks ended before");
    }
}
