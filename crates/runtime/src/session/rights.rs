//! The rights and the credit of tenants, which can be changed while the kernel runs.
//!
//! **The promise.** When one of these calls returns, no task that is submitted afterwards begins under the old value,
//! provided that the submitting thread knows of the return. Tasks that were submitted before may begin under either
//! value. If the groups of the kernel read the host's words themselves, storing the new value is all that it takes.
//! Otherwise the call waits until the kernel has taken the change over, which takes microseconds and does not depend on
//! how long tasks run.
//!
//! **Credit.** A tenant may have a quota. Each of its tasks is then charged when it begins. When as many tasks have
//! been charged as the quota says, further tasks wait until there is more credit. A packed slot counts as one task,
//! whatever it holds, and so does the launch of a graph. Spawned tasks are charged when room for them is reserved.
//! Tasks that begin while there is no quota are not charged.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};

use super::Session;
use crate::deadline::PollBackoff;
use crate::error::Error;
use crate::kernel::kept::check_mask;
use crate::kernel::{BufferId, Tenant, TenantId};
use crate::protocol::{Opcode, control};
use crate::telemetry::LogPosition;

/// The bit of a quota's control word which says that the tenant has a quota.
const QUOTA_IS_SET: u32 = 1 << 31;

/// The changes of control words that the host has made so far. They are made one at a time, under a lock.
#[derive(Debug)]
pub(crate) struct ControlChanges {
    /// How many changes there have been, which tells one from the next.
    count: u32,
    /// For each tenant, how many tasks may be charged in all, or `None` if there is no limit.
    quotas: [Option<u64>; Tenant::MAX_TENANTS as usize],
    /// The masks of tenants that are paused.
    paused: [Option<u32>; Tenant::MAX_TENANTS as usize],
}

impl ControlChanges {
    /// Begins with the quotas of the `Spec`, before any change.
    pub(super) fn new(tenants: &[Tenant]) -> Mutex<Self> {
        let mut quotas = [None; Tenant::MAX_TENANTS as usize];
        for tenant in tenants {
            quotas[tenant.id as usize] = quota_limit(tenant.quota);
        }
        Mutex::new(ControlChanges { count: 0, quotas, paused: [None; Tenant::MAX_TENANTS as usize] })
    }
}

/// Returns how many tasks a quota allows in all, or `None` for a quota of 0, which is no limit.
pub(crate) fn quota_limit(quota: u32) -> Option<u64> {
    (quota > 0).then_some(quota.into())
}

/// Returns the control word for a quota.
pub(crate) fn quota_word(quota: Option<u64>) -> u32 {
    quota.map_or(0, |quota| quota as u32 | QUOTA_IS_SET)
}

impl Session {
    fn changes(&self) -> MutexGuard<'_, ControlChanges> {
        self.changes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Changes a control word, and waits until the change holds for every task that is submitted from then on.
    fn change_word(&self, changes: &mut ControlChanges, word: u32, value: u32) -> Result<(), Error> {
        let words = self.running.lock_words();
        self.change_word_behind(words, changes, word, value)
    }

    /// Does what [`change_word`](Session::change_word) does. The caller has locked the words, so that a kernel that begins
    /// after a loss copies them either before or after the change, and if before, is told of it.
    fn change_word_behind(
        &self,
        words: MutexGuard<'_, ()>,
        changes: &mut ControlChanges,
        word: u32,
        value: u32,
    ) -> Result<(), Error> {
        // Relaxed: a task that is submitted later is published with a release, and so is CHANGED.
        self.rings().host_words[word as usize].store(value, Ordering::Relaxed);
        if self.kernel().layout.keepers > 0 {
            changes.count = changes.count.wrapping_add(1);
            let change = changes.count << 8 | word;
            // Pairs with the acquire of the group that keeps the control words: it sees the word that has changed.
            self.rings().host_words[control::CHANGED as usize].store(change, Ordering::Release);
            drop(words);
            self.served().wake();
            self.await_keepers(change)?;
        } else {
            drop(words);
        }
        // Groups that had found no task that they were allowed to run look again.
        self.served().wake();
        Ok(())
    }

    /// Waits until all keepers of the control words have answered that they have taken a change over.
    fn await_keepers(&self, change: u32) -> Result<(), Error> {
        let mut backoff = PollBackoff::default();
        let mut kernel = self.kernel();
        loop {
            // A session that recovers on another device has other keepers, or none.
            let keepers = kernel.layout.keepers as usize;
            if keepers == 0 {
                return Ok(());
            }
            let acks = kernel.memories.need(BufferId::Acks)?.view32().ok_or(Error::Internal("acks"))?;
            // Pairs with the kernel's release: tasks that are submitted from here on run under the new value.
            if acks[..keepers].iter().all(|ack| ack.load(Ordering::Acquire) == change) {
                return Ok(());
            }
            if !self.rings().state.is_running() {
                return Err(self.rings().state.ended_error());
            }
            if backoff.is_slow() {
                self.served().check_for_end();
                kernel = self.kernel();
            }
            backoff.pause();
        }
    }

    /// Tells the kernel how far the host has read the log, unless the log was lost since.
    pub(super) fn log_read(&self, at: LogPosition) -> Result<(), Error> {
        let mut changes = self.changes();
        let words = self.running.lock_words();
        if self.rings().recovery.as_ref().map_or(0, |recovery| recovery.count()) != at.recoveries {
            return Ok(());
        }
        self.change_word_behind(words, &mut changes, control::LOG_READ, at.records)
    }

    /// Returns how many tasks were charged to a tenant. While a group takes a window, the number may be too high for a
    /// moment.
    fn charged_tasks(&self, tenant: TenantId) -> Result<u64, Error> {
        let mut word = [0u64];
        let kernel = self.kernel();
        kernel.memories.need(BufferId::Control)?.download((control::CLAIMS + tenant) as usize, &mut word)?;
        Ok(word[0])
    }

    /// Sets how many tasks may be charged to a tenant in all, or lifts the limit.
    fn set_limit(
        &self,
        changes: &mut ControlChanges,
        tenant: TenantId,
        quota: Option<u64>,
    ) -> Result<(), Error> {
        let quota = match quota {
            Some(quota) => {
                let charged = self.charged_tasks(tenant)?;
                let credit = quota.saturating_sub(charged);
                if credit > Tenant::MAX_QUOTA.into() {
                    return Err(Error::TooMuchCredit { tenant, credit });
                }
                // The kernel compares 31 bits, so a quota far below what was charged would look as if it were above it.
                Some(quota.max(charged.saturating_sub(Tenant::MAX_QUOTA.into())))
            }
            None => None,
        };
        if let Some(recovery) = &self.rings().recovery {
            recovery.note_quota(self.rings(), tenant, self.charged_tasks(tenant)?, quota);
        }
        self.change_word(changes, control::QUOTAS + tenant, quota_word(quota))?;
        changes.quotas[tenant as usize] = quota;
        Ok(())
    }
}

/// The rights and the credit of tenants, which can be changed while the kernel runs.
impl Session {
    /// Sets which opcodes a tenant may use: bit `i` allows opcode `i`, and bit 31 allows all opcodes from 31 on. A mask
    /// of 0 disables the tenant: its tasks stay in their rings, and its resumable tasks begin no further step, until it
    /// is enabled again. A task that waits in a queue of the kernel and is cancelled ends only then.
    ///
    /// When this returns, no task that is submitted afterwards begins under the old mask.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTenant`] if there is no such tenant, [`Error::Ended`] if the session ends before the kernel has taken
    /// the change over, and [`Error::Refused`] if the region `data` is [kept](crate::Retention) and the mask allows a built-in
    /// operation that writes it.
    pub fn set_mask(&self, tenant: TenantId, mask: u32) -> Result<(), Error> {
        self.check_tenant(tenant)?;
        check_mask(&self.kernel().spec, tenant, mask)?;
        let mut changes = self.changes();
        changes.paused[tenant as usize] = None;
        self.change_word(&mut changes, control::MASKS + tenant, mask)
    }

    /// Pauses a tenant: its tasks stay in their rings, and those of its resumable tasks that have begun begin no
    /// further step, until the tenant is [resumed](Session::resume_tenant). Steps that have begun go on to their end.
    ///
    /// Its resumable tasks that have begun can still be cancelled. A task that is cancelled in its ring ends when the
    /// tenant is resumed.
    ///
    /// This sets the tenant's mask to 0 and remembers the mask that it had. Pausing a tenant twice changes nothing.
    ///
    /// # Errors
    ///
    /// Those of [`set_mask`](Session::set_mask).
    pub fn pause_tenant(&self, tenant: TenantId) -> Result<(), Error> {
        self.check_tenant(tenant)?;
        let mut changes = self.changes();
        let mask = self.rings().host_words[(control::MASKS + tenant) as usize].load(Ordering::Relaxed);
        if mask != 0 {
            changes.paused[tenant as usize] = Some(mask);
        }
        self.change_word(&mut changes, control::MASKS + tenant, 0)
    }

    /// Resumes a tenant that was [paused](Session::pause_tenant): it gets back the mask that it had. Resuming a tenant
    /// that is not paused changes nothing.
    ///
    /// # Errors
    ///
    /// Those of [`set_mask`](Session::set_mask).
    pub fn resume_tenant(&self, tenant: TenantId) -> Result<(), Error> {
        self.check_tenant(tenant)?;
        let mut changes = self.changes();
        match changes.paused[tenant as usize].take() {
            Some(mask) => self.change_word(&mut changes, control::MASKS + tenant, mask),
            None => Ok(()),
        }
    }

    /// Allows a tenant to use these opcodes and no others. Opcodes from 31 on are allowed or forbidden all together,
    /// and an empty list disables the tenant. See [`set_mask`](Session::set_mask) for when the change takes effect, and
    /// for errors.
    ///
    /// ```
    /// # use pelton::{Opcode, Session, Spec, device};
    /// # let session = Session::launch(&device::open("cpu")?, &Spec::default())?;
    /// session.allow(0, &[Opcode::NOP, Opcode::ATOMIC_ADD])?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn allow(&self, tenant: TenantId, ops: &[Opcode]) -> Result<(), Error> {
        self.set_mask(tenant, Opcode::mask_of(ops))
    }

    /// Sets how many tasks may be charged to a tenant in all, counted from the launch of the session. A quota of 0
    /// lifts the limit.
    ///
    /// [`Tenant::quota`](crate::Tenant::quota()) says what counts as a task.
    /// Only tasks that begin while there is a quota are charged, so a tenant that never had one starts with all of
    /// `quota`. To give a tenant more credit whatever it has used, use [`grant`](Session::grant). When this returns, no
    /// task that is submitted afterwards begins under the old quota.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTenant`], [`Error::Ended`], and [`Error::TooMuchCredit`] if the tenant would then have credit
    /// for more than [`Tenant::MAX_QUOTA`] tasks.
    pub fn set_quota(&self, tenant: TenantId, quota: u32) -> Result<(), Error> {
        self.check_tenant(tenant)?;
        let quota = quota_limit(quota);
        self.set_limit(&mut self.changes(), tenant, quota)
    }

    /// Gives a tenant credit for `more` tasks. A tenant without a quota has no limit, and this does not change that.
    ///
    /// If [`set_quota`](Session::set_quota) has set a quota below what was charged already, the grant first makes up
    /// for the difference. When this returns, the credit is there for every task, whether it was submitted before or is
    /// submitted afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTenant`], [`Error::Ended`], and [`Error::TooMuchCredit`] if the tenant's credit would exceed
    /// [`Tenant::MAX_QUOTA`] tasks. The credit then stays as it was.
    pub fn grant(&self, tenant: TenantId, more: u32) -> Result<(), Error> {
        self.check_tenant(tenant)?;
        let mut changes = self.changes();
        match changes.quotas[tenant as usize] {
            Some(quota) => self.set_limit(&mut changes, tenant, Some(quota + u64::from(more))),
            None => Ok(()),
        }
    }

    /// Returns how many tasks of a tenant may still begin before it needs more credit, or `None` if it has no quota.
    /// While the kernel takes tasks of the tenant, the number may be too low for a moment.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTenant`], and [`Error::Device`] if the count cannot be copied from the device.
    pub fn credit(&self, tenant: TenantId) -> Result<Option<u64>, Error> {
        self.check_tenant(tenant)?;
        let quota = self.changes().quotas[tenant as usize];
        quota.map(|quota| Ok(quota.saturating_sub(self.charged_tasks(tenant)?))).transpose()
    }

    /// Checks that the session has this tenant.
    pub(super) fn check_tenant(&self, tenant: TenantId) -> Result<(), Error> {
        match self.kernel().spec.tenants.iter().any(|t| t.id == tenant) {
            true => Ok(()),
            false => Err(Error::UnknownTenant(tenant)),
        }
    }
}
