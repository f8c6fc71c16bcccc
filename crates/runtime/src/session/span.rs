//! What a producer gets for tasks that it submits at once.
//!
//! They mostly stand in one stripe. Those that do not are held in pieces, in the order of submission.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::ticket::{HeldSlots, SessionShare};
use crate::deadline::Deadline;
use crate::error::TaskError;
use crate::kernel::Placement;
use crate::ring::BLOCK;

/// How the tasks of a span ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpanEnds {
    /// With a result.
    pub done: u32,
    /// With a fault.
    pub faults: u32,
    /// Cancelled.
    pub cancelled: u32,
    /// Never run, because the session ended.
    pub left: u32,
}

impl SpanEnds {
    /// Counts how a task ended, and gives its result, or 0.
    #[inline]
    fn count_end(&mut self, end: Result<u32, TaskError>) -> u32 {
        *match end {
            Ok(_) => &mut self.done,
            Err(TaskError::Fault(_)) => &mut self.faults,
            Err(TaskError::Cancelled) => &mut self.cancelled,
            Err(_) => &mut self.left,
        } += 1;
        end.unwrap_or(0)
    }
}

/// Tasks that were submitted at once. A span holds their slots until it is dropped.
///
/// A span is a future that says how its tasks ended. Whoever awaits it by reference keeps it, and can then look at each result:
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
    /// The first piece, and mostly the only one.
    hold: HeldSlots,
    rest: Option<Box<LaterPieces>>,
}

/// The pieces after the first of tasks that stand in several stripes.
#[derive(Debug)]
struct LaterPieces {
    holds: Vec<HeldSlots>,
    /// The tasks of all pieces.
    count: usize,
    /// When they were published, if their latency is measured; 0 if not.
    stamp: u64,
}

impl Span {
    #[inline]
    pub(super) fn new(share: &Arc<SessionShare>, stripe: u32, first: u64, count: u32, stamp: u64) -> Self {
        Span { hold: HeldSlots::new(share, stripe, first, count, stamp), rest: None }
    }

    /// Tasks in several stripes, of which there is at least one.
    pub(super) fn from_pieces(mut holds: Vec<HeldSlots>, stamp: u64) -> Self {
        let count = holds.iter().map(|hold| hold.count as usize).sum();
        let hold = holds.remove(0);
        Span { hold, rest: Some(Box::new(LaterPieces { holds, count, stamp })) }
    }

    /// How many tasks.
    #[inline]
    pub fn len(&self) -> usize {
        self.rest.as_ref().map_or(self.hold.count as usize, |rest| rest.count)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In how many stripes they stand: one, unless none had room for all of them.
    pub fn pieces(&self) -> usize {
        1 + self.rest.as_ref().map_or(0, |rest| rest.holds.len())
    }

    /// All pieces.
    fn holds(&self) -> impl Iterator<Item = &HeldSlots> {
        std::iter::once(&self.hold).chain(self.rest.iter().flat_map(|rest| &rest.holds))
    }

    /// Returns whether all tasks have ended, or never will because the session has. It does not wait.
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

    /// Waits until all tasks have ended, and says how. If the deadline passes before, the span is [`Late`](TaskError::Late) and may be waited
    /// for again.
    #[inline]
    pub fn wait(&mut self, deadline: impl Into<Deadline>) -> Result<SpanEnds, TaskError> {
        if !self.has_ended() {
            self.wait_for_pieces(deadline.into().started())?;
        }
        Ok(self.ends())
    }

    /// Waits for one piece after the other.
    fn wait_for_pieces(&mut self, deadline: Deadline) -> Result<(), TaskError> {
        self.hold.wait(deadline)?;
        if let Some(rest) = &mut self.rest {
            rest.holds.iter_mut().try_for_each(|hold| hold.wait(deadline))?;
            self.have_pieces_ended();
        }
        Ok(())
    }

    /// Returns the result of the task at an index, in the order of submission, without waiting for it. A task that has not ended yet is
    /// [`Late`](TaskError::Late). The result is `None` for an index past the last task.
    #[inline]
    pub fn result(&self, index: usize) -> Option<Result<u32, TaskError>> {
        (index < self.len()).then(|| self.result_at(index))
    }

    /// The result of a task that there is.
    #[inline]
    fn result_at(&self, index: usize) -> Result<u32, TaskError> {
        if self.rest.is_none() {
            self.hold.result(self.hold.first + index as u64)
        } else {
            self.result_in_pieces(index)
        }
    }

    /// The same in pieces.
    #[cold]
    fn result_in_pieces(&self, index: usize) -> Result<u32, TaskError> {
        let mut left = index as u64;
        for hold in self.holds() {
            if left < u64::from(hold.count) {
                return hold.result(hold.first + left);
            }
            left -= u64::from(hold.count);
        }
        Err(TaskError::Late)
    }

    /// Copies the results of the first tasks, as many as there is room for, in order; and says how they ended. 0 stands
    /// for a task that did not end well. This is the fast way to look at many.
    pub fn read_results(&self, results: &mut [u32]) -> SpanEnds {
        let mut ends = SpanEnds::default();
        let left = read_piece(&self.hold, results, &mut ends);
        if let Some(rest) = &self.rest {
            rest.holds.iter().fold(left, |left, hold| read_piece(hold, left, &mut ends));
        }
        ends
    }

    /// All results, in order.
    #[inline]
    pub fn results(&self) -> impl ExactSizeIterator<Item = Result<u32, TaskError>> {
        let hold = &self.hold;
        let rest = self.rest.as_ref().map_or(&[][..], |rest| &rest.holds);
        SpanResults { hold, rest, at: hold.first, end: hold.end_position(), left: self.len() }
    }

    /// Where it lies. Pieces all lie near.
    pub fn placement(&self) -> Placement {
        self.hold.placement()
    }

    /// Asks that those that have not ended be not run.
    pub fn cancel(&mut self) {
        for hold in self.holds() {
            let ring = &hold.stripe().ring;
            (hold.first..hold.end_position())
                .filter(|at| ring.record_at(*at).is_none())
                .for_each(|at| ring.cancel(at));
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

/// The results of a span, in order. It goes from piece to piece, so that what one task gave is found without asking for its piece.
struct SpanResults<'s> {
    hold: &'s HeldSlots,
    /// The pieces after this one.
    rest: &'s [HeldSlots],
    /// The next position, and the end of this piece.
    at: u64,
    end: u64,
    /// How many tasks there are from there on, in all pieces.
    left: usize,
}

impl SpanResults<'_> {
    /// Goes on to the next piece that has tasks.
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

/// Copies the results of a piece, as many as there is room for; the room that is left.
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

/// The results from a position on, as many as there is room for in this lap; how many these are.
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
            // One after the other: all of them have to end.
            for hold in &mut rest.holds {
                ready!(hold.poll_with(cx));
            }
            span.have_pieces_ended();
        }
        Poll::Ready(span.ends())
    }
}
