//! Schedules: groups run on threads, or all lanes run on one thread in an order that a seed decides.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::code::{Code, Pc};
use super::group::Group;
use super::lane::Clock;
use super::memory::{LaneMemory, RealMemory};
use super::random::Random;
use super::{End, Fault, InterpLaunch, InterpReport, LaunchError};
use crate::module::{BufferDecl, Site};

/// The number of steps that a lane executes before the next lane runs.
const TURN: u64 = 512;

/// The number of rounds without work after which a thread sleeps.
const PATIENCE: u32 = 64;

/// The longest time that a thread sleeps before it looks for work again.
const NAP: Duration = Duration::from_micros(50);

/// The number of turns of a seeded schedule between two looks at the stop word and the clock.
const LOOK: u64 = 64;

/// The kernel and the launch, as all parts of the scheduler need them.
pub(super) struct InterpJob<'a> {
    pub code: &'a Code,
    pub entry: Pc,
    /// The initial content of a lane's registers, except for the numbers of the lane and its group.
    pub registers: &'a [u64],
    pub buffers: &'a [BufferDecl],
    pub launch: &'a InterpLaunch<'a>,
    pub board: &'a LaunchBoard<'a>,
    /// The number of groups that run at the same time.
    pub resident: usize,
}

/// The state that the threads of a launch share.
pub(super) struct LaunchBoard<'a> {
    stop: Option<&'a AtomicU32>,
    until: Option<Instant>,
    pub(super) over: AtomicBool,
    verdict: OnceLock<Verdict>,
    fault: OnceLock<(u32, Site)>,
    faults: AtomicU64,
}

/// Why a launch ends before all lanes have returned, other than by the stop word or the deadline.
enum Verdict {
    Trap { code: u32, site: Site },
    Diverged { site: Site },
}

impl<'a> LaunchBoard<'a> {
    pub(crate) fn new(launch: &InterpLaunch<'a>) -> Self {
        LaunchBoard {
            stop: launch.stop,
            until: launch.deadline.and_then(|deadline| Instant::now().checked_add(deadline)),
            over: AtomicBool::new(false),
            verdict: OnceLock::new(),
            fault: OnceLock::new(),
            faults: AtomicU64::new(0),
        }
    }

    /// Returns whether the launch must end now. No other data depends on the answer, so relaxed accesses suffice.
    fn over(&self) -> bool {
        let asked = || self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed) != 0);
        let late = || self.until.is_some_and(|until| Instant::now() >= until);
        if !self.over.load(Ordering::Relaxed) && !asked() && !late() {
            return false;
        }
        self.over.store(true, Ordering::Relaxed);
        true
    }

    pub(crate) fn fault(&self, code: u32, site: Site) {
        self.fault.get_or_init(|| (code, site));
        self.faults.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn trap(&self, code: u32, site: Site) {
        self.end(Verdict::Trap { code, site });
    }

    /// Ends the launch because lanes that should meet at an instruction cannot.
    pub(crate) fn diverge(&self, site: Site) {
        self.end(Verdict::Diverged { site });
    }

    fn end(&self, verdict: Verdict) {
        self.verdict.get_or_init(|| verdict);
        self.over.store(true, Ordering::Relaxed);
    }

    /// Returns the outcome of the launch.
    pub(crate) fn report(&self, outcome: Outcome) -> Result<InterpReport, LaunchError> {
        let end = match self.verdict.get() {
            Some(Verdict::Diverged { site }) => return Err(LaunchError::Diverged { site: *site }),
            Some(Verdict::Trap { code, site }) => End::Trapped { code: *code, site: *site },
            None if outcome.whole => End::Done,
            None => End::Stopped,
        };
        let count = self.faults.load(Ordering::Relaxed);
        let fault = self.fault.get().map(|(code, site)| Fault { code: *code, site: *site, count });
        Ok(InterpReport { end, fault, steps: outcome.steps })
    }
}

/// What a thread has done.
pub(super) struct Outcome {
    pub steps: u64,
    /// Whether all its groups have ended.
    pub whole: bool,
}

/// Runs the groups of a launch on `count` threads, of which the caller's is one.
pub(super) fn threads(job: &InterpJob<'_>, count: usize) -> Outcome {
    let next = AtomicU32::new(0);
    let count = count.min(job.launch.groups as usize);
    let each = (job.resident / count).max(1);
    let start = Instant::now();
    thread::scope(|scope| {
        let work = || worker(job, &next, each, start);
        // If the system has no more threads, those that there are run all groups.
        let others: Vec<_> =
            (1..count).map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let mut sum = work();
        for other in others {
            let Outcome { steps, whole } =
                other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sum.steps += steps;
            sum.whole &= whole;
        }
        sum
    })
}

/// Runs groups in rounds, in which each lane has one turn, and starts one more group per round. So a group that ends at
/// once is gone before the next one starts, and a group that waits for a later group will find it running.
fn worker(job: &InterpJob<'_>, next: &AtomicU32, most: usize, start: Instant) -> Outcome {
    let mut groups = Vec::new();
    let (mut steps, mut idle) = (0, 0);
    loop {
        if groups.len() < most
            && let Some(index) = claim(next, job.launch.groups)
        {
            idle = 0;
            groups.push(Group::new(job, index, RealMemory::new(&job.launch.buffers[..], job.buffers)));
        }
        if groups.is_empty() {
            return Outcome { steps, whole: true };
        }
        let (mut busy, mut rest_ns) = (false, u32::MAX);
        for group in &mut groups {
            if job.board.over() {
                return Outcome { steps, whole: false };
            }
            let round = group.round(job, Clock::Real(start), TURN);
            steps += round.steps;
            busy |= round.busy;
            rest_ns = rest_ns.min(round.rest_ns.unwrap_or(u32::MAX));
        }
        groups.retain(|group| !group.done());
        idle = if busy { 0 } else { idle + 1 };
        match idle {
            0 => {}
            1..PATIENCE => thread::yield_now(),
            _ => thread::sleep(NAP.min(Duration::from_nanos(rest_ns.into()))),
        }
    }
}

/// Claims the next group that no thread has started.
fn claim(next: &AtomicU32, groups: u32) -> Option<u32> {
    next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |index| (index < groups).then(|| index + 1)).ok()
}

/// Runs a launch on this thread, in the order that a seed decides.
pub(super) fn seeded<M: LaneMemory>(job: &InterpJob<'_>, seed: u64, memory: impl Fn(u32) -> M) -> Outcome {
    let mut machine = SeededMachine::new(seed);
    let mut turns = 0_u64;
    loop {
        if turns.is_multiple_of(LOOK) {
            job.board.over();
        }
        turns += 1;
        if let Some(outcome) = machine.take_turn(job, &memory) {
            return outcome;
        }
    }
}

/// The groups of a launch that runs on one thread: a random lane executes a random number of steps, often one, and then
/// another lane runs.
pub(super) struct SeededMachine<M> {
    random: Random,
    groups: Vec<Group<M>>,
    /// The first group that has not started.
    next: u32,
    pub steps: u64,
}

impl<M: LaneMemory> SeededMachine<M> {
    pub(super) fn new(seed: u64) -> Self {
        SeededMachine { random: Random::new(seed), groups: Vec::new(), next: 0, steps: 0 }
    }

    /// Runs one lane for one turn. Returns what was done in all if the launch is over.
    pub(super) fn take_turn(&mut self, job: &InterpJob<'_>, memory: impl Fn(u32) -> M) -> Option<Outcome> {
        while self.next < job.launch.groups && self.groups.len() < job.resident {
            self.groups.push(Group::new(job, self.next, memory(self.next)));
            self.next += 1;
        }
        if self.groups.is_empty() {
            return Some(Outcome { steps: self.steps, whole: true });
        }
        if job.board.over.load(Ordering::Relaxed) {
            return Some(Outcome { steps: self.steps, whole: false });
        }
        let at = self.random.below(self.groups.len());
        let group = &mut self.groups[at];
        let lane = group.next(self.random.below(job.launch.lanes as usize))?;
        let most = if self.random.one_in(4) { 64 } else { 2 };
        let turn = 1 + self.random.below(most) as u64;
        self.steps += group.turn(job, lane, Clock::Steps(self.steps), turn).1;
        if group.done() {
            self.groups.swap_remove(at);
        }
        None
    }
}
