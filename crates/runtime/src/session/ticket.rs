//! Tickets: what a producer gets for a task that it submits.
//!
//! A ticket can be polled, waited for and awaited. It holds the slot of its task until it is dropped, so that the
//! result stays there; after that, the producer may use the slot again.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use super::cells::CellAsk;
use super::payload::ReplyPlace;
use super::rings::{Rings, Stripe};
use super::run::ServedRings;
use crate::deadline::{Deadline, PollBackoff};
use crate::error::TaskError;
use crate::kernel::Placement;
use crate::protocol::slot::{GENERATION_MASK, generation_at};
use crate::ring::EndsSeen;

/// The references to a session that one producer and its tickets share. Each producer has a share of its own, because
/// producers would slow each other down if the tickets of all of them counted their references in one place.
#[derive(Debug)]
pub(super) struct SessionShare {
    pub rings: Arc<Rings>,
    /// The rings with their run, for tickets that have waited for long and check whether the run is still there.
    pub served: Arc<ServedRings>,
}

/// The slots of tasks at consecutive positions of a stripe. Dropping this gives the slots up.
pub(super) struct HeldSlots {
    pub share: Arc<SessionShare>,
    stripe: u32,
    pub first: u64,
    pub count: u32,
    /// The position up to which all tasks are known to have ended.
    seen: u64,
    /// When the tasks were published, if their latency is measured, and 0 otherwise.
    stamp: u64,
    /// A set of [`EARLY`], [`REGISTERED`] and [`WENT_NEAR`]. These are not two `bool`s, because `Result` and `Option` would use the
    /// spare values of a `bool`, and moving a ticket inside of one would then take several copies that wait for each
    /// other.
    flags: u32,
}

/// The tasks were looked at before all of them had ended.
const EARLY: u32 = 1;
/// A waker is registered with the stripe.
const REGISTERED: u32 = 2;
/// The tasks live in cells, and their slots were in a near ring.
const WENT_NEAR: u32 = 4;

impl HeldSlots {
    #[inline]
    pub(super) fn stripe(&self) -> &Stripe {
        &self.share.rings.stripes[self.stripe as usize]
    }

    /// Asks the kernel not to run the task at a position, or not to go on with it.
    pub(super) fn cancel_at(&self, position: u64) {
        let stripe = self.stripe();
        match stripe.has_cells() {
            true => self.share.ask_cell(stripe, position, CellAsk::Cancel),
            false => {
                if let Some(kept) = &self.share.rings.kept {
                    kept.note_cancel(stripe, position);
                }
                stripe.ring.cancel(position);
            }
        }
    }

    /// Notes where the slots of tasks were that live in cells.
    pub(super) fn set_placement(&mut self, placement: Placement) {
        if placement == Placement::Near {
            self.flags |= WENT_NEAR;
        }
    }

    pub(super) fn placement(&self) -> Placement {
        if self.stripe().has_cells() {
            return if self.flags & WENT_NEAR != 0 { Placement::Near } else { Placement::Far };
        }
        let far = self.share.rings.layout.banks.iter().rfind(|bank| bank.first_stripe <= self.stripe);
        far.map_or(Placement::Far, |bank| bank.placement)
    }

    /// Returns whether the tasks were looked at before all of them had ended.
    pub(super) fn was_early(&self) -> bool {
        self.flags & EARLY != 0
    }

    /// Returns the position after the last task.
    pub(super) fn end_position(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// Returns whether all tasks have ended, or never will.
    #[inline]
    pub(super) fn has_ended(&mut self) -> bool {
        let end = self.end_position();
        if self.seen < end {
            let ring = &self.share.rings.stripes[self.stripe as usize].ring;
            // The last record is mostly the last to come. Looking at it first leaves the others alone while they are
            // written.
            if ring.record_at(end - 1).is_some() {
                self.seen = ring.frontier(self.seen, end);
            }
            if self.seen < end {
                if self.share.rings.state.is_running() {
                    self.flags |= EARLY;
                    return false;
                }
                // The session has ended, so tasks that have no record now never will.
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

    /// Waits for tasks that have not ended yet, until a deadline that was started.
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

    /// Registers a waker, and returns whether all tasks have ended meanwhile.
    pub(super) fn poll_with(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_ended() {
            return Poll::Ready(());
        }
        let stripe = &self.share.rings.stripes[self.stripe as usize];
        let place = stripe.waiter_place(self.first);
        let waiters = stripe.waiters();
        waiters.wakers[place].register(cx.waker());
        // Pairs with the reaper's acquire: a reaper that sees the span finds the waker.
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

    /// Returns the reply of a task that ended well. Fails as [`result`](HeldSlots::result) does. `None` if tasks have no
    /// replies.
    pub(super) fn reply(&self, position: u64) -> Result<Option<ReplyPlace<'_>>, TaskError> {
        self.result(position)?;
        let (stripe, places) = (self.stripe(), self.share.rings.places.as_ref());
        let lap = position >> stripe.ring.log2;
        // The kernel counts the generations of a cell as records do.
        let lap = if stripe.has_cells() { lap & u64::from(GENERATION_MASK) } else { lap };
        Ok(places.and_then(|places| places.reply(stripe.place_at(position), lap)))
    }

    #[inline]
    pub(super) fn result(&self, position: u64) -> Result<u32, TaskError> {
        self.share.rings.task_end(self.stripe(), position).unwrap_or(Err(TaskError::Late))
    }
}

impl Drop for HeldSlots {
    fn drop(&mut self) {
        self.unregister();
        // A span of no tasks has no slots. Those at its position belong to the next span.
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

/// A handle to a submitted task, through which its result is read.
///
/// Every ticket ends: with a result, or with a [`TaskError`] that says why there is none. The ticket holds the slot of
/// its task until it is dropped, and the slot can be used again after that.
///
/// A ticket is a future. Awaiting it by reference keeps the ticket, and with it the result:
///
/// ```
/// # use pelton::{Opcode, Session, Spec, Task, device};
/// # use pelton::doc_examples::block_on;
/// # let session = Session::launch(&device::open("cpu")?, &Spec::default())?;
/// # let mut producer = session.producer(0)?;
/// # block_on(async {
/// let mut ticket = producer.submit(Task::new(Opcode::ATOMIC_ADD).args([5, 0]))?;
/// assert_eq!((&mut ticket).await, Ok(0));
/// assert_eq!(ticket.result(), Ok(0), "the result is still there");
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

    /// Makes the ticket of a task that lives in a cell, and whose slot was in a ring of this placement.
    pub(super) fn of_cell(
        share: &Arc<SessionShare>,
        (stripe, position): (u32, u64),
        placement: Placement,
        stamp: u64,
    ) -> Self {
        let mut ticket = Ticket::new(share, stripe, position, stamp);
        ticket.0.set_placement(placement);
        ticket
    }

    /// Returns whether the task has ended, or never will because the session has ended. This does not wait.
    #[inline]
    pub fn has_ended(&mut self) -> bool {
        self.0.has_ended()
    }

    /// Returns the result of the task without waiting for it.
    ///
    /// # Errors
    ///
    /// [`TaskError::Late`] if the task has not ended yet. Any other error says why the task has no result.
    #[inline]
    pub fn result(&mut self) -> Result<u32, TaskError> {
        if self.0.has_ended() { self.0.result(self.0.first) } else { Err(TaskError::Late) }
    }

    /// Waits for the result of the task.
    ///
    /// # Errors
    ///
    /// [`TaskError::Late`] if the deadline passes before the task ends; the task goes on and may be waited for again.
    /// Any other error says why the task has no result.
    #[inline]
    pub fn wait(&mut self, deadline: impl Into<Deadline>) -> Result<u32, TaskError> {
        self.0.wait(deadline.into())?;
        self.0.result(self.0.first)
    }

    /// Copies the reply of the task into `reply`, as many bytes as there is room for, and returns how many bytes the
    /// reply has. It is 0 if the handler gave no reply. This does not wait.
    ///
    /// # Errors
    ///
    /// [`TaskError::Late`] if the task has not ended yet. Any other error says why the task has no result, and then it
    /// has no reply either.
    pub fn reply_bytes(&mut self, reply: &mut [u8]) -> Result<usize, TaskError> {
        self.wait_bytes(Deadline::Now, reply)
    }

    /// Copies the reply of the task into `reply`, as many words as there is room for, and returns how many words hold
    /// the reply. This does not wait.
    ///
    /// # Errors
    ///
    /// Those of [`reply_bytes`](Ticket::reply_bytes).
    pub fn reply_words(&mut self, reply: &mut [u32]) -> Result<usize, TaskError> {
        self.wait_words(Deadline::Now, reply)
    }

    /// Waits for the task, copies its reply into `reply`, as many bytes as there is room for, and returns how many
    /// bytes the reply has. It is 0 if the handler gave no reply. The reply stays where it is until the ticket is
    /// dropped, so it may be read again, and so may the [`result`](Ticket::result).
    ///
    /// # Errors
    ///
    /// Those of [`wait`](Ticket::wait). A task that has no result has no reply either.
    pub fn wait_bytes(
        &mut self,
        deadline: impl Into<Deadline>,
        reply: &mut [u8],
    ) -> Result<usize, TaskError> {
        self.0.wait(deadline.into())?;
        Ok(self.0.reply(self.0.first)?.map_or(0, |place| place.read_bytes(reply)))
    }

    /// Waits for the task, copies its reply into `reply`, as many words as there is room for, and returns how many
    /// words hold the reply. If the length of the reply is not a multiple of four bytes, the last bytes of the last
    /// word are what the handler has stored there.
    ///
    /// # Errors
    ///
    /// Those of [`wait_bytes`](Ticket::wait_bytes).
    pub fn wait_words(
        &mut self,
        deadline: impl Into<Deadline>,
        reply: &mut [u32],
    ) -> Result<usize, TaskError> {
        self.0.wait(deadline.into())?;
        Ok(self.0.reply(self.0.first)?.map_or(0, |place| place.read_words(reply)))
    }

    /// Returns whether the task went to a near or to a far ring.
    pub fn placement(&self) -> Placement {
        self.0.placement()
    }

    /// Asks the kernel not to run the task. The kernel may already have taken it, so only the ticket says what became
    /// of the task: it ends as [`Cancelled`](TaskError::Cancelled), or as it would have ended without this call. A task
    /// of a resumable handler begins no further step; its error says how many had begun.
    pub fn cancel(&mut self) {
        if !self.0.has_ended() {
            self.0.cancel_at(self.0.first);
        }
    }

    /// Asks the kernel to begin no further step of the task until it is [resumed](Ticket::resume). A step that has
    /// begun goes on to its end, and a few more may begin before the kernel looks at what was asked. The task keeps its
    /// cell meanwhile, and nothing else waits for it, except for fences.
    ///
    /// This has an effect only on tasks of resumable handlers. Any other task runs in one step.
    pub fn pause(&mut self) {
        self.ask(CellAsk::Pause);
    }

    /// Asks the kernel to go on with the task, which was [paused](Ticket::pause) or has called `park`. If the task is
    /// paused, this ends the pause and nothing else. If it is not paused and has not called `park` yet, its next `park`
    /// does not wait. What several of these calls come to therefore does not depend on when the task calls `park`.
    ///
    /// This has an effect only on tasks of resumable handlers.
    pub fn resume(&mut self) {
        self.ask(CellAsk::Resume);
    }

    /// Whether the task was submitted to the session that has these rings.
    pub(super) fn is_of(&self, rings: &Rings) -> bool {
        std::ptr::eq(&*self.0.share.rings, rings)
    }

    /// Returns the number of the task's cell and its generation, if the task has a cell.
    pub(super) fn cell(&self) -> Option<(usize, u32)> {
        let stripe = self.0.stripe();
        let cell = (stripe.ring.slot_at(self.0.first), generation_at(self.0.first, stripe.ring.log2));
        stripe.has_cells().then_some(cell)
    }

    /// Asks something of the task, if it lives in a cell and has not ended.
    fn ask(&mut self, what: CellAsk) {
        if self.0.stripe().has_cells() && !self.0.has_ended() {
            self.0.share.ask_cell(self.0.stripe(), self.0.first, what);
        }
    }

    #[cfg(feature = "inject")]
    pub(super) fn slot_owner(&self) -> (&SessionShare, &Stripe) {
        (&self.0.share, self.0.stripe())
    }

    /// Returns the number of the stripe that the task is in, which is its index in
    /// [`Session::positions`](super::Session::positions). It is for messages and tests; no other call takes it.
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
