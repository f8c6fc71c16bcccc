//! Who feeds a session: one thread at a time, with rings of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pelton_device::{Placement, View64};

use super::core::{Core, State, Stripe};
use super::ticket::{Held, Span, Ticket};
use crate::deadline::{Deadline, Pause};
use crate::error::SubmitError;
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

/// How long a producer waits for room.
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
    /// A few tasks at once go near if a stripe there has nothing to do, all others far.
    #[default]
    Choose,
    /// Tasks go near as long as there is room for them, where they are seen soonest.
    Latency,
    /// Tasks go far: the most a second from many producers.
    Throughput,
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
        let tenant = layout.rings[index as usize].tenant;
        let (patience, aim) = (Patience::default(), Aim::default());
        Producer {
            index,
            tenant,
            sides,
            last,
            stripes,
            near,
            patience,
            aim,
            stage: Box::default(),
            core: Arc::new(Held(core)),
        }
    }

    /// Sets how long it waits for room.
    pub fn patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// Sets what it cares for.
    pub fn aim(mut self, aim: Aim) -> Self {
        self.aim = aim;
        self
    }

    /// Whom it feeds the session for.
    pub fn tenant(&self) -> TenantId {
        self.tenant
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
        let (stripe, first, _, stamp) = self.publish(std::iter::once(task), |to, tail, _, _, _| {
            put(to, *tail, &task);
            *tail += 1;
        })?;
        Ok(Ticket::new(&self.core, stripe, first, stamp))
    }

    /// Submits tasks of one priority at once: all of them, or none. They stand in one stripe, in order.
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
        let (stripe, first, count, stamp) = self.publish(tasks.into_iter(), To::publish_all)?;
        Ok(Span::new(&self.core, stripe, first, count, stamp))
    }

    /// Writes tasks to a stripe, and shows them to the kernel. Gives the stripe, the first position, how many, and when.
    #[inline(always)]
    fn publish<I: ExactSizeIterator<Item = Task> + Clone>(
        &mut self,
        tasks: I,
        put: impl FnOnce(&To, &mut u64, u64, I, &mut Stage),
    ) -> Result<(u32, u64, u32, u64), SubmitError> {
        let wanted = tasks.len() as u64;
        let (level, fence) = self.level(tasks.clone())?;
        let stripe = self.room(level, wanted, fence)?;
        let side = &mut self.sides[(level * self.stripes + stripe) as usize];
        let number = side.number;
        let first = side.tail;
        let stamp = if self.core.samples(first, first + wanted) { self.core.now() } else { 0 };
        let to = &self.core.stripes[number as usize];
        let written = Written { core: &self.core, to, first, tail: &mut side.tail };
        put(&to.ring, written.tail, wanted, tasks, &mut self.stage);
        let count = written.keep();
        let last = &mut self.last[level as usize];
        let before = if last.stripe == stripe { last.count } else { 0 };
        let near = if stripe < self.near { stripe } else { last.near };
        *last = Last { stripe, count: before + count, near };
        Ok((number, first, count as u32, stamp))
    }

    /// Checks tasks before any is visible: their level, and how far back the first fence reaches that does not find enough
    /// tasks before it in the batch.
    #[inline]
    fn level(&self, tasks: impl Iterator<Item = Task> + Clone) -> Result<(u32, Option<u32>), SubmitError> {
        let levels = self.core.layout.levels;
        // Mostly there is nothing to say. A look that never ends early is made wide, or left out, by the compiler.
        let plain =
            |task: Task| (task.op.code().wrapping_sub(8) < 0xfff0 - 8) & (task.priority == Priority::Normal);
        if levels == 1 && tasks.clone().fold(true, |all, task| all & plain(task)) {
            return Ok((0, None));
        }
        let (mut priority, mut fence) = (None, None);
        for (at, task) in tasks.enumerate() {
            if task.op.code().wrapping_sub(8) >= 0xfff0 - 8 {
                submittable(task.op)?;
                if task.op == Opcode::BATCH_FENCE && fence.is_none() {
                    fence = task.args[0].checked_sub(at as u32).filter(|back| *back > 0);
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
        Ok((level, fence))
    }

    /// A stripe with room for so many tasks. A fence that reaches back over tasks submitted before goes where they are.
    #[inline]
    fn room(&mut self, level: u32, wanted: u64, fence: Option<u32>) -> Result<u32, SubmitError> {
        let slots = u64::from(self.core.layout.slots());
        if wanted > slots {
            return Err(SubmitError::Large { wanted, slots });
        }
        let last = self.last[level as usize];
        if let Some(count) = fence
            && u64::from(count) > last.count
            && self.stripes > 1
        {
            return Err(SubmitError::Fence { count, within: last.count });
        }
        let mut deadline = None;
        let mut pause = Pause::default();
        loop {
            if self.core.state() != State::Running {
                return Err(SubmitError::Ended);
            }
            let (stripe, room) = match fence {
                Some(_) => (last.stripe, self.free(level, last.stripe, wanted)),
                None => self.place(level, wanted),
            };
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

    /// The stripe for so many tasks, and its free slots.
    #[inline]
    fn place(&mut self, level: u32, wanted: u64) -> (u32, u64) {
        let far = self.near;
        if self.near == 0 {
            return (far, self.free(level, far, wanted));
        }
        if self.near == self.stripes {
            return self.emptiest(level, wanted, self.stripes).0;
        }
        let (most, looks) = match self.aim {
            Aim::Choose => (FEW, LOOKS),
            Aim::Latency => (u64::MAX, self.near),
            Aim::Throughput => (0, 0),
        };
        if wanted <= most {
            let (best, idle) = self.emptiest(level, wanted, looks);
            if best.1 >= wanted && (idle || self.aim == Aim::Latency) {
                return best;
            }
        }
        (far, self.free(level, far, wanted))
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
