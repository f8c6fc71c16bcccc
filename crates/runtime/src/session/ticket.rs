//! What a producer gets for a task: a ticket that can be waited for, polled and awaited.
//!
//! A ticket holds its slots until it is dropped. Whoever drops one has taken the results, or does not want them.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use pelton_device::Placement;

use super::core::{Core, State, Stripe};
use crate::deadline::{Deadline, Pause};
use crate::error::TaskError;
use crate::ring::BLOCK;

/// A session in the hands of one producer and its tickets, which count themselves: if those of all producers counted together,
/// they would wait for each other.
#[derive(Debug)]
pub(super) struct Held(pub Arc<Core>);

impl Deref for Held {
    type Target = Core;
    #[inline]
    fn deref(&self) -> &Core {
        &self.0
    }
}

/// Tasks at consecutive positions of a stripe, held until dropped.
struct Hold {
    core: Arc<Held>,
    stripe: u32,
    first: u64,
    count: u32,
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

impl Hold {
    #[inline]
    fn stripe(&self) -> &Stripe {
        &self.core.stripes[self.stripe as usize]
    }

    fn placement(&self) -> Placement {
        let far = self.core.layout.beds.iter().rfind(|bed| bed.stripe <= self.stripe);
        far.map_or(Placement::Far, |bed| bed.placement)
    }

    fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// Whether all have ended, or never will.
    #[inline]
    fn poll(&mut self) -> bool {
        let end = self.end();
        if self.seen < end {
            let ring = &self.core.stripes[self.stripe as usize].ring;
            // The last record first: it mostly comes last, and the others are left alone while they are written.
            if ring.ended(end - 1).is_some() {
                self.seen = ring.frontier(self.seen, end);
            }
            if self.seen < end {
                if self.core.state() == State::Running {
                    self.flags |= EARLY;
                    return false;
                }
                // What has no record now never will.
                self.seen = end;
            }
        }
        if self.stamp != 0 {
            if self.flags & EARLY != 0 {
                self.core.latency.record(self.core.now() - self.stamp);
            }
            self.stamp = 0;
        }
        true
    }

    #[inline]
    fn wait(&mut self, deadline: Deadline) -> Result<(), TaskError> {
        if self.poll() { Ok(()) } else { self.linger(deadline) }
    }

    /// Waits for what has not ended at once.
    fn linger(&mut self, deadline: Deadline) -> Result<(), TaskError> {
        let mut pause = Pause::default();
        while !self.poll() {
            if pause.slow() {
                self.core.watch();
                if deadline.passed() && !self.poll() {
                    return Err(TaskError::Late);
                }
            }
            if deadline == Deadline::Now {
                return Err(TaskError::Late);
            }
            pause.turn();
        }
        Ok(())
    }

    /// Registers a waker, and says whether all have ended meanwhile.
    fn poll_with(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.poll() {
            return Poll::Ready(());
        }
        let stripe = &self.core.stripes[self.stripe as usize];
        let place = stripe.place(self.first);
        let waiters = stripe.waiters();
        waiters.wakers[place].register(cx.waker());
        // Pairs with the reaper's acquire: who sees the span finds the waker.
        if waiters.spans[place].swap(self.count, Ordering::AcqRel) == 0 {
            stripe.waiting.fetch_add(1, Ordering::Relaxed);
            self.core.waiting.fetch_add(1, Ordering::Relaxed);
        }
        self.flags |= REGISTERED;
        self.core.event.wake();
        if self.poll() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn unregister(&mut self) {
        if self.flags & REGISTERED != 0 {
            self.flags &= !REGISTERED;
            let stripe = self.stripe();
            let waiters = stripe.waiters();
            let place = stripe.place(self.first);
            if waiters.spans[place].swap(0, Ordering::AcqRel) != 0 {
                stripe.waiting.fetch_sub(1, Ordering::Relaxed);
                self.core.waiting.fetch_sub(1, Ordering::Relaxed);
            }
            waiters.wakers[place].take();
        }
    }

    #[inline]
    fn result(&self, position: u64) -> Result<u32, TaskError> {
        self.core.ended(self.stripe(), position).unwrap_or(Err(TaskError::Late))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.unregister();
        // A span of no tasks has no slots, and stands where the next one's do.
        if self.count == 0 {
            return;
        }
        let seen = self.seen == self.end() && self.core.state() == State::Running;
        self.stripe().ring.give_up(self.first, self.count, seen);
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stripe {} positions {}..{}", self.stripe, self.first, self.end())
    }
}

/// A task that was submitted. Every ticket ends: with a result, a fault, cancelled, stopped or lost.
#[must_use = "a ticket that is dropped gives its result up"]
#[derive(Debug)]
pub struct Ticket(Hold);

impl Ticket {
    pub(super) fn new(core: &Arc<Held>, stripe: u32, position: u64, stamp: u64) -> Self {
        Ticket(Hold::new(core, stripe, position, 1, stamp))
    }

    /// The result, if it has ended.
    pub fn poll(&mut self) -> Option<Result<u32, TaskError>> {
        if self.0.poll() { Some(self.0.result(self.0.first)) } else { None }
    }

    /// Waits for the result. If the deadline passes the task is [`Late`](TaskError::Late), and may be waited for again.
    #[inline]
    pub fn wait(&mut self, deadline: Deadline) -> Result<u32, TaskError> {
        self.0.wait(deadline)?;
        self.0.result(self.0.first)
    }

    /// Where it lies.
    pub fn placement(&self) -> Placement {
        self.0.placement()
    }

    /// Asks that it be not run. What becomes of it is said by the ticket: [`Cancelled`](TaskError::Cancelled), or how it
    /// ended.
    pub fn cancel(&mut self) {
        if !self.0.poll() {
            self.0.stripe().ring.cancel(self.0.first);
        }
    }

    #[cfg(feature = "inject")]
    pub(super) fn home(&self) -> (&Core, &Stripe) {
        (&self.0.core, self.0.stripe())
    }

    /// Its stripe and position, for people.
    pub fn place(&self) -> (u32, u64) {
        (self.0.stripe, self.0.first)
    }
}

impl Future for Ticket {
    type Output = Result<u32, TaskError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_with(cx).map(|()| self.0.result(self.0.first))
    }
}

/// How the tasks of a span ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ends {
    /// With a result.
    pub done: u32,
    /// With a fault.
    pub faults: u32,
    /// Cancelled.
    pub cancelled: u32,
    /// Never run, because the session ended.
    pub left: u32,
}

impl Ends {
    /// Counts how a task ended, and gives its result, or 0.
    #[inline]
    fn count(&mut self, end: Result<u32, TaskError>) -> u32 {
        *match end {
            Ok(_) => &mut self.done,
            Err(TaskError::Fault(_)) => &mut self.faults,
            Err(TaskError::Cancelled) => &mut self.cancelled,
            Err(_) => &mut self.left,
        } += 1;
        end.unwrap_or(0)
    }
}

/// Tasks that were submitted at once.
#[must_use = "a span that is dropped gives its results up"]
#[derive(Debug)]
pub struct Span(Hold);

impl Span {
    pub(super) fn new(core: &Arc<Held>, stripe: u32, first: u64, count: u32, stamp: u64) -> Self {
        Span(Hold::new(core, stripe, first, count, stamp))
    }

    /// How many tasks.
    pub fn len(&self) -> usize {
        self.0.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.count == 0
    }

    /// Whether all have ended.
    pub fn poll(&mut self) -> bool {
        self.0.poll()
    }

    /// Waits until all have ended, and says how.
    pub fn wait(&mut self, deadline: Deadline) -> Result<Ends, TaskError> {
        self.0.wait(deadline)?;
        Ok(self.ends())
    }

    /// The result of a task, in the order in which they were submitted; `None` past the last.
    #[inline]
    pub fn result(&self, index: usize) -> Option<Result<u32, TaskError>> {
        (index < self.len()).then(|| self.0.result(self.0.first + index as u64))
    }

    /// Copies the results of the first tasks, as many as there is room for, in order; and says how they ended. 0 stands
    /// for a task that did not end well. This is the fast way to look at many.
    pub fn read(&self, results: &mut [u32]) -> Ends {
        let mut ends = Ends::default();
        let (mut at, count) = (self.0.first, self.len().min(results.len()));
        let mut left = &mut results[..count];
        while !left.is_empty() {
            let count = self.lap(at, left, &mut ends);
            (at, left) = (at + count as u64, &mut left[count..]);
        }
        ends
    }

    /// The results from a position on, as many as there is room for in this lap; how many these are.
    #[inline]
    fn lap(&self, at: u64, results: &mut [u32], ends: &mut Ends) -> usize {
        let (count, well) = self.0.stripe().ring.results(at, results);
        if well {
            ends.done += count as u32;
        } else {
            let each = results[..count].iter_mut().zip(at..);
            each.for_each(|(to, at)| *to = ends.count(self.0.result(at)));
        }
        count
    }

    /// All results, in order.
    #[inline]
    pub fn results(&self) -> impl ExactSizeIterator<Item = Result<u32, TaskError>> {
        (0..self.0.count).map(|k| self.0.result(self.0.first + u64::from(k)))
    }

    /// Where it lies.
    pub fn placement(&self) -> Placement {
        self.0.placement()
    }

    /// Asks that those that have not ended be not run.
    pub fn cancel(&mut self) {
        for position in self.0.first..self.0.end() {
            if self.0.stripe().ring.ended(position).is_none() {
                self.0.stripe().ring.cancel(position);
            }
        }
    }

    fn ends(&self) -> Ends {
        let (mut ends, mut block) = (Ends::default(), [0; BLOCK]);
        let mut left = self.len();
        while left > 0 {
            let at = self.0.end() - left as u64;
            left -= self.lap(at, &mut block[..left.min(BLOCK)], &mut ends);
        }
        ends
    }
}

impl Future for Span {
    type Output = Ends;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ends> {
        self.0.poll_with(cx).map(|()| self.ends())
    }
}

impl Hold {
    fn new(core: &Arc<Held>, stripe: u32, first: u64, count: u32, stamp: u64) -> Self {
        Hold { core: core.clone(), stripe, first, count, seen: first, stamp, flags: 0 }
    }
}
