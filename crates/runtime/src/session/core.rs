//! What a session's handles share: the rings, the run, and how it stands.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use atomic_waker::AtomicWaker;
use pelton_device::event::Event;
use pelton_device::{Ended, Memory, Outcome, Run, View32, View64};

use super::rights::Changes;
use super::room::RoomWaiter;
use crate::error::{EndReason, Error, LossReason, SessionEnd, SubmitError, TaskError};
use crate::kernel::layout::BufferKey;
use crate::kernel::{BufferId, Layout, Spec, Telemetry};
use crate::protocol::record::TaskEnd;
use crate::protocol::{CompletionRecord, Status, control};
use crate::ring::{HostRing, SlotMemory};
use crate::telemetry::{Latency, Printer};

/// How a session stands, as the word that says so: it runs.
const RUNNING: u32 = 0;
/// How sessions end, by their word less one.
const ENDS: [EndReason; 5] = [
    EndReason::Stopped,
    EndReason::Lost(LossReason::Lease),
    EndReason::Lost(LossReason::Trap),
    EndReason::Lost(LossReason::Device),
    EndReason::Lost(LossReason::Returned),
];

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
    pub ring: HostRing<SlotMemory, View64>,
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

    /// Whether slots can be taken back that the producer has not taken back yet.
    pub fn can_reclaim(&self) -> bool {
        // Relaxed: what the producer wrote before it registered is seen by whoever sees that it did.
        self.ring.can_reclaim(self.free.load(Ordering::Relaxed), self.tail.load(Ordering::Relaxed))
    }

    /// A position's place among the waiters.
    pub fn place(&self, position: u64) -> usize {
        (position & (self.ring.capacity() - 1)) as usize
    }
}

/// The memory of each buffer that the host binds.
#[derive(Debug)]
pub(crate) struct Memories(pub Vec<(BufferKey, Memory)>);

impl Memories {
    /// Returns the memory of a buffer of the kernel's own. An error is a defect of Pelton: the kernel has no such buffer.
    pub fn need(&self, id: BufferId) -> Result<&Memory, Error> {
        self.get(BufferKey::Kernel(id)).ok_or(Error::Internal(id.row().names[0]))
    }

    /// Returns the memory of a buffer.
    pub fn get(&self, wanted: BufferKey) -> Option<&Memory> {
        self.0.iter().find(|(key, _)| *key == wanted).map(|(_, memory)| memory)
    }

    /// Goes through all of them, in the order of the layout.
    pub fn iter(&self) -> impl Iterator<Item = (BufferKey, &Memory)> {
        self.0.iter().map(|(key, memory)| (*key, memory))
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
    /// Whether it runs, and in short why not; set once.
    state: AtomicU32,
    /// How it ended; set just before.
    ending: OnceLock<SessionEnd>,
    /// Producers that nobody uses.
    pub idle: Mutex<Vec<u32>>,
    /// Where the reaper parks.
    pub event: Event,
    /// Futures that wait, for tasks and for room.
    pub waiting: AtomicUsize,
    /// Producers, and whether they wait for room.
    pub rooms: Box<[RoomWaiter]>,
    /// How many of them do.
    pub rooms_waiting: AtomicUsize,
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
            rooms: (0..layout.producers).map(|_| RoomWaiter::default()).collect(),
            rooms_waiting: AtomicUsize::new(0),
            printer: Printer::new(&spec.formats),
            changes: Changes::new(&spec.tenants),
            spec,
            layout,
            stripes,
            memories,
            host,
            run,
            state: AtomicU32::new(RUNNING),
            ending: OnceLock::new(),
            event: Event::default(),
            waiting: AtomicUsize::new(0),
            closing: AtomicU32::new(0),
            born: Instant::now(),
            latency: Latency::default(),
        }
    }

    /// Whether the kernel runs, as far as anybody has noticed.
    #[inline]
    pub fn running(&self) -> bool {
        // Pairs with the release in `end`: records that were posted before the end are seen.
        self.state.load(Ordering::Acquire) == RUNNING
    }

    /// Why it does not run any more, if somebody has noticed.
    pub fn end_reason(&self) -> Option<EndReason> {
        // Pairs with the release in `end`, as above.
        let state = self.state.load(Ordering::Acquire);
        ENDS.get((state as usize).checked_sub(1)?).copied()
    }

    /// What a producer says that has found it ended.
    #[cold]
    pub fn ended_submit(&self) -> SubmitError {
        SubmitError::Ended(self.end_reason().unwrap_or(EndReason::Stopped))
    }

    /// What a session says that has found it ended.
    #[cold]
    pub fn ended_error(&self) -> Error {
        Error::Ended(self.ending.get().cloned().unwrap_or(SessionEnd::Stopped))
    }

    /// How it ended, if it has.
    pub fn ending(&self) -> Option<SessionEnd> {
        self.watch();
        self.ending.get().cloned()
    }

    /// Says how it ended. The first to say so is right.
    pub fn end(&self, end: SessionEnd) {
        let reason = end.reason();
        if self.ending.set(end).is_ok() {
            let at = ENDS.iter().position(|known| *known == reason).unwrap_or(0);
            let _ = self.state.compare_exchange(RUNNING, at as u32 + 1, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Looks whether the kernel has ended by itself.
    pub fn watch(&self) {
        if self.running() && !self.asked() {
            self.look();
        }
    }

    /// Whether the kernel was asked to end.
    fn asked(&self) -> bool {
        self.host[control::SHUTDOWN as usize].load(Ordering::Relaxed) != 0
    }

    /// Notes how the kernel has ended, if it has.
    pub fn look(&self) {
        self.end(match self.run.wait(Some(Duration::ZERO)) {
            Ok(None) => return,
            Ok(Some(Ended { outcome: Outcome::Lease, .. })) => SessionEnd::Lease(self.spec.lease),
            // It may have been asked since somebody began to look.
            Ok(Some(_)) if self.asked() => SessionEnd::Stopped,
            Ok(Some(_)) => SessionEnd::Returned,
            Err(error) => SessionEnd::Device(Arc::new(error)),
        });
    }

    /// The stripes of a ring.
    pub fn stripes(&self, ring: u32) -> impl Iterator<Item = &Stripe> {
        (0..self.layout.ring_stripes()).map(move |k| &self.stripes[self.layout.stripe_number(ring, k)])
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
        let why = match self.end_reason()? {
            EndReason::Stopped => TaskError::Stopped,
            EndReason::Lost(reason) => TaskError::Lost(reason),
        };
        // The record may have come between the two looks.
        Some(stripe.ring.ended(position).map_or(Err(why), outcome))
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

/// What a record says.
#[inline]
pub(crate) fn outcome(record: CompletionRecord) -> Result<u32, TaskError> {
    // Most tasks end well.
    if record.0 as u8 == Status::Done.code() as u8 {
        return Ok((record.0 >> 32) as u32);
    }
    failure(record)
}

/// What a record says of a task that did not end well.
#[cold]
fn failure(record: CompletionRecord) -> Result<u32, TaskError> {
    match record.end() {
        Ok(TaskEnd::Done(result)) => Ok(result),
        Ok(TaskEnd::Fault(fault)) => Err(TaskError::Fault(fault)),
        Ok(TaskEnd::Cancelled) => Err(TaskError::Cancelled),
        // No kernel of ours posts anything else.
        Err(_) => Err(TaskError::Lost(LossReason::Record)),
    }
}
