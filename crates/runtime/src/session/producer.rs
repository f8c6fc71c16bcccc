//! Who feeds a session: one thread at a time, with rings of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pelton_device::View64;

use super::place::Aim;
use super::rings::Stripe;
use super::run::{RunHandle, ServedRings};
use super::span::Span;
use super::ticket::{HeldSlots, SessionShare, Ticket};
use crate::deadline::Deadline;
use crate::error::{SessionEnd, SubmitError};
use crate::kernel::{Placement, TenantId, UNIMPLEMENTED_OPS};
use crate::protocol::Opcode;
use crate::ring::{EndsSeen, HostRing, SlotMemory, TaskStage};
use crate::task::Task;

/// What a producer knows of one of its stripes.
#[derive(Debug)]
pub(super) struct StripeCursor {
    /// The number of the stripe among all stripes.
    pub number: u32,
    /// Up to where tasks are published.
    pub tail: u64,
    /// Up to where slots were given up and taken back.
    pub free: u64,
    /// Up to where tasks that were given up are known to have ended.
    pub seen: u64,
}

/// Where a producer writes to.
pub(super) type StripeRing = HostRing<SlotMemory, View64>;

/// Where tasks of a level went last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastStripe {
    pub stripe: u32,
    /// How many in a row went there.
    pub count: u64,
    /// The last near stripe.
    pub near: u32,
}

/// Feeds a session for a tenant. There is one writer a ring, so it is used by one thread at a time; others have their own.
#[derive(Debug)]
pub struct Producer {
    pub(super) share: Arc<SessionShare>,
    /// The run that is woken when tasks are published.
    run: RunHandle,
    index: u32,
    tenant: TenantId,
    /// By level, then by stripe, near ones first.
    pub(super) cursors: Vec<StripeCursor>,
    /// By level.
    pub(super) last: Vec<LastStripe>,
    /// Stripes of a level, and how many of them are near.
    pub(super) stripe_count: u32,
    pub(super) near_count: u32,
    /// Slots of a near stripe and of the far one; 0 where there is none.
    pub(super) near_slots: u64,
    pub(super) far_slots: u64,
    /// The most tasks at once, as long as this is the aim.
    pub(super) largest: u64,
    /// How long a submit waits for room.
    pub(super) patience: Deadline,
    pub(super) aim: Aim,
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
            stage: Box::default(),
            run: served.run_handle(),
            share: Arc::new(SessionShare { rings, served }),
        };
        producer.aim(aim)
    }

    /// Sets how long each submit blocks its thread until there is room for the tasks, and returns the producer. Without patience, which is
    /// [`Deadline::Now`] and the default, a full ring is [`SubmitError::Full`] at once. [`set_patience`](Producer::set_patience) changes it
    /// later; [`submit_when_room`](Producer::submit_when_room) waits without blocking a thread.
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

    /// The same producer with this aim; [`set_aim`](Producer::set_aim) changes it later.
    pub fn aim(mut self, aim: Aim) -> Self {
        self.set_aim(aim);
        self
    }

    /// Sets how long each submit from now on blocks its thread until there is room; see [`patience`](Producer::patience).
    pub fn set_patience(&mut self, patience: impl Into<Deadline>) {
        self.patience = patience.into();
    }

    /// Sets what it cares for from now on. Tasks that were submitted before stay where they are.
    pub fn set_aim(&mut self, aim: Aim) {
        self.aim = aim;
        let near = u64::from(self.near_count) * self.near_slots;
        let far_only = aim == Aim::Throughput && self.far_slots > 0;
        self.largest = if far_only { self.far_slots } else { near.max(self.far_slots) };
    }

    /// Whom it feeds the session for.
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// How its session ended, if it has: stopped, or lost and why.
    pub fn session_end(&self) -> Option<SessionEnd> {
        self.share.served.session_end()
    }

    /// Whether a task could be submitted if there were room for it. What a fence reaches is seen only then.
    #[inline]
    pub fn check_task(&self, task: &Task) -> Result<(), SubmitError> {
        self.check_tasks(std::iter::once(*task)).map(|_| ())
    }

    /// Submits a task.
    #[inline]
    pub fn submit(&mut self, task: Task) -> Result<Ticket, SubmitError> {
        self.submit_with(task, StripeRing::publish)
    }

    /// Submits a task, whose line is written by `put`.
    #[inline]
    pub(super) fn submit_with(
        &mut self,
        task: Task,
        put: impl FnOnce(&StripeRing, u64, &Task),
    ) -> Result<Ticket, SubmitError> {
        let (level, fenced) = self.check_tasks(std::iter::once(task))?;
        let stripe = self.find_room(level, 1, fenced)?.expect("one task never stands in several stripes");
        let (number, first, _, stamp) = self.write_tasks(level, stripe, 1, (), |to, tail, _, (), _| {
            put(to, *tail, &task);
            *tail += 1;
        });
        Ok(Ticket::new(&self.share, number, first, stamp))
    }

    /// Submits tasks of one priority at once: all of them, or none.
    ///
    /// They stand in one stripe, in order. If no stripe has room for all of them but several near ones together have, they are
    /// spread over those; results are in the order of submission all the same. Only then is a list allocated. Tasks with
    /// a fence among them are never spread, since a fence follows what stands before it in its own stripe.
    ///
    /// The iterator is cloned and gone through twice: once to check the tasks, once to write them. Its `len` says how many
    /// tasks there are. If it gives more, the rest is left alone; if it gives fewer, the span is shorter. A task that only the second
    /// pass gives is not checked here, and ends with a fault if the kernel does not know what to do with it. If the
    /// iterator panics while tasks are written, those that the kernel can already see run, and their results are given up.
    pub fn submit_all<I>(&mut self, tasks: I) -> Result<Span, SubmitError>
    where
        I: IntoIterator<Item = Task>,
        I::IntoIter: ExactSizeIterator + Clone,
    {
        let tasks = tasks.into_iter();
        let wanted = tasks.len() as u64;
        let (level, fenced) = self.check_tasks(tasks.clone().take(wanted as usize))?;
        let Some(stripe) = self.find_room(level, wanted, fenced)? else {
            return Ok(self.write_spread(level, wanted, tasks));
        };
        let (number, first, count, stamp) =
            self.write_tasks(level, stripe, wanted, tasks, StripeRing::publish_all);
        Ok(Span::new(&self.share, number, first, count, stamp))
    }

    /// The most tasks that can be submitted at once, if there is no fence among them. It is at least as many as the geometry of
    /// the [`Spec`](crate::Spec) has slots.
    #[inline]
    pub fn largest_batch(&self) -> u64 {
        self.largest
    }

    /// Writes tasks to a stripe that has room for them, and shows them to the kernel. Gives the stripe's number, the first position,
    /// how many, and when.
    #[inline(always)]
    fn write_tasks<I>(
        &mut self,
        level: u32,
        stripe: u32,
        wanted: u64,
        tasks: I,
        put: impl FnOnce(&StripeRing, &mut u64, u64, I, &mut TaskStage),
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
        put(&to.ring, written.tail, wanted, tasks, &mut self.stage);
        let count = written.finish();
        let last = &mut self.last[level as usize];
        let before = if last.stripe == stripe { last.count } else { 0 };
        let near = if stripe < self.near_count { stripe } else { last.near };
        *last = LastStripe { stripe, count: before + count, near };
        (number, first, count as u32, stamp)
    }

    /// Writes tasks to near stripes, which have room for them together: as many to each as it takes, from the one after the last on.
    #[cold]
    fn write_spread(&mut self, level: u32, wanted: u64, mut tasks: impl Iterator<Item = Task>) -> Span {
        let mut pieces = Vec::with_capacity(self.near_count.min(wanted as u32) as usize);
        let (from, mut left, mut stamp) = (self.last[level as usize].near + 1, wanted, 0);
        for k in 0..self.near_count {
            let stripe = (from + k) % self.near_count;
            let count = self.free_slots(level, stripe, 1).min(left);
            if count == 0 {
                continue;
            }
            let (number, first, given, now) =
                self.write_tasks(level, stripe, count, &mut tasks, StripeRing::publish_all);
            // From here on they are given up if the iterator panics later.
            pieces.push(HeldSlots::new(&self.share, number, first, given, 0));
            stamp = if stamp == 0 { now } else { stamp };
            left -= count;
            if left == 0 || u64::from(given) < count {
                break;
            }
        }
        Span::from_pieces(pieces, stamp)
    }

    /// Its number among all producers.
    pub(super) fn index(&self) -> u32 {
        self.index
    }
}

/// What is being written to a stripe. Whatever the iterator does that gives the tasks, the producer knows in the end up to where there
/// are lines that the kernel may have taken.
struct StripeWrite<'p> {
    share: &'p SessionShare,
    run: &'p mut RunHandle,
    to: &'p Stripe,
    first: u64,
    tail: &'p mut u64,
}

impl StripeWrite<'_> {
    /// Shows what was written to the kernel, and says how many tasks these are.
    #[inline]
    fn finish(mut self) -> u64 {
        let count = self.show_to_kernel();
        // Nothing is given up.
        std::mem::forget(self);
        count
    }

    #[inline]
    fn show_to_kernel(&mut self) -> u64 {
        let tail = *self.tail;
        self.to.ring.commit(tail);
        // Pairs with the acquire of whoever looks through what is published.
        self.to.tail.store(tail, Ordering::Release);
        self.run.wake(self.share);
        tail - self.first
    }
}

/// The iterator has panicked: nobody will have a ticket for what was written.
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
        self.share.rings.idle_producers().push(self.index);
    }
}

/// Whether an opcode may be submitted to a session.
pub(crate) fn submittable(op: Opcode) -> Result<(), SubmitError> {
    if UNIMPLEMENTED_OPS.contains(&op) {
        return Err(SubmitError::NotImplemented(op));
    }
    let built = op.code() < 8 || matches!(op, Opcode::PRINTF | Opcode::PACKED_SLOT);
    let user = !op.is_reserved();
    if built || user { Ok(()) } else { Err(SubmitError::NotSubmittable(op)) }
}
