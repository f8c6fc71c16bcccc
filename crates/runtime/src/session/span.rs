//! Spans: what a producer gets for tasks that it submits at once.
//!
//! The tasks of a span are usually in one stripe. If they are in several, the span has one piece per stripe, in the
//! order of submission.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::ticket::{HeldSlots, SessionShare};
use crate::deadline::Deadline;
use crate::error::TaskError;
use crate::kernel::Placement;
use crate::ring::BLOCK;

/// How the tasks of a span ended: the number of tasks for each way to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpanEnds {
    /// Tasks that ended with a result.
    pub done: u32,
    /// Tasks that ended with a fault.
    pub faults: u32,
    /// Tasks that were cancelled.
    pub cancelled: u32,
    /// Tasks that have no record: the session ended before they did, or they have not ended yet.
    pub left: u32,
}

impl SpanEnds {
    /// Counts how a task ended, and returns its result, or 0 if it has none.
    #[inline]
    fn count_end(&mut self, end: Result<u32, TaskError>) -> u32 {
        *match end {
            Ok(_) => &mut self.done,
            Err(TaskError::Fault(_)) => &mut self.faults,
            Err(TaskError::Cancelled { .. }) => &mut self.cancelled,
            Err(_) => &mut self.left,
        } += 1;
        end.unwrap_or(0)
    }
}

/// A handle to tasks that were submitted at once, through which their results are read.
///
/// A span holds the slots of its tasks until it is dropped, and the slots can be used again after that.
///
/// A span is a future of [`SpanEnds`], which says how its tasks ended. Awaiting it by reference keeps the span, and
/// with it the results:
///
/// ```
/// # use pelton::{Opcode, Session, Spec, Task, device};
/// # use pelton::doc_examples::block_on;
/// # let session = Session::launch(&device::open("cpu")?, &Spec::default())?;
/// # let mut producer = session.producer(0)?;
/// # block_on(async {
/// let add = |by| Task::new(Opcode::ATOMIC_ADD).args([by, 0]);
/// let mut span = producer.submit_all([add(1), add(1), add(1)])?;
/// assert_eq!((&mut span).await.done, 3);
/// let mut results: Vec<u32> = span.results().collect::<Result<_, _>>()?;
/// results.sort();
/// assert_eq!(results, [0, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a span that is dropped gives its results up"]
#[derive(Debug)]
pub struct Span {
    /// The first piece, which is usually the only one.
    hold: HeldSlots,
    rest: Option<Box<LaterPieces>>,
}

/// The pieces of a span after the first, if its tasks stand in several stripes.
#[derive(Debug)]
struct LaterPieces {
    holds: Vec<HeldSlots>,
    /// The number of tasks of all pieces, including the first.
    count: usize,
    /// When the tasks were published, if their latency is measured, and 0 otherwise.
    stamp: u64,
}

impl Span {
    #[inline]
    pub(super) fn new(share: &Arc<SessionShare>, stripe: u32, first: u64, count: u32, stamp: u64) -> Self {
        Span { hold: HeldSlots::new(share, stripe, first, count, stamp), rest: None }
    }

    /// Makes the span of tasks that stand in several stripes. There must be at least one piece.
    pub(super) fn from_pieces(mut holds: Vec<HeldSlots>, stamp: u64) -> Self {
        let count = holds.iter().map(|hold| hold.count as usize).sum();
        let hold = holds.remove(0);
        Span { hold, rest: Some(Box::new(LaterPieces { holds, count, stamp })) }
    }

    /// Returns how many tasks the span has.
    #[inline]
    pub fn len(&self) -> usize {
        self.rest.as_ref().map_or(self.hold.count as usize, |rest| rest.count)
    }

    /// Returns whether the span has no tasks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many stripes the tasks are in. This is one, unless no single stripe had room for all of them.
    pub fn pieces(&self) -> usize {
        1 + self.rest.as_ref().map_or(0, |rest| rest.holds.len())
    }

    /// Returns all pieces, in the order of submission.
    fn holds(&self) -> impl Iterator<Item = &HeldSlots> {
        std::iter::once(&self.hold).chain(self.rest.iter().flat_map(|rest| &rest.holds))
    }

    /// Returns whether all tasks have ended, or never will because the session has ended. This does not wait.
    #[inline]
    pub fn has_ended(&mut self) -> bool {
        if self.rest.is_none() { self.hold.has_ended() } else { self.have_pieces_ended() }
    }

    #[cold]
    fn have_pieces_ended(&mut self) -> bool {
        let Span { hold, rest: Some(rest) } = self else { return self.hold.has_ended() };
        if !(hold.has_ended() && rest.holds.iter_mut().all(HeldSlots::has_ended)) {
            return false;
        }
        let stamp = std::mem::take(&mut rest.stamp);
        if stamp != 0 && (hold.was_early() || rest.holds.iter().any(HeldSlots::was_early)) {
            hold.share.rings.meter.record_since(stamp);
        }
        true
    }

    /// Waits until all tasks have ended, and returns how many ended in each way.
    ///
    /// # Errors
    ///
    /// [`TaskError::Late`] if the deadline passes first; the tasks go on and may be waited for again.
    #[inline]
    pub fn wait(&mut self, deadline: impl Into<Deadline>) -> Result<SpanEnds, TaskError> {
        if !self.has_ended() {
            self.wait_for_pieces(deadline.into().started())?;
        }
        Ok(self.ends())
    }

    /// Waits for one piece after the other, until a deadline that was started.
    fn wait_for_pieces(&mut self, deadline: Deadline) -> Result<(), TaskError> {
        self.hold.wait(deadline)?;
        if let Some(rest) = &mut self.rest {
            rest.holds.iter_mut().try_for_each(|hold| hold.wait(deadline))?;
            self.have_pieces_ended();
        }
        Ok(())
    }

    /// Returns the result of one task without waiting for it, or `None` if the index is past the last task. Tasks are
    /// numbered from 0 in the order of submission. A task that has not ended yet is [`TaskError::Late`].
    #[inline]
    pub fn result(&self, index: usize) -> Option<Result<u32, TaskError>> {
        (index < self.len()).then(|| self.result_at(index))
    }

    /// Returns the result of a task, whose index is known to be below the number of tasks.
    #[inline]
    fn result_at(&self, index: usize) -> Result<u32, TaskError> {
        if self.rest.is_none() {
            self.hold.result(self.hold.first + index as u64)
        } else {
            self.result_in_pieces(index)
        }
    }

    /// Returns the result of a task of a span that has several pieces.
    #[cold]
    fn result_in_pieces(&self, index: usize) -> Result<u32, TaskError> {
        self.find_task(index).map_or(Err(TaskError::Late), |(hold, position)| hold.result(position))
    }

    /// Returns the piece that a task is in and the task's position, or `None` if there is no such task.
    fn find_task(&self, index: usize) -> Option<(&HeldSlots, u64)> {
        let mut left = index as u64;
        for hold in self.holds() {
            if left < u64::from(hold.count) {
                return Some((hold, hold.first + left));
            }
            left -= u64::from(hold.count);
        }
        None
    }

    /// Copies the reply of one task into `reply`, as many bytes as there is room for, and returns how many bytes the
    /// reply has, or `None` if the index is past the last task. This does not wait: a task that has not ended yet is
    /// [`TaskError::Late`], and a task that has no result has no reply either.
    pub fn reply_bytes(&self, index: usize, reply: &mut [u8]) -> Option<Result<usize, TaskError>> {
        let (hold, position) = self.find_task(index)?;
        Some(hold.reply(position).map(|place| place.map_or(0, |place| place.read_bytes(reply))))
    }

    /// Copies the reply of one task into `reply`, as many words as there is room for, and returns how many words hold
    /// the reply. In all else this is like [`reply_bytes`](Span::reply_bytes).
    pub fn reply_words(&self, index: usize, reply: &mut [u32]) -> Option<Result<usize, TaskError>> {
        let (hold, position) = self.find_task(index)?;
        Some(hold.reply(position).map(|place| place.map_or(0, |place| place.read_words(reply))))
    }

    /// Copies the results of the first tasks into `results`, as many as it has room for, and returns how these tasks
    /// ended. A task that has no result gets a 0. For many tasks this is faster than [`results`](Span::results).
    pub fn read_results(&self, results: &mut [u32]) -> SpanEnds {
        let mut ends = SpanEnds::default();
        let left = read_piece(&self.hold, results, &mut ends);
        if let Some(rest) = &self.rest {
            rest.holds.iter().fold(left, |left, hold| read_piece(hold, left, &mut ends));
        }
        ends
    }

    /// Returns the results of all tasks, in the order of submission, without waiting for them. A task that has not
    /// ended yet is [`TaskError::Late`].
    #[inline]
    pub fn results(&self) -> impl ExactSizeIterator<Item = Result<u32, TaskError>> {
        let hold = &self.hold;
        let rest = self.rest.as_ref().map_or(&[][..], |rest| &rest.holds);
        SpanResults { hold, rest, at: hold.first, end: hold.end_position(), left: self.len() }
    }

    /// Returns whether the tasks went to a near or to a far ring. Tasks that are in several stripes are all near.
    pub fn placement(&self) -> Placement {
        self.hold.placement()
    }

    /// Asks the kernel not to run those tasks that have not ended. Each of them then ends as
    /// [`Cancelled`](TaskError::Cancelled) or, if the kernel had already taken it, as it would have ended without this
    /// call.
    pub fn cancel(&mut self) {
        for hold in self.holds() {
            let stripe = hold.stripe();
            for at in hold.first..hold.end_position() {
                if stripe.ring.record_at(at).is_none() {
                    hold.cancel_at(at);
                }
            }
        }
    }

    fn ends(&self) -> SpanEnds {
        let (mut ends, mut block) = (SpanEnds::default(), [0; BLOCK]);
        for hold in self.holds() {
            let mut left = hold.count as usize;
            while left > 0 {
                let at = hold.end_position() - left as u64;
                left -= read_lap(hold, at, &mut block[..left.min(BLOCK)], &mut ends);
            }
        }
        ends
    }
}

/// An iterator over the results of a span. It goes from piece to piece, so that it need not look up the piece of each
/// task.
struct SpanResults<'s> {
    hold: &'s HeldSlots,
    /// The pieces after the current one.
    rest: &'s [HeldSlots],
    /// The position of the next task, and the end of the current piece.
    at: u64,
    end: u64,
    /// How many tasks are left, in all pieces together.
    left: usize,
}

impl SpanResults<'_> {
    /// Moves on to the next piece that has tasks.
    #[cold]
    fn go_to_next_piece(&mut self) {
        while let ([next, rest @ ..], true) = (self.rest, self.at == self.end) {
            (self.hold, self.rest, self.at, self.end) = (next, rest, next.first, next.end_position());
        }
    }
}

impl Iterator for SpanResults<'_> {
    type Item = Result<u32, TaskError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.end {
            self.go_to_next_piece();
        }
        let at = self.at;
        if at == self.end {
            return None;
        }
        (self.at, self.left) = (at + 1, self.left - 1);
        Some(self.hold.result(at))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for SpanResults<'_> {}

/// Copies the results of a piece, as many as there is room for, and returns the room that is left.
#[inline]
fn read_piece<'r>(hold: &HeldSlots, results: &'r mut [u32], ends: &mut SpanEnds) -> &'r mut [u32] {
    let count = results.len().min(hold.count as usize);
    let (mut left, more) = results.split_at_mut(count);
    let mut at = hold.first;
    while !left.is_empty() {
        let count = read_lap(hold, at, left, ends);
        (at, left) = (at + count as u64, &mut left[count..]);
    }
    more
}

/// Copies results from a position on, as many as there is room for and as the current lap of the ring has, and returns
/// how many were copied.
#[inline]
fn read_lap(hold: &HeldSlots, at: u64, results: &mut [u32], ends: &mut SpanEnds) -> usize {
    let (count, well) = hold.stripe().ring.read_results(at, results);
    if well {
        ends.done += count as u32;
    } else {
        let each = results[..count].iter_mut().zip(at..);
        each.for_each(|(to, at)| *to = ends.count_end(hold.result(at)));
    }
    count
}

impl Future for Span {
    type Output = SpanEnds;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<SpanEnds> {
        let span = &mut *self;
        ready!(span.hold.poll_with(cx));
        if let Some(rest) = &mut span.rest {
            // One piece is awaited after the other, since all of them have to end.
            for hold in &mut rest.holds {
                ready!(hold.poll_with(cx));
            }
            span.have_pieces_ended();
        }
        Poll::Ready(span.ends())
    }
}
