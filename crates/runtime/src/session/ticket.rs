//! What a producer gets for a task: a ticket that can be looked at, waited for and awaited.
//!
//! A ticket holds its slots until it is dropped. Whoever drops one has taken the results, or does not want them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use super::rings::{Rings, Stripe};
use super::run::ServedRings;
use crate::deadline::{Deadline, PollBackoff};
use crate::error::TaskError;
use crate::kernel::Placement;
use crate::ring::EndsSeen;

/// What one producer and its tickets hold of a session. They count their references here: if the tickets of all producers counted
/// theirs in one place, producers would wait for each other.
#[derive(Debug)]
pub(super) struct SessionShare {
    pub rings: Arc<Rings>,
    /// The way to the run, for a ticket that has waited for long.
    pub served: Arc<ServedRings>,
}

/// The slots of tasks at consecutive positions of a stripe. They are given up when this is dropped.
pub(super) struct HeldSlots {
    pub share: Arc<SessionShare>,
    stripe: u32,
    pub first: u64,
    pub count: u32,
    /// Up to where tasks are known to have ended.
    seen: u64,
    /// When it was published, if its latency is measured; 0 if not.
    stamp: u64,
    /// What has happened to it, in bits. Bools would lend their spare values to `Result` and `Option`, and whoever moves a
    /// ticket in one would then copy it in pieces that wait for each other.
    flags: u32,
}

/// It was looked at before all had ended.
const EARLY: u32 = 1;
/// A waker is registered.
const REGISTERED: u32 = 2;

impl HeldSlots {
    #[inline]
    pub(super) fn stripe(&self) -> &Stripe {
        &self.share.rings.stripes[self.stripe as usize]
    }

    pub(super) fn placement(&self) -> Placement {
        let far = self.share.rings.layout.banks.iter().rfind(|bank| bank.first_stripe <= self.stripe);
        far.map_or(Placement::Far, |bank| bank.placement)
    }

    /// Whether it was looked at before all had ended.
    pub(super) fn was_early(&self) -> bool {
        self.flags & EARLY != 0
    }

    pub(super) fn end_position(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// Whether all have ended, or never will.
    #[inline]
    pub(super) fn has_ended(&mut self) -> bool {
        let end = self.end_position();
        if self.seen < end {
            let ring = &self.share.rings.stripes[self.stripe as usize].ring;
            // The last record first: it mostly comes last, and the others are left alone while they are written.
            if ring.record_at(end - 1).is_some() {
                self.seen = ring.frontier(self.seen, end);
            }
            if self.seen < end {
                if self.share.rings.state.is_running() {
                    self.flags |= EARLY;
                    return false;
                }
                // What has no record now never will.
                self.seen = end;
            }
        }
        if self.stamp != 0 {
            if self.flags & EARLY != 0 {
                self.share.rings.meter.record_since(self.stamp);
            }
            self.stamp = 0;
        }
        true
    }

    #[inline]
    pub(super) fn wait(&mut self, deadline: Deadline) -> Result<(), TaskError> {
        if self.has_ended() { Ok(()) } else { self.wait_slowly(deadline.started()) }
    }

    /// Waits for what has not ended at once, until a deadline that was started.
    fn wait_slowly(&mut self, deadline: Deadline) -> Result<(), TaskError> {
        let mut backoff = PollBackoff::default();
        while !self.has_ended() {
            if backoff.is_slow() {
                self.share.served.check_for_end();
                if deadline.has_passed() && !self.has_ended() {
                    return Err(TaskError::Late);
                }
            }
            if deadline == Deadline::Now {
                return Err(TaskError::Late);
            }
            backoff.pause();
        }
        Ok(())
    }

    /// Registers a waker, and says whether all have ended meanwhile.
    pub(super) fn poll_with(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_ended() {
            return Poll::Ready(());
        }
        let stripe = &self.share.rings.stripes[self.stripe as usize];
        let place = stripe.waiter_place(self.first);
        let waiters = stripe.waiters();
        waiters.wakers[place].register(cx.waker());
        // Pairs with the reaper's acquire: who sees the span finds the waker.
        if waiters.spans[place].swap(self.count, Ordering::AcqRel) == 0 {
            stripe.futures.fetch_add(1, Ordering::Relaxed);
            self.share.rings.wait_list.futures.fetch_add(1, Ordering::Relaxed);
        }
        self.flags |= REGISTERED;
        self.share.rings.wait_list.event.wake();
        if self.has_ended() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn unregister(&mut self) {
        if self.flags & REGISTERED != 0 {
            self.flags &= !REGISTERED;
            let stripe = self.stripe();
            let waiters = stripe.waiters();
            let place = stripe.waiter_place(self.first);
            if waiters.spans[place].swap(0, Ordering::AcqRel) != 0 {
                stripe.futures.fetch_sub(1, Ordering::Relaxed);
                self.share.rings.wait_list.futures.fetch_sub(1, Ordering::Relaxed);
            }
            waiters.wakers[place].take();
        }
    }

    #[inline]
    pub(super) fn result(&self, position: u64) -> Result<u32, TaskError> {
        self.share.rings.task_end(self.stripe(), position).unwrap_or(Err(TaskError::Late))
    }
}

impl Drop for HeldSlots {
    fn drop(&mut self) {
        self.unregister();
        // A span of no tasks has no slots, and stands where the next one's do.
        if self.count == 0 {
            return;
        }
        let all = self.seen == self.end_position() && self.share.rings.state.is_running();
        let seen = if all { EndsSeen::All } else { EndsSeen::NotAll };
        self.stripe().ring.give_up(self.first, self.count, seen);
    }
}

impl fmt::Debug for HeldSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stripe {} positions {}..{}", self.stripe, self.first, self.end_position())
    }
}

/// A task that was submitted. Every ticket ends: with a result, a fault, cancelled, stopped or lost.
///
/// A ticket is a future. Whoever awaits it by reference keeps it, and with it the slot and its result:
///
/// ```
/// # use pelton::{Opcode, Session, Spec, Task, device};
/// # use pelton::doc_examples::block_on;
/// # let session = Session::launch(&device::open("cpu")?, &Spec::default())?;
/// # let mut producer = session.producer(0)?;
/// # block_on(async {
/// let mut ticket = producer.submit(Task::new(Opcode::ATOMIC_ADD).args([5, 0]))?;
/// assert_eq!((&mut ticket).await, Ok(0));
/// assert_eq!(ticket.result(), Ok(0), "it is still there");
/// assert_eq!(producer.submit(Task::new(Opcode::ATOMIC_ADD).args([5, 0]))?.await, Ok(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a ticket that is dropped gives its result up"]
#[derive(Debug)]
pub struct Ticket(HeldSlots);

impl Ticket {
    pub(super) fn new(share: &Arc<SessionShare>, stripe: u32, position: u64, stamp: u64) -> Self {
        Ticket(HeldSlots::new(share, stripe, position, 1, stamp))
    }

    /// Returns whether the task has ended, or never will because the session has. It does not wait.
    #[inline]
    pub fn has_ended(&mut self) -> bool {
        self.0.has_ended()
    }

    /// Returns the task's result without waiting for it. A task that has not ended yet is [`Late`](TaskError::Late).
    #[inline]
    pub fn result(&mut self) -> Result<u32, TaskError> {
        if self.0.has_ended() { self.0.result(self.0.first) } else { Err(TaskError::Late) }
    }

    /// Waits for the task's result. If the deadline passes, the task is [`Late`](TaskError::Late) and may be waited for again.
    #[inline]
    pub fn wait(&mut self, deadline: impl Into<Deadline>) -> Result<u32, TaskError> {
        self.0.wait(deadline.into())?;
        self.0.result(self.0.first)
    }

    /// Where it lies.
    pub fn placement(&self) -> Placement {
        self.0.placement()
    }

    /// Asks that it be not run. What becomes of it is said by the ticket: [`Cancelled`](TaskError::Cancelled), or how it
    /// ended.
    pub fn cancel(&mut self) {
        if !self.0.has_ended() {
            self.0.stripe().ring.cancel(self.0.first);
        }
    }

    #[cfg(feature = "inject")]
    pub(super) fn slot_owner(&self) -> (&SessionShare, &Stripe) {
        (&self.0.share, self.0.stripe())
    }

    /// Returns the number of the stripe that the task stands in, as [`Session::positions`](super::Session::positions) counts them. It is for
    /// messages and tests; no other call takes it.
    pub fn stripe(&self) -> u32 {
        self.0.stripe
    }

    /// Returns the position of the task in its stripe. It is for messages and tests; no other call takes it.
    pub fn position(&self) -> u64 {
        self.0.first
    }
}

impl Future for Ticket {
    type Output = Result<u32, TaskError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_with(cx).map(|()| self.0.result(self.0.first))
    }
}

impl HeldSlots {
    pub(super) fn new(share: &Arc<SessionShare>, stripe: u32, first: u64, count: u32, stamp: u64) -> Self {
        HeldSlots { share: share.clone(), stripe, first, count, seen: first, stamp, flags: 0 }
    }
}
