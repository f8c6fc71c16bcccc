//! Waiting for room without blocking a thread.
//!
//! A ticket does not announce that it gives its slots up, because every ticket would pay for that, whether a producer
//! waits or not. So the reaper looks on behalf of producers that wait, as it does for the futures of tickets. It wakes
//! a producer when slots can be taken back that were held before, and the producer then sees whether they are enough.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use atomic_waker::AtomicWaker;

use super::place::FenceReach;
use super::producer::Producer;
use super::rings::Rings;
use super::span::Span;
use super::ticket::Ticket;
use crate::error::SubmitError;
use crate::payload::Submission;

/// A producer that waits for room, as the reaper sees it.
#[derive(Debug, Default)]
pub(crate) struct RoomWaiter {
    /// One more than the level of the ring in which the producer wants room; 0 if it does not wait.
    level: AtomicU32,
    waker: AtomicWaker,
}

impl RoomWaiter {
    fn register(&self, rings: &Rings, level: u32, cx: &Context<'_>) {
        self.waker.register(cx.waker());
        // Pairs with the reaper's acquire: it finds the waker if it sees the level.
        if self.level.swap(level + 1, Ordering::AcqRel) == 0 {
            rings.wait_list.rooms_waiting.fetch_add(1, Ordering::Relaxed);
            rings.wait_list.futures.fetch_add(1, Ordering::Relaxed);
        }
        rings.wait_list.event.wake();
    }

    fn unregister(&self, rings: &Rings) {
        if self.level.swap(0, Ordering::AcqRel) != 0 {
            rings.wait_list.rooms_waiting.fetch_sub(1, Ordering::Relaxed);
            rings.wait_list.futures.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Wakes the producer if slots of its ring can be taken back, or never will be because the session has ended.
    /// Returns whether it did. Only the reaper calls this.
    pub(crate) fn wake(&self, rings: &Rings, producer: u32) -> bool {
        // Pairs with the release of the producer that registered: its waker is in place, and the slots that it took back
        // are seen.
        let Some(level) = self.level.load(Ordering::Acquire).checked_sub(1) else { return false };
        let ring = level * rings.layout.producers + producer;
        let mut stripes = rings.ring_stripes(ring).chain(rings.producer_cells(producer));
        if rings.state.is_running() && !stripes.any(|stripe| stripe.can_reclaim()) {
            rings.ring_stripes(ring).for_each(|stripe| rings.ask_checkpoint_for(stripe));
            return false;
        }
        self.unregister(rings);
        self.waker.wake();
        true
    }
}

/// A future that waits until a producer has room for tasks.
struct RoomFuture<'p> {
    producer: &'p mut Producer,
    level: u32,
    wanted: u64,
    /// How many of the tasks need a cell.
    cells: u64,
    fenced: FenceReach,
}

impl RoomFuture<'_> {
    fn waiter(&self) -> (&Rings, &RoomWaiter) {
        let rings = &*self.producer.share.rings;
        (rings, &rings.wait_list.rooms[self.producer.index() as usize])
    }
}

impl Future for RoomFuture<'_> {
    type Output = Result<(), SubmitError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (level, wanted, fenced) = (self.level, (self.wanted, self.cells), self.fenced);
        if let Some(found) = self.producer.look_for_room(level, wanted, fenced) {
            return Poll::Ready(found);
        }
        let (rings, waiter) = self.waiter();
        waiter.register(rings, level, cx);
        // Slots that were given up before the reaper knew of this producer may be all that it waits for.
        self.producer.look_for_room(level, wanted, fenced).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for RoomFuture<'_> {
    fn drop(&mut self) {
        let (rings, waiter) = self.waiter();
        waiter.unregister(rings);
        waiter.waker.take();
    }
}

impl Producer {
    /// Submits a task as soon as there is room for it, and returns its ticket.
    ///
    /// While there is no room, the thread is free to run other futures, whatever the producer's patience. If the future
    /// is dropped before it is ready, nothing was submitted.
    ///
    /// # Errors
    ///
    /// Those of [`submit`](Producer::submit), except for [`SubmitError::Full`].
    ///
    /// ```
    /// # use pelton::{Geometry, Opcode, Session, Spec, Task, device};
    /// # use pelton::doc_examples::block_on;
    /// let session = Session::launch(&device::open("cpu")?, &Spec::new(Geometry::new(4)))?;
    /// let mut producer = session.producer(0)?;
    /// let sum: u32 = block_on(async {
    ///     let mut sum = 0;
    ///     for _ in 0..100 {
    ///         // There are four slots per stripe, and each ticket gives its slot back when it was awaited.
    ///         let ticket = producer.submit_when_room(Task::new(Opcode::ATOMIC_ADD).args([1, 0])).await?;
    ///         sum += ticket.await?;
    ///     }
    ///     Ok::<u32, Box<dyn std::error::Error>>(sum)
    /// })?;
    /// assert_eq!(sum, (0..100).sum());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn submit_when_room(&mut self, task: impl Submission) -> Result<Ticket, SubmitError> {
        self.wait_for_room(std::iter::once(task)).await?;
        self.submit(task)
    }

    /// Submits tasks at once, as [`submit_all`](Producer::submit_all) does, as soon as there is room for all of them,
    /// and returns their span.
    ///
    /// While there is no room, the thread is free to run other futures, whatever the producer's patience. If the future
    /// is dropped before it is ready, nothing was submitted.
    ///
    /// # Errors
    ///
    /// Those of [`submit_all`](Producer::submit_all), where [`SubmitError::Full`] can only mean that the iterator's
    /// `len` has grown.
    pub async fn submit_all_when_room<I>(&mut self, tasks: I) -> Result<Span, SubmitError>
    where
        I: IntoIterator<Item: Submission>,
        I::IntoIter: ExactSizeIterator + Clone,
    {
        let tasks = tasks.into_iter();
        self.wait_for_room(tasks.clone()).await?;
        // Only this producer uses up room, so there is still enough. If the iterator now wants more, the producer's
        // patience decides.
        self.submit_all(tasks)
    }

    async fn wait_for_room(
        &mut self,
        tasks: impl ExactSizeIterator<Item = impl Submission> + Clone,
    ) -> Result<(), SubmitError> {
        let wanted = tasks.len() as u64;
        let tasks = tasks.take(wanted as usize);
        let (level, fenced) = self.check_tasks(tasks.clone())?;
        self.check_size(level, wanted, fenced)?;
        let cells =
            if self.cells.is_some() { tasks.filter(|task| self.needs_cell(task)).count() as u64 } else { 0 };
        self.check_cells(cells)?;
        RoomFuture { producer: self, level, wanted, cells, fenced }.await
    }

    /// Returns `Ok` if there is room for the tasks, an error if the session has ended, and `None` if there is no room
    /// yet. Takes back every slot that was given up, so that the reaper wakes this producer only for slots that are
    /// given up later.
    fn look_for_room(
        &mut self,
        level: u32,
        (wanted, cells): (u64, u64),
        fenced: FenceReach,
    ) -> Option<Result<(), SubmitError>> {
        let state = &self.share.rings.state;
        if !state.is_running() {
            return Some(Err(state.submit_error()));
        }
        self.reclaim_level(level);
        if self.reclaim_cells() < cells {
            return None;
        }
        (self.choose_stripe(level, wanted, fenced).1 >= wanted).then_some(Ok(()))
    }
}
