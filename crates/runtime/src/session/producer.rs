//! Producers: how threads submit tasks to a session, each through rings of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pelton_device::View64;

use super::cells::FreeCells;
use super::payload::PlaceMemory;
use super::place::Aim;
use super::rings::{Rings, Stripe};
use super::run::{RunHandle, ServedRings};
use super::span::Span;
use super::ticket::{HeldSlots, SessionShare, Ticket};
use crate::deadline::Deadline;
use crate::error::{SessionEnd, SubmitError};
use crate::kernel::{Placement, TenantId, UNIMPLEMENTED_OPS};
use crate::payload::Submission;
use crate::protocol::Opcode;
use crate::ring::{EndsSeen, HostRing, SlotMemory, TaskStage};
use crate::task::Task;

/// What a producer knows of one of its stripes. All positions are of this stripe.
#[derive(Debug)]
pub(super) struct StripeCursor {
    /// The number of the stripe among all stripes.
    pub number: u32,
    /// The position up to which tasks are published.
    pub tail: u64,
    /// The position up to which slots were given up by their tickets and taken back.
    pub free: u64,
    /// The position up to which tasks that were given up are known to have ended.
    pub seen: u64,
}

/// The ring of a stripe, as producers write to it.
pub(super) type StripeRing = HostRing<SlotMemory, View64>;

/// The stripe that the last tasks of a level went to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastStripe {
    pub stripe: u32,
    /// How many tasks in a row went there.
    pub count: u64,
    /// The near stripe that was used last.
    pub near: u32,
}

/// Submits tasks to a session on behalf of a tenant.
///
/// [`Session::producer`](super::Session::producer) returns one. A producer has rings of its own and is the only one
/// that writes to them, so it is used by one thread at a time; each thread takes its own producer.
#[derive(Debug)]
pub struct Producer {
    pub(super) share: Arc<SessionShare>,
    /// The run that is woken when tasks are published.
    run: RunHandle,
    index: u32,
    tenant: TenantId,
    /// The cursors of all stripes, by level and then by stripe, with near stripes first.
    pub(super) cursors: Vec<StripeCursor>,
    /// The stripe that was used last, by level.
    pub(super) last: Vec<LastStripe>,
    /// How many stripes each level has, and how many of them are near.
    pub(super) stripe_count: u32,
    pub(super) near_count: u32,
    /// How many slots a near stripe and the far stripe have; 0 where there is no such stripe.
    pub(super) near_slots: u64,
    pub(super) far_slots: u64,
    /// How many tasks can be submitted at once with the current aim.
    pub(super) largest: u64,
    /// How long a submit waits for room.
    pub(super) patience: Deadline,
    pub(super) aim: Aim,
    /// The producer's free cells, if the kernel has resumable handlers.
    pub(super) cells: Option<FreeCells>,
    stage: Box<TaskStage>,
}

impl Producer {
    pub(super) fn new(served: Arc<ServedRings>, index: u32) -> Self {
        let rings = served.rings.clone();
        let layout = rings.layout.clone();
        let ring = |level: u32| level * layout.producers + index;
        let stripe_count = layout.ring_stripes();
        let cursors = (0..layout.levels)
            .flat_map(|level| (0..stripe_count).map(move |k| (level, k)))
            .map(|(level, k)| {
                let number = layout.stripe_number(ring(level), k);
                let stripe = &rings.stripes[number];
                let free = stripe.free.load(Ordering::Relaxed);
                let tail = stripe.tail.load(Ordering::Relaxed);
                StripeCursor { number: number as u32, tail, free, seen: free }
            })
            .collect();
        let last = vec![LastStripe::default(); layout.levels as usize];
        let near_count = layout.bank(Placement::Near).map_or(0, |bank| bank.ring_stripes);
        let slots = |placement| layout.bank(placement).map_or(0, |bank| u64::from(bank.stripe_slots()));
        let (near_slots, far_slots) = (slots(Placement::Near), slots(Placement::Far));
        let tenant = layout.rings[index as usize].tenant;
        let (patience, aim) = (Deadline::Now, Aim::default());
        let producer = Producer {
            index,
            tenant,
            cursors,
            last,
            stripe_count,
            near_count,
            near_slots,
            far_slots,
            largest: 0,
            patience,
            aim,
            cells: rings.cells.as_ref().and_then(|cells| cells.take_free(index)),
            stage: Box::new(match rings.places {
                Some(_) => TaskStage::for_payloads(),
                None => TaskStage::default(),
            }),
            run: served.run_handle(),
            share: Arc::new(SessionShare { rings, served }),
        };
        producer.aim(aim)
    }

    /// Sets how long each submit may block its thread until there is room for the tasks, and returns the producer.
    ///
    /// The default is [`Deadline::Now`]: a full ring is [`SubmitError::Full`] at once.
    /// [`set_patience`](Producer::set_patience) changes the patience later, and
    /// [`submit_when_room`](Producer::submit_when_room) waits without blocking a thread.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use pelton::{Deadline, Session, Spec, device};
    /// # let session = Session::launch(&device::open("cpu")?, &Spec::default().producers(2))?;
    /// let waits = session.producer(0)?.patience(Duration::from_millis(20));
    /// let waits_while_the_session_runs = session.producer(0)?.patience(Deadline::Never);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn patience(mut self, patience: impl Into<Deadline>) -> Self {
        self.set_patience(patience);
        self
    }

    /// Sets whether the producer prefers latency or throughput, and returns the producer.
    /// [`set_aim`](Producer::set_aim) changes the aim later.
    pub fn aim(mut self, aim: Aim) -> Self {
        self.set_aim(aim);
        self
    }

    /// Sets how long each submit from now on may block its thread until there is room. See
    /// [`patience`](Producer::patience).
    pub fn set_patience(&mut self, patience: impl Into<Deadline>) {
        self.patience = patience.into();
    }

    /// Sets whether the producer prefers latency or throughput from now on. Tasks that were submitted before stay where
    /// they are.
    pub fn set_aim(&mut self, aim: Aim) {
        self.aim = aim;
        let near = u64::from(self.near_count) * self.near_slots;
        let far_only = aim == Aim::Throughput && self.far_slots > 0;
        self.largest = if far_only { self.far_slots } else { near.max(self.far_slots) };
    }

    /// Returns the tenant whose tasks the producer submits.
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// Returns how the session ended, or `None` while it runs. This works even after the [`Session`](super::Session)
    /// was dropped.
    pub fn session_end(&self) -> Option<SessionEnd> {
        self.share.served.session_end()
    }

    /// Checks whether a task could be submitted if there were room for it.
    ///
    /// A fence may still be refused when it is submitted, because only then is it known whether the tasks that it waits
    /// for are in the same stripe as the fence.
    ///
    /// # Errors
    ///
    /// The error with which [`submit`](Producer::submit) would refuse the task.
    #[inline]
    pub fn check_task(&self, task: &impl Submission) -> Result<(), SubmitError> {
        self.check_tasks(std::iter::once(*task)).map(|_| ())
    }

    /// Submits a task, and returns the ticket through which its result is read.
    ///
    /// If there is no room, this waits for as long as the producer's [`patience`](Producer::patience) says.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Full`] if there was no room in time, [`SubmitError::Ended`] if the session has ended, and other
    /// errors if the session cannot run such a task. If there is an error, the kernel has seen nothing of the task.
    ///
    /// ```
    /// use std::time::Duration;
    /// use pelton::{Opcode, Session, Spec, Task, device};
    ///
    /// let session = Session::launch(&device::open("cpu")?, &Spec::default())?;
    /// let mut producer = session.producer(0)?;
    /// let mut ticket = producer.submit(Task::new(Opcode::ATOMIC_ADD).args([1, 7]))?;
    /// assert_eq!(ticket.wait(Duration::from_secs(60)), Ok(0), "the old value of element 7");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn submit(&mut self, task: impl Submission) -> Result<Ticket, SubmitError> {
        if self.needs_cell(&task) {
            return self.submit_resumable(task);
        }
        self.submit_with(task, StripeRing::publish)
    }

    /// Submits a task whose line is written by `put`.
    #[inline]
    pub(super) fn submit_with(
        &mut self,
        task: impl Submission,
        put: impl FnOnce(&StripeRing, u64, &Task),
    ) -> Result<Ticket, SubmitError> {
        let (level, fenced) = self.check_tasks(std::iter::once(task))?;
        let stripe =
            self.find_room(level, 1, fenced, None)?.expect("one task never stands in several stripes");
        let (number, first, _, stamp) =
            self.write_tasks(level, stripe, 1, (), |rings, to, tail, _, (), _| {
                if let Some(places) = &rings.places {
                    places.write_payload(to.place_at(*tail), task.payload());
                }
                put(&to.ring, *tail, &task.task());
                *tail += 1;
            });
        Ok(Ticket::new(&self.share, number, first, stamp))
    }

    /// Submits tasks of one priority at once, either all of them or none, and returns the span through which their
    /// results are read. The kernel is woken once for all of them.
    ///
    /// The tasks stand in one stripe, in order. A stripe is the part of a near ring that one group of the kernel polls,
    /// and a far ring is a single stripe. If no stripe has room for all tasks but several near stripes together have,
    /// the tasks are spread over those, and a list of the pieces is allocated. The results are still in the order of
    /// submission. Tasks with a fence among them are never spread, because a fence waits for tasks of its own stripe
    /// only.
    ///
    /// The iterator is cloned and run twice, once to check the tasks and once to write them. Its `len` says how many
    /// tasks there are. If it yields more, the rest is ignored; if it yields fewer, the span is shorter. A task that
    /// only the second pass yields is not checked: it ends with a fault if the kernel cannot run it, and its payload is
    /// cut off if it is too long. If the iterator
    /// panics while tasks are being written, the tasks that were already written are run, and their results are
    /// discarded.
    ///
    /// # Errors
    ///
    /// Those of [`submit`](Producer::submit). Also [`SubmitError::TooLarge`] or [`SubmitError::TooLargeFenced`] if
    /// there can never be room for so many tasks, and [`SubmitError::MixedPriorities`].
    pub fn submit_all<I>(&mut self, tasks: I) -> Result<Span, SubmitError>
    where
        I: IntoIterator<Item: Submission>,
        I::IntoIter: ExactSizeIterator + Clone,
    {
        let tasks = tasks.into_iter();
        let wanted = tasks.len() as u64;
        if self.cells.is_some() && tasks.clone().take(wanted as usize).any(|task| self.needs_cell(&task)) {
            let tasks: Vec<I::Item> = tasks.take(wanted as usize).collect();
            // The iterator may yield something else the second time.
            return match tasks.is_empty() {
                true => self.submit_all(std::iter::empty::<Task>()),
                false => self.submit_with_resumable(&tasks),
            };
        }
        let (level, fenced) = self.check_tasks(tasks.clone().take(wanted as usize))?;
        let Some(stripe) = self.find_room(level, wanted, fenced, None)? else {
            return Ok(self.write_spread(level, wanted, tasks));
        };
        let (number, first, count, stamp) = self.write_tasks(level, stripe, wanted, tasks, publish_all);
        Ok(Span::new(&self.share, number, first, count, stamp))
    }

    /// Returns how many tasks can be submitted at once with the current aim, if there is no fence among them. This is
    /// never less than the number of slots in the geometry of the [`Spec`](crate::Spec). At most
    /// [`Spec::cells`](crate::Spec::cells()) of the tasks may be of resumable handlers, because that is how many of them
    /// a producer can have under way at once.
    #[inline]
    pub fn largest_batch(&self) -> u64 {
        self.largest
    }

    /// Writes tasks to a stripe that has room for them, and shows them to the kernel. Returns the number of the stripe,
    /// the position of the first task, the number of tasks, and the time stamp of the meter.
    #[inline(always)]
    pub(super) fn write_tasks<I>(
        &mut self,
        level: u32,
        stripe: u32,
        wanted: u64,
        tasks: I,
        put: impl FnOnce(&Rings, &Stripe, &mut u64, u64, I, &mut TaskStage),
    ) -> (u32, u64, u32, u64) {
        let cursor = &mut self.cursors[(level * self.stripe_count + stripe) as usize];
        let number = cursor.number;
        let first = cursor.tail;
        let rings = &*self.share.rings;
        let to = &rings.stripes[number as usize];
        debug_assert!(first + wanted - cursor.free <= to.ring.capacity(), "there is room");
        let stamp = rings.meter.stamp(first, first + wanted);
        let written =
            StripeWrite { share: &self.share, run: &mut self.run, to, first, tail: &mut cursor.tail };
        put(rings, to, written.tail, wanted, tasks, &mut self.stage);
        let count = written.finish();
        let last = &mut self.last[level as usize];
        let before = if last.stripe == stripe { last.count } else { 0 };
        let near = if stripe < self.near_count { stripe } else { last.near };
        *last = LastStripe { stripe, count: before + count, near };
        (number, first, count as u32, stamp)
    }

    /// Writes tasks to several near stripes, which together have room for them. It begins with the stripe after the one
    /// that was used last, and gives each stripe as many tasks as it has room for.
    #[cold]
    fn write_spread(
        &mut self,
        level: u32,
        wanted: u64,
        mut tasks: impl Iterator<Item = impl Submission>,
    ) -> Span {
        let mut pieces = Vec::with_capacity(self.near_count.min(wanted as u32) as usize);
        let (from, mut left, mut stamp) = (self.last[level as usize].near + 1, wanted, 0);
        for k in 0..self.near_count {
            let stripe = (from + k) % self.near_count;
            let count = self.free_slots(level, stripe, 1).min(left);
            if count == 0 {
                continue;
            }
            let (number, first, given, now) = self.write_tasks(level, stripe, count, &mut tasks, publish_all);
            // If the iterator panics later, dropping this gives the tasks up.
            pieces.push(HeldSlots::new(&self.share, number, first, given, 0));
            stamp = if stamp == 0 { now } else { stamp };
            left -= count;
            if left == 0 || u64::from(given) < count {
                break;
            }
        }
        Span::from_pieces(pieces, stamp)
    }

    /// Returns the number of this producer among all producers of the session.
    pub(super) fn index(&self) -> u32 {
        self.index
    }
}

/// Publishes at most `count` tasks in a stripe from position `tail` on, each after its payload.
#[inline(always)]
fn publish_all<T: Submission>(
    rings: &Rings,
    to: &Stripe,
    tail: &mut u64,
    count: u64,
    tasks: impl Iterator<Item = T>,
    stage: &mut TaskStage,
) {
    match &rings.places {
        None => to.ring.publish_all(tail, count, tasks.map(|task| task.task()), stage),
        Some(places) => publish_with_payloads((places, to), tail, count, tasks, stage),
    }
}

/// Publishes tasks of a session that has payloads or replies. The payload of a task is written when the ring takes the
/// task from the iterator, which is before it writes the task's line.
#[inline(never)]
fn publish_with_payloads<T: Submission>(
    (places, to): (&PlaceMemory, &Stripe),
    tail: &mut u64,
    count: u64,
    tasks: impl Iterator<Item = T>,
    stage: &mut TaskStage,
) {
    let placed = tasks.zip(*tail..).map(|(task, position)| {
        places.write_payload(to.place_at(position), task.payload());
        task.task()
    });
    to.ring.publish_all(tail, count, placed, stage);
}

/// Tasks that are being written to a stripe. Even if the iterator that yields the tasks panics, the producer's cursor
/// ends after the last line that the kernel may have taken.
struct StripeWrite<'p> {
    share: &'p SessionShare,
    run: &'p mut RunHandle,
    to: &'p Stripe,
    first: u64,
    tail: &'p mut u64,
}

impl StripeWrite<'_> {
    /// Shows the tasks that were written to the kernel, and returns how many there are.
    #[inline]
    fn finish(mut self) -> u64 {
        let count = self.show_to_kernel();
        // The caller makes tickets for the tasks, so `drop` must not give them up.
        std::mem::forget(self);
        count
    }

    /// Publishes the new tail and wakes the kernel. Returns how many tasks were written.
    #[inline]
    fn show_to_kernel(&mut self) -> u64 {
        let tail = *self.tail;
        self.to.ring.commit(tail);
        // Pairs with the acquire of the reaper and of other threads that look through published tasks.
        self.to.tail.store(tail, Ordering::Release);
        self.run.wake(self.share);
        tail - self.first
    }
}

/// The iterator has panicked, so there will be no ticket for the tasks that were written.
impl Drop for StripeWrite<'_> {
    #[cold]
    fn drop(&mut self) {
        let count = self.show_to_kernel();
        if count > 0 {
            self.to.ring.give_up(self.first, count as u32, EndsSeen::NotAll);
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        if let Some(cells) = &self.share.rings.cells {
            cells.put_free(self.index, self.cells.take());
        }
        self.share.rings.idle_producers().push(self.index);
    }
}

/// Checks that producers may submit an opcode, if the kernel has a handler for it.
pub(crate) fn check_submittable(op: Opcode) -> Result<(), SubmitError> {
    if UNIMPLEMENTED_OPS.contains(&op) {
        return Err(SubmitError::NotImplemented(op));
    }
    // Opcodes below those of handlers are built-in operations.
    let builtin = op.code() < *Opcode::ASSIGNED.start()
        || matches!(op, Opcode::LAUNCH_GRAPH | Opcode::SIGNAL | Opcode::PRINTF | Opcode::PACKED_SLOT);
    if builtin || !op.is_reserved() { Ok(()) } else { Err(SubmitError::NotSubmittable(op)) }
}
