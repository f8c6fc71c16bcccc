//! Who feeds a session: one thread at a time, with rings of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pelton_device::View64;

use super::core::{Core, State};
use super::ticket::{Span, Ticket};
use crate::deadline::{Deadline, Pause};
use crate::error::SubmitError;
use crate::kernel::{LATER, TenantId};
use crate::protocol::{Opcode, Priority};
use crate::ring::{Home, Ring};
use crate::task::Task;

/// Of so many tasks the first is written last. Whoever polls its line then finds all of them, and does not pull lines away
/// that are being written.
const CHUNK: usize = 64;

/// What a producer knows of one of its stripes.
#[derive(Debug)]
struct Side {
    tail: u64,
    free: u64,
    /// Up to where tasks that were given up are known to have ended.
    seen: u64,
}

/// Who writes the line of a task.
pub(super) trait Put {
    fn put(&self, ring: &Ring<Home, View64>, position: u64, task: &Task);
}

/// Lines as they must be.
pub(super) struct Whole;

impl Put for Whole {
    // A task that goes through memory on its way is read back in other pieces than it was written in. Such a read waits for
    // all stores before it, those to the ring among them, which are slow.
    #[inline(always)]
    fn put(&self, ring: &Ring<Home, View64>, position: u64, task: &Task) {
        ring.publish(position, task);
    }
}

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

/// Feeds a session for a tenant. There is one writer a ring, so it is used by one thread at a time; others have their own.
#[derive(Debug)]
pub struct Producer {
    core: Arc<Core>,
    index: u32,
    tenant: TenantId,
    /// By level, then by stripe.
    sides: Vec<Side>,
    /// The stripe that was used last, and how many tasks in a row went there, by level.
    runs: Vec<(u32, u64)>,
    patience: Patience,
}

impl Producer {
    pub(super) fn new(core: Arc<Core>, index: u32) -> Self {
        let layout = &core.layout;
        let ring = |level: u32| level * layout.producers + index;
        let sides = (0..layout.levels)
            .flat_map(|level| (0..layout.stripes).map(move |stripe| (level, stripe)))
            .map(|(level, stripe)| {
                let stripe = &core.stripes[core.stripe(ring(level), stripe)];
                let free = stripe.free.load(Ordering::Relaxed);
                Side { tail: stripe.tail.load(Ordering::Relaxed), free, seen: free }
            })
            .collect();
        let runs = vec![(0, 0); layout.levels as usize];
        let tenant = layout.rings[index as usize].tenant;
        Producer { index, tenant, sides, runs, patience: Patience::None, core }
    }

    /// Sets how long it waits for room.
    pub fn patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
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
        self.submit_with(task, Whole)
    }

    /// Submits a task, whose line is written by `put`.
    #[inline]
    pub(super) fn submit_with(&mut self, task: Task, put: impl Put) -> Result<Ticket, SubmitError> {
        let (stripe, first, stamp) = self.publish(std::iter::once(task), put)?;
        Ok(Ticket::new(&self.core, stripe, first, stamp))
    }

    /// Submits tasks of one priority at once: all of them, or none. They stand in one stripe, in order.
    pub fn submit_all<I>(&mut self, tasks: I) -> Result<Span, SubmitError>
    where
        I: IntoIterator<Item = Task>,
        I::IntoIter: ExactSizeIterator + Clone,
    {
        let tasks = tasks.into_iter();
        let count = tasks.len();
        let (stripe, first, stamp) = self.publish(tasks, Whole)?;
        Ok(Span::new(&self.core, stripe, first, count as u32, stamp))
    }

    /// Writes tasks to a stripe, and shows them to the kernel. Gives the stripe, the first position, and when.
    #[inline(always)]
    fn publish(
        &mut self,
        tasks: impl ExactSizeIterator<Item = Task> + Clone,
        put: impl Put,
    ) -> Result<(u32, u64, u64), SubmitError> {
        let wanted = tasks.len() as u64;
        let (level, fence) = self.level(tasks.clone())?;
        let stripe = self.room(level, wanted, fence)?;
        let place = (level * self.core.layout.stripes + stripe) as usize;
        let number = self.core.stripe(level * self.core.layout.producers + self.index, stripe);
        let to = &self.core.stripes[number];
        let side = &mut self.sides[place];
        let first = side.tail;
        let stamp = if self.core.samples(first, first + wanted) { self.core.now() } else { 0 };
        let mut tasks = tasks;
        while let Some(task) = tasks.next() {
            let head = side.tail;
            side.tail += 1;
            for task in tasks.by_ref().take(CHUNK - 1) {
                put.put(&to.ring, side.tail, &task);
                side.tail += 1;
            }
            put.put(&to.ring, head, &task);
        }
        to.ring.commit(side.tail);
        // Pairs with the acquire of whoever looks through what is published.
        to.tail.store(side.tail, Ordering::Release);
        self.core.run.wake();
        let run = &mut self.runs[level as usize];
        *run = (stripe, if run.0 == stripe { run.1 + wanted } else { wanted });
        Ok((number as u32, first, stamp))
    }

    /// Checks tasks before any is visible: their level, and how far back the first fence reaches that does not find enough
    /// tasks before it in the batch.
    #[inline]
    fn level(&self, tasks: impl Iterator<Item = Task>) -> Result<(u32, Option<u32>), SubmitError> {
        let levels = self.core.layout.levels;
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
        let slots = 1u64 << self.core.layout.log2;
        if wanted > slots {
            return Err(SubmitError::Large { wanted, slots });
        }
        let run = self.runs[level as usize];
        if let Some(count) = fence
            && u64::from(count) > run.1
            && self.core.layout.stripes > 1
        {
            return Err(SubmitError::Fence { count, within: run.1 });
        }
        let mut deadline = None;
        let mut pause = Pause::default();
        loop {
            if self.core.state() != State::Running {
                return Err(SubmitError::Ended);
            }
            let (stripe, room) = match fence {
                Some(_) => (run.0, self.free(level, run.0, wanted)),
                None => self.emptiest(level, wanted),
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

    /// Free slots of a stripe: those known to be free if they are enough, else all.
    #[inline]
    fn free(&mut self, level: u32, stripe: u32, wanted: u64) -> u64 {
        let number = self.core.stripe(level * self.core.layout.producers + self.index, stripe);
        let of = &self.core.stripes[number];
        let side = &mut self.sides[(level * self.core.layout.stripes + stripe) as usize];
        let slots = of.ring.capacity();
        if slots - (side.tail - side.free) < wanted {
            side.free = of.ring.reclaim(side.free, side.tail, &mut side.seen);
            of.free.store(side.free, Ordering::Relaxed);
        }
        slots - (side.tail - side.free)
    }

    /// The stripe with the least to do, and its free slots.
    #[inline]
    fn emptiest(&mut self, level: u32, wanted: u64) -> (u32, u64) {
        let stripes = self.core.layout.stripes;
        if stripes == 1 {
            return (0, self.free(level, 0, wanted));
        }
        let last = self.runs[level as usize].0;
        let mut best = (0, 0);
        for k in 0..stripes {
            // From the one after the last, so that equals take turns.
            let stripe = (last + 1 + k) % stripes;
            let backlog = self.backlog(level, stripe);
            let room = self.free(level, stripe, wanted);
            if room >= wanted && backlog == 0 {
                return (stripe, room);
            }
            if room > best.1 {
                best = (stripe, room);
            }
        }
        best
    }

    /// Tasks of a stripe that may not have ended.
    fn backlog(&mut self, level: u32, stripe: u32) -> u64 {
        let number = self.core.stripe(level * self.core.layout.producers + self.index, stripe);
        let of = &self.core.stripes[number];
        let side = &self.sides[(level * self.core.layout.stripes + stripe) as usize];
        match side.tail.checked_sub(1) {
            Some(last) if side.tail > of.start && of.ring.ended(last).is_none() => side.tail - side.free,
            _ => 0,
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
