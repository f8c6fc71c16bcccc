//! Who feeds a session: one thread at a time, with rings of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pelton_device::{Placement, View64};

use super::core::{Core, Stripe};
use super::span::Span;
use super::ticket::{Held, Hold, Ticket};
use crate::deadline::{Deadline, Pause};
use crate::error::{SessionEnd, SubmitError};
use crate::kernel::{LATER, TenantId};
use crate::protocol::{Opcode, Priority};
use crate::ring::{Home, Ring, Stage};
use crate::task::Task;

/// What a producer knows of one of its stripes.
#[derive(Debug)]
struct Side {
    /// Its number among all.
    number: u32,
    tail: u64,
    free: u64,
    /// Up to where tasks that were given up are known to have ended.
    seen: u64,
}

/// Where a producer writes to.
pub(super) type To = Ring<Home, View64>;

/// How long a producer blocks its thread until there is room. [`Producer::submit_when_room`] waits without blocking.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Patience {
    /// Not at all: a full ring is an error.
    #[default]
    None,
    /// As long as the session runs.
    Endless,
    /// So many milliseconds.
    Ms(u64),
}

/// So few tasks at once are better off near, where a session has near and far rings.
const FEW: u64 = 4;
/// So many near stripes are looked at for one that has nothing to do.
const LOOKS: u32 = 8;

/// What a producer cares for. It matters where a session has near and far rings; elsewhere tasks go where there are rings.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Aim {
    /// A few tasks at once go near if a stripe there has nothing to do, all others far. Where the far ring has no room for them
    /// they go near.
    #[default]
    Choose,
    /// Tasks go near as long as there is room for them, where they are seen soonest. Then they go far.
    Latency,
    /// Tasks go far: the most per second from many producers. They never go near, so the ring is full when the far one is, and
    /// near slots stay free for producers that want latency.
    Throughput,
}

/// Whether there are fences among tasks that are submitted at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fenced {
    /// There is none, so tasks may stand in several stripes.
    No,
    /// Each finds the tasks that it follows in the batch itself.
    Within,
    /// One reaches back over so many tasks that were submitted before.
    Back(u32),
}

impl Fenced {
    /// With one more fence, which reaches back over so many tasks before the batch.
    fn and(self, back: u32) -> Self {
        match self {
            Fenced::Back(most) => Fenced::Back(most.max(back)),
            _ if back > 0 => Fenced::Back(back),
            _ => Fenced::Within,
        }
    }
}

/// Where tasks of a level went last.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    stripe: u32,
    /// How many in a row went there.
    count: u64,
    /// The last near stripe.
    near: u32,
}

/// Feeds a session for a tenant. There is one writer a ring, so it is used by one thread at a time; others have their own.
#[derive(Debug)]
pub struct Producer {
    core: Arc<Held>,
    index: u32,
    tenant: TenantId,
    /// By level, then by stripe, near ones first.
    sides: Vec<Side>,
    /// By level.
    last: Vec<Last>,
    /// Stripes of a level, and how many of them are near.
    stripes: u32,
    near: u32,
    /// Slots of a near stripe and of the far one; 0 where there is none.
    near_slots: u64,
    far_slots: u64,
    /// The most tasks at once, as long as this is the aim.
    largest: u64,
    patience: Patience,
    aim: Aim,
    stage: Box<Stage>,
}

impl Producer {
    pub(super) fn new(core: Arc<Core>, index: u32) -> Self {
        let layout = &core.layout;
        let ring = |level: u32| level * layout.producers + index;
        let stripes = layout.stripes();
        let sides = (0..layout.levels)
            .flat_map(|level| (0..stripes).map(move |k| (level, k)))
            .map(|(level, k)| {
                let number = layout.stripe(ring(level), k);
                let stripe = &core.stripes[number];
                let free = stripe.free.load(Ordering::Relaxed);
                let tail = stripe.tail.load(Ordering::Relaxed);
                Side { number: number as u32, tail, free, seen: free }
            })
            .collect();
        let last = vec![Last::default(); layout.levels as usize];
        let near = layout.bed(Placement::Near).map_or(0, |bed| bed.stripes);
        let slots = |placement| layout.bed(placement).map_or(0, |bed| u64::from(bed.slots()));
        let (near_slots, far_slots) = (slots(Placement::Near), slots(Placement::Far));
        let tenant = layout.rings[index as usize].tenant;
        let (patience, aim) = (Patience::default(), Aim::default());
        let producer = Producer {
            index,
            tenant,
            sides,
            last,
            stripes,
            near,
            near_slots,
            far_slots,
            largest: 0,
            patience,
            aim,
            stage: Box::default(),
            core: Arc::new(Held(core)),
        };
        producer.aim(aim)
    }

    /// The same producer with this patience; [`set_patience`](Producer::set_patience) changes it later.
    pub fn patience(mut self, patience: Patience) -> Self {
        self.set_patience(patience);
        self
    }

    /// The same producer with this aim; [`set_aim`](Producer::set_aim) changes it later.
    pub fn aim(mut self, aim: Aim) -> Self {
        self.set_aim(aim);
        self
    }

    /// Sets how long it waits for room from now on.
    pub fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// Sets what it cares for from now on. Tasks that were submitted before stay where they are.
    pub fn set_aim(&mut self, aim: Aim) {
        self.aim = aim;
        let near = u64::from(self.near) * self.near_slots;
        let far_only = aim == Aim::Throughput && self.far_slots > 0;
        self.largest = if far_only { self.far_slots } else { near.max(self.far_slots) };
    }

    /// Whom it feeds the session for.
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// How its session ended, if it has: stopped, or lost and why.
    pub fn end_reason(&self) -> Option<SessionEnd> {
        self.core.ending()
    }

    /// Whether a task could be submitted if there were room for it. What a fence reaches is seen only then.
    #[inline]
    pub fn check(&self, task: &Task) -> Result<(), SubmitError> {
        self.level(std::iter::once(*task)).map(|_| ())
    }

    /// Submits a task.
    #[inline]
    pub fn submit(&mut self, task: Task) -> Result<Ticket, SubmitError> {
        self.submit_with(task, To::publish)
    }

    /// Submits a task, whose line is written by `put`.
    #[inline]
    pub(super) fn submit_with(
        &mut self,
        task: Task,
        put: impl FnOnce(&To, u64, &Task),
    ) -> Result<Ticket, SubmitError> {
        let (level, fenced) = self.level(std::iter::once(task))?;
        let stripe = self.room(level, 1, fenced)?.expect("one task never stands in several stripes");
        let (number, first, _, stamp) = self.write(level, stripe, 1, (), |to, tail, _, (), _| {
            put(to, *tail, &task);
            *tail += 1;
        });
        Ok(Ticket::new(&self.core, number, first, stamp))
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
        let (level, fenced) = self.level(tasks.clone())?;
        let Some(stripe) = self.room(level, wanted, fenced)? else {
            return Ok(self.spread(level, wanted, tasks));
        };
        let (number, first, count, stamp) = self.write(level, stripe, wanted, tasks, To::publish_all);
        Ok(Span::new(&self.core, number, first, count, stamp))
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
    fn write<I>(
        &mut self,
        level: u32,
        stripe: u32,
        wanted: u64,
        tasks: I,
        put: impl FnOnce(&To, &mut u64, u64, I, &mut Stage),
    ) -> (u32, u64, u32, u64) {
        let side = &mut self.sides[(level * self.stripes + stripe) as usize];
        let number = side.number;
        let first = side.tail;
        let slots = self.core.stripes[number as usize].ring.capacity();
        debug_assert!(first + wanted - side.free <= slots, "there is room");
        let stamp = if self.core.samples(first, first + wanted) { self.core.now() } else { 0 };
        let to = &self.core.stripes[number as usize];
        let written = Written { core: &self.core, to, first, tail: &mut side.tail };
        put(&to.ring, written.tail, wanted, tasks, &mut self.stage);
        let count = written.keep();
        let last = &mut self.last[level as usize];
        let before = if last.stripe == stripe { last.count } else { 0 };
        let near = if stripe < self.near { stripe } else { last.near };
        *last = Last { stripe, count: before + count, near };
        (number, first, count as u32, stamp)
    }

    /// Writes tasks to near stripes, which have room for them together: as many to each as it takes, from the one after the last on.
    #[cold]
    fn spread(&mut self, level: u32, wanted: u64, mut tasks: impl Iterator<Item = Task>) -> Span {
        let mut pieces = Vec::with_capacity(self.near.min(wanted as u32) as usize);
        let (from, mut left, mut stamp) = (self.last[level as usize].near + 1, wanted, 0);
        for k in 0..self.near {
            let stripe = (from + k) % self.near;
            let count = self.free(level, stripe, 1).min(left);
            if count == 0 {
                continue;
            }
            let (number, first, given, now) = self.write(level, stripe, count, &mut tasks, To::publish_all);
            // From here on they are given up if the iterator panics later.
            pieces.push(Hold::new(&self.core, number, first, given, 0));
            stamp = if stamp == 0 { now } else { stamp };
            left -= count;
            if left == 0 || u64::from(given) < count {
                break;
            }
        }
        Span::spread(pieces, stamp)
    }

    /// Checks tasks before any is visible: their level, and whether there are fences among them.
    #[inline]
    pub(super) fn level(
        &self,
        tasks: impl Iterator<Item = Task> + Clone,
    ) -> Result<(u32, Fenced), SubmitError> {
        let levels = self.core.layout.levels;
        // Mostly there is nothing to say. A look that never ends early is made wide, or left out, by the compiler.
        let plain =
            |task: Task| (task.op.code().wrapping_sub(8) < 0xfff0 - 8) & (task.priority == Priority::Normal);
        if levels == 1 && tasks.clone().fold(true, |all, task| all & plain(task)) {
            return Ok((0, Fenced::No));
        }
        let (mut priority, mut fenced) = (None, Fenced::No);
        for (at, task) in tasks.enumerate() {
            if task.op.code().wrapping_sub(8) >= 0xfff0 - 8 {
                submittable(task.op)?;
                if task.op == Opcode::BATCH_FENCE {
                    fenced = fenced.and(task.args[0].saturating_sub(at as u32));
                }
            }
            match priority {
                None if levels == 1 && task.priority != Priority::Normal => {
                    return Err(SubmitError::Priority(task.priority));
                }
                None => priority = Some(task.priority),
                Some(first) if first != task.priority => {
                    return Err(SubmitError::Mixed(first, task.priority));
                }
                Some(_) => {}
            }
        }
        let level = if levels == 1 { 0 } else { priority.unwrap_or_default().code() };
        Ok((level, fenced))
    }

    /// Whether so many tasks could be submitted if nothing else were there. A fence that reaches back over tasks submitted before goes
    /// where they are.
    #[inline]
    pub(super) fn fits(&self, level: u32, wanted: u64, fenced: Fenced) -> Result<(), SubmitError> {
        if fenced == Fenced::No {
            let slots = self.largest;
            return if wanted > slots { Err(SubmitError::Large { wanted, slots }) } else { Ok(()) };
        }
        let last = self.last[level as usize];
        if let Fenced::Back(count) = fenced
            && u64::from(count) > last.count
            && self.stripes > 1
        {
            return Err(SubmitError::Fence { count, within: last.count });
        }
        let slots = match fenced {
            Fenced::Back(_) if last.stripe < self.near => self.near_slots,
            Fenced::Back(_) => self.far_slots,
            _ if self.aim == Aim::Throughput && self.far_slots > 0 => self.far_slots,
            _ => self.near_slots.max(self.far_slots),
        };
        if wanted > slots { Err(SubmitError::Fenced { wanted, slots }) } else { Ok(()) }
    }

    /// A stripe with room for so many tasks; none if several near ones have room for them together.
    #[inline]
    fn room(&mut self, level: u32, wanted: u64, fenced: Fenced) -> Result<Option<u32>, SubmitError> {
        self.fits(level, wanted, fenced)?;
        let mut deadline = None;
        let mut pause = Pause::default();
        loop {
            if !self.core.running() {
                return Err(self.core.ended_submit());
            }
            let (stripe, room) = self.place(level, wanted, fenced);
            if room >= wanted {
                return Ok(stripe);
            }
            let full = SubmitError::Full { room, wanted };
            match self.patience {
                Patience::None => return Err(full),
                Patience::Ms(ms) => {
                    let deadline = *deadline.get_or_insert_with(|| Deadline::after_ms(ms));
                    if pause.slow() && deadline.passed() {
                        return Err(full);
                    }
                }
                Patience::Endless => {}
            }
            if pause.slow() {
                self.core.watch();
            }
            pause.turn();
        }
    }

    /// The stripe for so many tasks, or none if they are for several near ones; and the free slots there.
    #[inline]
    pub(super) fn place(&mut self, level: u32, wanted: u64, fenced: Fenced) -> (Option<u32>, u64) {
        let far = self.near;
        if let Fenced::Back(_) = fenced {
            let stripe = self.last[level as usize].stripe;
            return (Some(stripe), self.free(level, stripe, wanted));
        }
        if self.near == 0 {
            return (Some(far), self.free(level, far, wanted));
        }
        if self.near == self.stripes {
            let (best, _) = self.emptiest(level, wanted, self.near);
            return self.together(level, wanted, fenced, best);
        }
        let (most, looks) = match self.aim {
            Aim::Choose => (FEW, LOOKS),
            Aim::Latency => (u64::MAX, self.near),
            Aim::Throughput => (0, 0),
        };
        if wanted <= most {
            let (best, idle) = self.emptiest(level, wanted, looks);
            if best.1 >= wanted && (idle || self.aim == Aim::Latency) {
                return (Some(best.0), best.1);
            }
        }
        let room = self.free(level, far, wanted);
        if self.aim == Aim::Throughput || room >= wanted && self.aim == Aim::Choose {
            return (Some(far), room);
        }
        self.spill(level, wanted, fenced, room)
    }

    /// The same where there is no room in one stripe of the preferred ring, and the far one has so many free slots.
    #[cold]
    fn spill(&mut self, level: u32, wanted: u64, fenced: Fenced, far: u64) -> (Option<u32>, u64) {
        let (best, _) = self.emptiest(level, wanted, self.near);
        let near = self.together(level, wanted, fenced, best);
        if near.1 >= wanted || near.1 > far && far < wanted { near } else { (Some(self.near), far) }
    }

    /// The best near stripe if it has room for so many tasks or has to, else all near ones.
    #[inline]
    fn together(&mut self, level: u32, wanted: u64, fenced: Fenced, best: (u32, u64)) -> (Option<u32>, u64) {
        // One task waits for one stripe: slots may become free between two looks.
        if best.1 >= wanted || wanted == 1 || fenced != Fenced::No || self.near == 1 {
            return (Some(best.0), best.1);
        }
        (None, (0..self.near).map(|stripe| self.free(level, stripe, self.near_slots)).sum())
    }

    /// Takes all slots of a level back that were given up.
    pub(super) fn take_back(&mut self, level: u32) {
        for stripe in 0..self.stripes {
            self.free(level, stripe, u64::MAX);
        }
    }

    /// What it shares with its session.
    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    /// Its number among all producers.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Free slots of a stripe: those known to be free if they are enough, else all.
    #[inline]
    fn free(&mut self, level: u32, stripe: u32, wanted: u64) -> u64 {
        let side = &mut self.sides[(level * self.stripes + stripe) as usize];
        let of = &self.core.stripes[side.number as usize];
        let slots = of.ring.capacity();
        if slots - (side.tail - side.free) < wanted {
            side.free = of.ring.reclaim(side.free, side.tail, &mut side.seen);
            of.free.store(side.free, Ordering::Relaxed);
        }
        slots - (side.tail - side.free)
    }

    /// Of the first stripes, or so many of them, the one with the least to do, and its free slots; whether it has nothing to do.
    #[inline]
    fn emptiest(&mut self, level: u32, wanted: u64, looks: u32) -> ((u32, u64), bool) {
        let stripes = self.near;
        if stripes == 1 {
            return ((0, self.free(level, 0, wanted)), self.idle(level, 0));
        }
        let last = self.last[level as usize].near;
        let mut best = (0, 0);
        for k in 0..looks {
            // Of many, all are looked at only for room.
            if k >= LOOKS && best.1 >= wanted {
                break;
            }
            // The one that was used last, then those after it, so that equals take turns. Many tasks at once have kept it
            // busy, so more of them leave it alone.
            let stripe = (last + u32::from(wanted > FEW) + k) % stripes;
            let idle = self.idle(level, stripe);
            let room = self.free(level, stripe, wanted);
            if room >= wanted && idle {
                return ((stripe, room), true);
            }
            if room > best.1 {
                best = (stripe, room);
            }
        }
        (best, false)
    }

    /// Whether all tasks of a stripe are known to have ended.
    fn idle(&self, level: u32, stripe: u32) -> bool {
        let side = &self.sides[(level * self.stripes + stripe) as usize];
        let of = &self.core.stripes[side.number as usize];
        side.tail == of.start || of.ring.ended(side.tail - 1).is_some()
    }
}

/// What is being written to a stripe. Whatever the iterator does that gives the tasks, the producer knows in the end up to where there
/// are lines that the kernel may have taken.
struct Written<'p> {
    core: &'p Core,
    to: &'p Stripe,
    first: u64,
    tail: &'p mut u64,
}

impl Written<'_> {
    /// Shows what was written to the kernel, and says how many tasks these are.
    #[inline]
    fn keep(self) -> u64 {
        let count = self.show();
        // Nothing is given up.
        std::mem::forget(self);
        count
    }

    #[inline]
    fn show(&self) -> u64 {
        let tail = *self.tail;
        self.to.ring.commit(tail);
        // Pairs with the acquire of whoever looks through what is published.
        self.to.tail.store(tail, Ordering::Release);
        self.core.run.wake();
        tail - self.first
    }
}

/// The iterator has panicked: nobody will have a ticket for what was written.
impl Drop for Written<'_> {
    #[cold]
    fn drop(&mut self) {
        let count = self.show();
        if count > 0 {
            self.to.ring.give_up(self.first, count as u32, false);
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.core.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(self.index);
    }
}

/// Whether an opcode may be submitted to a session.
pub(crate) fn submittable(op: Opcode) -> Result<(), SubmitError> {
    if LATER.contains(&op) {
        return Err(SubmitError::Later(op));
    }
    let built = op.code() < 8 || matches!(op, Opcode::PRINTF | Opcode::PACKED_SLOT);
    let user = !op.reserved();
    if built || user { Ok(()) } else { Err(SubmitError::Opcode(op)) }
}
