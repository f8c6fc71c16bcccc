//! What a session's handles share: the rings, the run, and how it stands.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use atomic_waker::AtomicWaker;
use pelton_device::event::Event;
use pelton_device::{Memory, Run, View32, View64};

use super::rights::Changes;
use crate::error::TaskError;
use crate::kernel::{Layout, Spec, Telemetry};
use crate::protocol::record::End;
use crate::protocol::{Record, Status, control};
use crate::ring::{Home, Ring};
use crate::telemetry::{Latency, Printer};

/// How a session stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum State {
    /// The kernel runs.
    Running = 0,
    /// It was stopped.
    Stopped = 1,
    /// It ended by itself.
    Lost = 2,
}

/// Futures that wait for spans of a stripe, by first slot.
#[derive(Debug)]
pub(crate) struct Waiters {
    /// How many tasks each waits for; 0 is nobody.
    pub spans: Box<[AtomicU32]>,
    /// Whom to wake.
    pub wakers: Box<[AtomicWaker]>,
}

/// A stripe and what the host knows of it.
#[derive(Debug)]
pub(crate) struct Stripe {
    pub ring: Ring<Home, View64>,
    /// Up to where it is published. The producer alone writes it.
    pub tail: AtomicU64,
    /// Up to where slots were given up. The producer alone writes it.
    pub free: AtomicU64,
    /// Where its positions start.
    pub start: u64,
    /// How many futures wait.
    pub waiting: AtomicUsize,
    /// They, from the first on.
    pub waiters: OnceLock<Waiters>,
}

impl Stripe {
    /// Futures that wait for spans of this stripe.
    pub fn waiters(&self) -> &Waiters {
        self.waiters.get_or_init(|| Waiters {
            spans: (0..self.ring.capacity()).map(|_| AtomicU32::new(0)).collect(),
            wakers: (0..self.ring.capacity()).map(|_| AtomicWaker::new()).collect(),
        })
    }

    /// A position's place among the waiters.
    pub fn place(&self, position: u64) -> usize {
        (position & (self.ring.capacity() - 1)) as usize
    }
}

/// Memory of a session by the name of its buffer.
#[derive(Debug)]
pub(crate) struct Memories(pub Vec<(String, Memory)>);

impl Memories {
    /// The memory of a buffer that every session has.
    pub fn get(&self, name: &str) -> Option<&Memory> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, memory)| memory)
    }
}

/// What a session's handles share.
#[derive(Debug)]
pub(crate) struct Core {
    pub spec: Spec,
    pub layout: Layout,
    pub stripes: Vec<Stripe>,
    pub memories: Memories,
    /// The host's control words.
    pub host: View32,
    pub run: Box<dyn Run>,
    pub changes: Mutex<Changes>,
    state: AtomicU32,
    /// Producers that nobody uses.
    pub idle: Mutex<Vec<u32>>,
    /// Where the reaper parks.
    pub event: Event,
    /// Futures that wait, over all stripes.
    pub waiting: AtomicUsize,
    /// Whether the reaper is to end.
    pub closing: AtomicU32,
    pub born: Instant,
    pub latency: Latency,
    pub printer: Printer,
}

impl Core {
    pub fn new(
        spec: Spec,
        layout: Layout,
        stripes: Vec<Stripe>,
        memories: Memories,
        host: View32,
        run: Box<dyn Run>,
    ) -> Self {
        Core {
            idle: Mutex::new((0..layout.producers).rev().collect()),
            printer: Printer::new(&spec.formats),
            changes: Changes::new(&spec.tenants),
            spec,
            layout,
            stripes,
            memories,
            host,
            run,
            state: AtomicU32::new(State::Running as u32),
            event: Event::default(),
            waiting: AtomicUsize::new(0),
            closing: AtomicU32::new(0),
            born: Instant::now(),
            latency: Latency::default(),
        }
    }

    /// How it stands.
    #[inline]
    pub fn state(&self) -> State {
        // Pairs with the release in `end`: records that were posted before the end are seen.
        match self.state.load(Ordering::Acquire) {
            0 => State::Running,
            1 => State::Stopped,
            _ => State::Lost,
        }
    }

    /// Says how it ended. The first to say so is right.
    pub fn end(&self, state: State) {
        let _ = self.state.compare_exchange(0, state as u32, Ordering::Release, Ordering::Relaxed);
    }

    /// Looks whether the kernel has ended by itself.
    pub fn watch(&self) {
        if self.state() == State::Running
            && self.host[control::SHUTDOWN as usize].load(Ordering::Relaxed) == 0
            && !matches!(self.run.wait(Some(std::time::Duration::ZERO)), Ok(None))
        {
            self.end(State::Lost);
        }
    }

    /// The stripes of a ring.
    pub fn stripes(&self, ring: u32) -> impl Iterator<Item = &Stripe> {
        (0..self.layout.stripes()).map(move |k| &self.stripes[self.layout.stripe(ring, k)])
    }

    /// How a task ended, if it has or never will.
    #[inline]
    pub fn ended(&self, stripe: &Stripe, position: u64) -> Option<Result<u32, TaskError>> {
        if let Some(record) = stripe.ring.ended(position) {
            return Some(outcome(record));
        }
        self.missing(stripe, position)
    }

    /// How a task ended that has no record.
    #[cold]
    fn missing(&self, stripe: &Stripe, position: u64) -> Option<Result<u32, TaskError>> {
        match self.state() {
            State::Running => None,
            // The record may have come between the two looks.
            state => Some(stripe.ring.ended(position).map_or(Err(gone(state)), outcome)),
        }
    }

    /// Nanoseconds since the session began, never 0.
    pub fn now(&self) -> u64 {
        self.born.elapsed().as_nanos() as u64 + 1
    }

    /// Whether the latency of a span is to be measured.
    #[inline]
    pub fn samples(&self, first: u64, end: u64) -> bool {
        match self.spec.telemetry {
            Telemetry::Off => false,
            Telemetry::Full => true,
            Telemetry::Sampled => first >> 10 != end >> 10 || first & 1023 == 0,
        }
    }
}

/// Why a task that has no record never will.
fn gone(state: State) -> TaskError {
    if state == State::Lost { TaskError::Lost } else { TaskError::Stopped }
}

/// What a record says.
#[inline]
pub(crate) fn outcome(record: Record) -> Result<u32, TaskError> {
    // Most tasks end well.
    if record.0 as u8 == Status::Done.code() as u8 {
        return Ok((record.0 >> 32) as u32);
    }
    failure(record)
}

/// What a record says of a task that did not end well.
#[cold]
fn failure(record: Record) -> Result<u32, TaskError> {
    match record.end() {
        Ok(End::Done(result)) => Ok(result),
        Ok(End::Fault(fault)) => Err(TaskError::Fault(fault)),
        Ok(End::Cancelled) => Err(TaskError::Cancelled),
        // No kernel of ours posts anything else.
        Err(_) => Err(TaskError::Lost),
    }
}
