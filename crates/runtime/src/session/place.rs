//! How a producer chooses where tasks go, near or far, to one stripe or to several, and waits until there is room.

use std::sync::atomic::Ordering;

use super::payload::check_payload;
use super::producer::{Producer, check_submittable};
use crate::deadline::{Deadline, PollBackoff};
use crate::error::SubmitError;
use crate::kernel::{FEW_TASKS, check_provided};
use crate::payload::Submission;
use crate::protocol::{Opcode, Priority};
use crate::task::Task;

/// How many near stripes are looked at in the search for one that has nothing to do.
const IDLE_LOOKS: u32 = 8;

/// Whether a producer prefers latency or throughput. It matters only in sessions that have both near and far rings.
///
/// [`Producer::aim`] sets it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Aim {
    /// The producer chooses. A few tasks at once go near if a near stripe has nothing to do, and all others go far. If
    /// the far ring has no room for them, they go near.
    #[default]
    Choose,
    /// Tasks go near, where the kernel sees them soonest, as long as there is room for them. After that they go far.
    Latency,
    /// Tasks always go far, which gives the most tasks per second from many producers. They do not go near even if the
    /// far ring is full, so that near slots stay free for producers that want latency.
    Throughput,
}

/// Whether there are fences among tasks that are submitted at once, and how far back they reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FenceReach {
    /// There is no fence, so the tasks may stand in several stripes.
    No,
    /// Every fence waits only for tasks that are submitted together with it.
    Within,
    /// Some fence waits for this many tasks that were submitted before.
    Back(u32),
}

impl FenceReach {
    /// Returns the reach with one more fence, which waits for `back` tasks that were submitted before.
    fn with_fence(self, back: u32) -> Self {
        match self {
            FenceReach::Back(most) => FenceReach::Back(most.max(back)),
            _ if back > 0 => FenceReach::Back(back),
            _ => FenceReach::Within,
        }
    }
}

impl Producer {
    /// Checks tasks before the kernel sees any of them. Returns their level, and how far back the fences among them
    /// reach.
    #[inline]
    pub(super) fn check_tasks<T: Submission>(
        &self,
        tasks: impl Iterator<Item = T> + Clone,
    ) -> Result<(u32, FenceReach), SubmitError> {
        if T::BRINGS {
            let sizes = self.share.rings.layout.places;
            tasks.clone().try_for_each(|task| check_payload(sizes, task.payload()))?;
        }
        if T::HAS_CONDITION {
            tasks.clone().try_for_each(|task| self.check_condition(&task))?;
        }
        let tasks = tasks.map(|task| task.task());
        let levels = self.share.rings.layout.levels;
        // Mostly all tasks are plain. The compiler vectorizes a loop that never ends early, or leaves it out.
        let plain = |task: Task| task.op.is_low_user() & (task.priority == Priority::Normal);
        if levels == 1 && tasks.clone().fold(true, |all, task| all & plain(task)) {
            return Ok((0, FenceReach::No));
        }
        let (mut priority, mut fenced) = (None, FenceReach::No);
        for (at, task) in tasks.enumerate() {
            if !task.op.is_low_user() {
                check_submittable(task.op)?;
                check_provided(task.op, &self.share.rings.layout)?;
                if task.op == Opcode::BATCH_FENCE {
                    fenced = fenced.with_fence(task.args[0].saturating_sub(at as u32));
                }
            }
            match priority {
                None if levels == 1 && task.priority != Priority::Normal => {
                    return Err(SubmitError::NoPriorities(task.priority));
                }
                None => priority = Some(task.priority),
                Some(first) if first != task.priority => {
                    return Err(SubmitError::MixedPriorities(first, task.priority));
                }
                Some(_) => {}
            }
        }
        let level = if levels == 1 { 0 } else { priority.unwrap_or_default().code() };
        Ok((level, fenced))
    }

    /// Checks that so many tasks could be submitted if the rings were empty. A fence that waits for tasks which were
    /// submitted before must go to the stripe where they are.
    #[inline]
    pub(super) fn check_size(&self, level: u32, wanted: u64, fenced: FenceReach) -> Result<(), SubmitError> {
        if fenced == FenceReach::No {
            let slots = self.largest;
            return if wanted > slots { Err(SubmitError::TooLarge { wanted, slots }) } else { Ok(()) };
        }
        let last = self.last[level as usize];
        if let FenceReach::Back(count) = fenced
            && u64::from(count) > last.count
            && self.stripe_count > 1
        {
            return Err(SubmitError::FenceReach { count, within: last.count });
        }
        let slots = match fenced {
            FenceReach::Back(_) if last.stripe < self.near_count => self.near_slots,
            FenceReach::Back(_) => self.far_slots,
            _ if self.aim == Aim::Throughput && self.far_slots > 0 => self.far_slots,
            _ => self.near_slots.max(self.far_slots),
        };
        if wanted > slots { Err(SubmitError::TooLargeFenced { wanted, slots }) } else { Ok(()) }
    }

    /// Waits for room, as long as the producer's patience says. Returns the stripe that has room for so many tasks, or
    /// `None` if several near stripes have room for them together. `deadline` is when the patience ends, if this submit
    /// has waited for something already.
    #[inline]
    pub(super) fn find_room(
        &mut self,
        level: u32,
        wanted: u64,
        fenced: FenceReach,
        mut deadline: Option<Deadline>,
    ) -> Result<Option<u32>, SubmitError> {
        self.check_size(level, wanted, fenced)?;
        let mut backoff = PollBackoff::default();
        loop {
            let state = &self.share.rings.state;
            if !state.is_running() {
                return Err(state.submit_error());
            }
            let (stripe, room) = self.choose_stripe(level, wanted, fenced);
            if room >= wanted {
                return Ok(stripe);
            }
            let full = SubmitError::Full { room, wanted };
            let deadline = *deadline.get_or_insert_with(|| self.patience.started());
            if deadline == Deadline::Now {
                return Err(full);
            }
            if backoff.is_slow() {
                self.share.served.check_for_end();
                if deadline.has_passed() {
                    return Err(full);
                }
            }
            backoff.pause();
        }
    }

    /// Chooses the stripe for so many tasks, and returns it with the number of its free slots. The stripe is `None` if
    /// the tasks should be spread over all near stripes, and the free slots are then those of all of these.
    #[inline]
    pub(super) fn choose_stripe(
        &mut self,
        level: u32,
        wanted: u64,
        fenced: FenceReach,
    ) -> (Option<u32>, u64) {
        let far = self.near_count;
        if let FenceReach::Back(_) = fenced {
            let stripe = self.last[level as usize].stripe;
            return (Some(stripe), self.free_slots(level, stripe, wanted));
        }
        if self.near_count == 0 {
            return (Some(far), self.free_slots(level, far, wanted));
        }
        if self.near_count == self.stripe_count {
            let (best, _) = self.emptiest_near(level, wanted, self.near_count);
            return self.one_stripe_or_all_near(level, wanted, fenced, best);
        }
        let (most, looks) = match self.aim {
            Aim::Choose => (FEW_TASKS, IDLE_LOOKS),
            Aim::Latency => (u64::MAX, self.near_count),
            Aim::Throughput => (0, 0),
        };
        if wanted <= most {
            let (best, idle) = self.emptiest_near(level, wanted, looks);
            if best.1 >= wanted && (idle || self.aim == Aim::Latency) {
                return (Some(best.0), best.1);
            }
        }
        let room = self.free_slots(level, far, wanted);
        if self.aim == Aim::Throughput || room >= wanted && self.aim == Aim::Choose {
            return (Some(far), room);
        }
        self.choose_second_best(level, wanted, fenced, room)
    }

    /// Chooses as [`choose_stripe`](Producer::choose_stripe) does, if no stripe of the preferred ring has room and the
    /// far ring has `far` free slots.
    #[cold]
    fn choose_second_best(
        &mut self,
        level: u32,
        wanted: u64,
        fenced: FenceReach,
        far: u64,
    ) -> (Option<u32>, u64) {
        let (best, _) = self.emptiest_near(level, wanted, self.near_count);
        let near = self.one_stripe_or_all_near(level, wanted, fenced, best);
        if near.1 >= wanted || near.1 > far && far < wanted { near } else { (Some(self.near_count), far) }
    }

    /// Returns the best near stripe if it has room for so many tasks or if they cannot be spread, and otherwise all
    /// near stripes.
    #[inline]
    fn one_stripe_or_all_near(
        &mut self,
        level: u32,
        wanted: u64,
        fenced: FenceReach,
        best: (u32, u64),
    ) -> (Option<u32>, u64) {
        // A single task needs one stripe. If a slot became free between two looks, the sum below would find room and
        // name no stripe.
        if best.1 >= wanted || wanted == 1 || fenced != FenceReach::No || self.near_count == 1 {
            return (Some(best.0), best.1);
        }
        (None, (0..self.near_count).map(|stripe| self.free_slots(level, stripe, self.near_slots)).sum())
    }

    /// Takes back all slots of a level that were given up.
    pub(super) fn reclaim_level(&mut self, level: u32) {
        for stripe in 0..self.stripe_count {
            self.free_slots(level, stripe, u64::MAX);
        }
    }

    /// Returns how many slots of a stripe are free. It takes back slots that were given up only if those that are
    /// already known to be free are not enough.
    #[inline]
    pub(super) fn free_slots(&mut self, level: u32, stripe: u32, wanted: u64) -> u64 {
        let cursor = &mut self.cursors[(level * self.stripe_count + stripe) as usize];
        let stripe = &self.share.rings.stripes[cursor.number as usize];
        let slots = stripe.ring.capacity();
        if slots - (cursor.tail - cursor.free) < wanted {
            let limit = stripe.reuse_limit(cursor.tail);
            cursor.free = stripe.ring.reclaim(cursor.free, limit, &mut cursor.seen);
            stripe.free.store(cursor.free, Ordering::Relaxed);
            // Who wants more than there are slots only takes back what there is.
            if limit < cursor.tail && wanted <= slots && slots - (cursor.tail - cursor.free) < wanted {
                self.share.rings.ask_checkpoint_for(stripe);
            }
        }
        slots - (cursor.tail - cursor.free)
    }

    /// Looks at some near stripes and returns the one with the most room, its free slots, and whether it has nothing to
    /// do.
    #[inline]
    fn emptiest_near(&mut self, level: u32, wanted: u64, looks: u32) -> ((u32, u64), bool) {
        let stripes = self.near_count;
        if stripes == 1 {
            return ((0, self.free_slots(level, 0, wanted)), self.is_stripe_idle(level, 0));
        }
        let last = self.last[level as usize].near;
        let mut best = (0, 0);
        for k in 0..looks {
            // More than a few stripes are looked at only if none of these has room.
            if k >= IDLE_LOOKS && best.1 >= wanted {
                break;
            }
            // The search begins with the stripe that was used last and goes on with those after it, so that equal
            // stripes take turns. If there are many tasks at once, the last ones still keep that stripe busy, so the
            // search begins after it.
            let stripe = (last + u32::from(wanted > FEW_TASKS) + k) % stripes;
            let idle = self.is_stripe_idle(level, stripe);
            let room = self.free_slots(level, stripe, wanted);
            if room >= wanted && idle {
                return ((stripe, room), true);
            }
            if room > best.1 {
                best = (stripe, room);
            }
        }
        (best, false)
    }

    /// Returns whether a stripe has nothing to do: its last task has ended, or it never had one.
    fn is_stripe_idle(&self, level: u32, stripe: u32) -> bool {
        let cursor = &self.cursors[(level * self.stripe_count + stripe) as usize];
        let stripe = &self.share.rings.stripes[cursor.number as usize];
        cursor.tail == stripe.start || stripe.ring.record_at(cursor.tail - 1).is_some()
    }
}
