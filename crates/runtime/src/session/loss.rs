//! What rings keep so that their session can [recover](super::recovery), and what the host finds out after a loss.
//!
//! When a run has ended unexpectedly, nothing in the memory of its device is used any more. What the host knows then lies in
//! its own memory:
//!
//! - **Records.** A task with a record has ended, and one without has not. Each stripe begins again at its first task
//!   without a record. Above that, up to the last task with a record, the next kernel
//!   [passes over](crate::kernel) tasks that have one.
//! - **Which tasks must not begin again.** A task of a [`Class::Once`](crate::kernel::Class) handler has said that it
//!   begins. If it has no record, the host writes one which says that the task is lost and may have run. The host may write
//!   records then because no kernel runs.
//! - **The epoch.** Fences leave it in the host's memory, and the host remembers what it has told callers. The next kernel
//!   goes on with the greatest of these. So the epoch never goes back, but it may skip a number.
//! - **The charges of tenants.** All tasks below the first one without a record were charged once, as long as the tenant
//!   had a quota. So the account of a tenant is what it was when its quota was set, and the tasks that have ended since. It is
//!   exact if the tenant has had a quota since the launch, and otherwise differs by the tasks that were under way when the
//!   quota was set.
//! - **Counters.** They go on with those of the last snapshot. So no snapshot shows less than one before it, but what was
//!   counted between the last snapshot and the loss is missing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use pelton_device::{DeviceError, View64};

use super::cell_loss::CellLossMemory;
use super::memory::{BufferMemories, RingMemory};
use super::quarantine::{Suspect, TrapHistory};
use super::rights::quota_limit;
use super::rings::{Rings, Stripe};
use crate::error::{Error, LossReason, SessionEnd};
use crate::kernel::spec::Recovery;
use crate::kernel::{BufferId, Class, Layout, Spec, Tenant, TenantId};
use crate::protocol::record::TaskEnd;
use crate::protocol::{CompletionRecord, Opcode, control};
use crate::ring::SlotLines;
use crate::simulated::{PlantedBug, has_bug};
use crate::telemetry::{LastRecovery, RecoverySnapshot};

/// After so many losses in a row between which no task has ended although some were under way, a session gives up: one of
/// the tasks probably brings the device down each time.
const MOST_VAIN_RECOVERIES: u32 = 8;

/// What rings keep so that their session can recover.
#[derive(Debug)]
pub(crate) struct RingRecovery {
    /// For each slot, the position of the last task that has said that it begins, and one more.
    begun: View64,
    /// The epoch after the last fence of each stripe.
    epochs: View64,
    /// The greatest epoch that a caller was told.
    epoch_told: AtomicU64,
    /// What is kept of tasks in cells, if there are cells.
    pub cells: Option<CellLossMemory>,
    /// The opcodes of the kernel's handlers whose tasks must not begin twice.
    once_ops: RwLock<Vec<Opcode>>,
    accounts: Mutex<[TenantAccount; Tenant::MAX_TENANTS as usize]>,
    /// The counters of the last snapshot, summed over groups.
    counters: Mutex<Vec<u64>>,
    history: Mutex<RecoveryHistory>,
}

/// What the host knows of the tasks that were charged to a tenant.
#[derive(Clone, Copy, Debug, Default)]
struct TenantAccount {
    /// How many tasks were charged when the quota was last set or lifted.
    charged: u64,
    /// How many tasks of the tenant had ended then, or `None` if the tenant has no quota since.
    ended: Option<u64>,
}

/// The recoveries of a session so far.
#[derive(Clone, Debug, Default)]
struct RecoveryHistory {
    count: u64,
    last: Option<LastRecovery>,
    /// How many tasks had ended at the last loss.
    ended: u64,
    /// How many times in a row no task has ended between two losses.
    vain: u32,
    traps: TrapHistory,
}

/// What the host has found out after a loss.
#[derive(Clone, Debug, Default)]
pub(super) struct LossFindings {
    /// The first position of each stripe without a record.
    pub starts: Vec<u64>,
    /// The position of each stripe below which all tasks with a record are.
    pub recovered: Vec<u64>,
    /// How many tasks that were submitted have not ended.
    pub unfinished: u64,
    /// How many tasks may have run and must not begin again.
    pub lost: u64,
    /// If only these tasks are shown to the next kernel, which they are.
    pub alone: Option<Vec<Suspect>>,
    /// How many tasks of all stripes have ended so far.
    ended: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RingRecovery {
    /// Makes the state for the rings of a `Spec`, or `None` if its sessions do not recover.
    pub(super) fn new(spec: &Spec, layout: &Layout, memory: &RingMemory) -> Result<Option<Self>, Error> {
        if spec.recovery == Recovery::Off {
            return Ok(None);
        }
        let mut accounts = [TenantAccount::default(); Tenant::MAX_TENANTS as usize];
        for tenant in &spec.tenants {
            accounts[tenant.id as usize].ended = quota_limit(tenant.quota).map(|_| 0);
        }
        let recovery = RingRecovery {
            begun: memory.words(BufferId::TaskBegun)?,
            epochs: memory.words(BufferId::Epochs)?,
            epoch_told: AtomicU64::new(0),
            cells: CellLossMemory::new(layout, memory)?,
            once_ops: RwLock::default(),
            accounts: Mutex::new(accounts),
            counters: Mutex::default(),
            history: Mutex::default(),
        };
        recovery.set_once_ops(spec);
        Ok(Some(recovery))
    }

    /// Notes which handlers of the next kernel have tasks that must not begin twice.
    pub(super) fn set_once_ops(&self, spec: &Spec) {
        let once = spec.handlers.iter().filter(|handler| handler.class == Class::Once);
        *self.once_ops.write().unwrap_or_else(PoisonError::into_inner) =
            once.map(|handler| handler.op).collect();
    }

    /// Whether a task without a record may have run in a kernel that is no more.
    pub(super) fn may_have_run(&self, stripe: &Stripe, position: u64) -> bool {
        let op = match self.cells.as_ref().filter(|_| stripe.has_cells()) {
            Some(cells) => cells.opcode(stripe, position),
            None => {
                let line = stripe.ring.lines.line(stripe.ring.slot_at(position));
                Opcode::from_code((line[0] >> 32) as u32)
            }
        };
        // A task that was cancelled does not show its opcode any more.
        let once = self.once_ops.read().unwrap_or_else(PoisonError::into_inner).contains(&op);
        !once || self.has_begun(stripe, position)
    }

    /// Whether a task has said that it begins.
    fn has_begun(&self, stripe: &Stripe, position: u64) -> bool {
        if let Some(cells) = self.cells.as_ref().filter(|_| stripe.has_cells()) {
            return cells.has_begun(stripe, position);
        }
        // Relaxed: the end of the run was seen, and with it everything that the run wrote.
        self.begun[stripe.place_at(position)].load(Ordering::Relaxed) == position + 1
    }

    /// Notes an epoch that a caller is told.
    pub(crate) fn tell_epoch(&self, epoch: u64) {
        self.epoch_told.fetch_max(epoch, Ordering::Relaxed);
    }

    /// Returns the epoch with which the next kernel begins.
    fn next_epoch(&self) -> u64 {
        let noted = self.epochs.iter().map(|word| word.load(Ordering::Relaxed)).max();
        noted.unwrap_or(0).max(self.epoch_told.load(Ordering::Relaxed))
    }

    /// Keeps the counters of a snapshot.
    pub(crate) fn keep_counters(&self, sums: &[u64]) {
        *lock(&self.counters) = sums.to_vec();
    }

    /// Notes that the quota of a tenant was set or lifted, after so many tasks were charged.
    pub(super) fn note_quota(&self, rings: &Rings, tenant: TenantId, charged: u64, quota: Option<u64>) {
        let account = &mut lock(&self.accounts)[tenant as usize];
        if account.ended.is_some() != quota.is_some() {
            let starts = rings.slot_stripes().iter().map(|stripe| stripe.first_unfinished());
            let ended = ended_tasks(rings, &starts.collect::<Vec<_>>(), tenant);
            *account = TenantAccount { charged, ended: quota.map(|_| ended) };
        }
    }

    /// Returns how many times the session has recovered.
    pub(super) fn count(&self) -> u64 {
        lock(&self.history).count
    }

    /// Returns what a snapshot shows.
    pub(crate) fn snapshot(&self) -> RecoverySnapshot {
        let history = lock(&self.history);
        RecoverySnapshot { count: history.count, last: history.last.clone() }
    }

    /// Notes a recovery, and returns what was known of the one before.
    pub(super) fn note_recovery(&self, last: LastRecovery) -> Option<LastRecovery> {
        let mut history = lock(&self.history);
        history.count += 1;
        history.last.replace(last)
    }

    /// Takes back a recovery that was noted, because the kernel was not launched.
    pub(super) fn take_back(&self, before: Option<LastRecovery>) {
        let mut history = lock(&self.history);
        history.count -= 1;
        history.last = before;
    }

    /// Notes when the kernel was launched in the recovery that was noted last, and how long that took.
    pub(super) fn note_launched(&self, at: Duration, took: Duration) {
        if let Some(last) = &mut lock(&self.history).last {
            (last.at, last.took) = (at, took);
        }
    }

    /// Notes a loss, and returns whether it makes sense to go on.
    pub(super) fn is_worth_it(&self, found: &LossFindings) -> bool {
        let mut history = lock(&self.history);
        let vain = found.unfinished > 0 && found.ended == history.ended;
        history.vain = if vain { history.vain + 1 } else { 0 };
        history.ended = found.ended;
        history.vain < MOST_VAIN_RECOVERIES
    }

    /// Returns the tasks of which one probably makes the kernel trap each time, if there is a reason to look for it.
    pub(super) fn suspects(
        &self,
        rings: &Rings,
        reason: LossReason,
        found: &LossFindings,
    ) -> Option<Vec<Suspect>> {
        let mut history = lock(&self.history);
        let launched = history.last.as_ref().map_or(Duration::ZERO, |last| last.at);
        let ran_for = rings.meter.uptime().saturating_sub(launched);
        let unfinished = match reason {
            LossReason::Trap => rings.suspects(self, &found.starts),
            _ => Vec::new(),
        };
        history.traps.note_loss(reason, ran_for, &unfinished)
    }

    /// Writes what the host knows into the memory of a kernel that begins after a loss, whose buffers have their first
    /// content.
    pub(super) fn restore(
        &self,
        rings: &Rings,
        found: &LossFindings,
        (spec, layout): (&Spec, &Layout),
        memories: &BufferMemories,
    ) -> Result<(), Error> {
        if let Some(cells) = &self.cells {
            cells.restore(rings, (spec, layout), found.alone.as_deref(), memories)?;
        }
        let ignored = has_bug(PlantedBug::IgnoredRecords);
        let recovered = if ignored { &found.starts } else { &found.recovered };
        memories.need(BufferId::Recovered)?.upload(0, recovered)?;
        let words = memories.need(BufferId::Control)?;
        words.upload(control::EPOCH as usize, &[self.next_epoch()])?;
        for (tenant, account) in (0..).zip(&*lock(&self.accounts)) {
            let since = account
                .ended
                .map_or(0, |ended| ended_tasks(rings, &found.starts, tenant).saturating_sub(ended));
            words.upload((control::CLAIMS + tenant) as usize, &[account.charged + since])?;
        }
        let mut counters = lock(&self.counters).clone();
        // These are counted in the shared words, and not by groups.
        for word in [control::EPOCH, control::LOG_LOST] {
            if let Some(count) = counters.get_mut(word as usize) {
                *count = 0;
            }
        }
        Ok(memories.need(BufferId::Rows)?.upload(0, &counters)?)
    }
}

/// Returns how many tasks of a tenant have ended below the first ones that have not.
fn ended_tasks(rings: &Rings, first_unfinished: &[u64], tenant: TenantId) -> u64 {
    let layout = &rings.layout;
    let of_tenant = (0u32..).zip(&layout.rings).filter(|(_, ring)| ring.tenant == tenant);
    let stripes = of_tenant
        .flat_map(|(ring, _)| (0..layout.ring_stripes()).map(move |k| layout.stripe_number(ring, k)));
    stripes.map(|at| first_unfinished[at] - rings.stripes[at].start).sum()
}

/// Returns how many tasks have ended in the cells of a stripe, as far as their generations tell.
fn ended_uses(stripe: &Stripe) -> u64 {
    let records = stripe.ring.done.iter().skip(stripe.ring.first).take(stripe.cell_uses.len());
    records.map(|word| u64::from(CompletionRecord(word.load(Ordering::Acquire)).generation())).sum()
}

impl Rings {
    /// Whether the session goes on after a run has ended in this way. It does if the run is certainly over.
    pub(super) fn recovers_from(&self, end: &SessionEnd) -> bool {
        let over = match end {
            SessionEnd::Lease(_) | SessionEnd::Returned => true,
            SessionEnd::Device(error) => {
                matches!(**error, DeviceError::Lost(_) | DeviceError::Fault { .. })
            }
            SessionEnd::Stopped | SessionEnd::NotRecovered(_) => false,
        };
        over && self.recovery.is_some()
    }

    /// Finds out which tasks have ended after a run is no more, and ends those that may have run and must not begin again.
    /// Only the thread that recovers calls this, and no run is alive.
    pub(super) fn settle_loss(&self, recovery: &RingRecovery, reason: LossReason) -> LossFindings {
        let mut found = LossFindings::default();
        if let Some(cells) = &recovery.cells {
            found.lost = cells.settle(self, reason);
            let adopted = |stripe| cells.adopted_in(self, stripe).len() as u64;
            found.unfinished = self.cell_stripes().iter().map(adopted).sum();
            found.ended = self.cell_stripes().iter().map(ended_uses).sum();
        }
        for stripe in self.slot_stripes() {
            let free = stripe.free.load(Ordering::Acquire);
            // A producer notes its tail after it has published, so the run may have taken tasks beyond the tail.
            let (end, tail) = (free + stripe.ring.capacity(), stripe.tail.load(Ordering::Acquire));
            for position in stripe.ring.frontier(free, end)..end {
                if stripe.ring.record_at(position).is_none() && recovery.has_begun(stripe, position) {
                    stripe.ring.post_end(position, TaskEnd::Lost(reason));
                    found.lost += 1;
                }
            }
            let first = stripe.ring.frontier(free, end);
            let mut recovered = first;
            found.ended += first - stripe.start;
            for position in first..end {
                if stripe.ring.record_at(position).is_some() {
                    recovered = position + 1;
                    found.ended += 1;
                } else if position < tail {
                    found.unfinished += 1;
                    if let Some(places) = &self.places {
                        places.forget_reply(stripe.place_at(position));
                    }
                }
            }
            found.starts.push(first);
            found.recovered.push(recovered);
        }
        found
    }
}
