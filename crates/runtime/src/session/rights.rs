//! What tenants may do, and how much, changed while the kernel runs.
//!
//! **The promise.** When one of these calls returns, no task that is submitted afterwards, by any thread that knows of the return,
//! begins under the old value. Tasks that were submitted before may begin under either. A kernel whose groups read the host's words
//! themselves needs nothing more than the store; any other is waited for until it has taken the change over, which takes
//! microseconds and does not depend on how long tasks run.
//!
//! **Credit.** A tenant may have a quota. Each of its tasks is then charged when it begins, and when as many have been charged as the
//! quota says, further tasks wait until there is more credit. A packed slot is one task, whatever it holds. Tasks that begin while there is
//! no quota are not charged.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};

use super::Session;
use crate::deadline::PollBackoff;
use crate::error::Error;
use crate::kernel::{BufferId, Tenant, TenantId};
use crate::protocol::{Opcode, control};

/// Bit 31 of a quota's word says that there is one.
const QUOTA_IS_SET: u32 = 1 << 31;

/// What the host has changed so far. Changes are made one at a time.
#[derive(Debug)]
pub(crate) struct ControlChanges {
    count: u32,
    /// Up to how many tasks may be charged, by tenant; `None` is no limit.
    quotas: [Option<u64>; Tenant::MAX_TENANTS as usize],
}

impl ControlChanges {
    /// The quotas that a session begins with.
    pub fn new(tenants: &[Tenant]) -> Mutex<Self> {
        let mut quotas = [None; Tenant::MAX_TENANTS as usize];
        for tenant in tenants {
            quotas[tenant.id as usize] = quota_limit(tenant.quota);
        }
        Mutex::new(ControlChanges { count: 0, quotas })
    }
}

/// Up to how many tasks may be charged, where a quota of 0 is no limit.
pub(crate) fn quota_limit(quota: u32) -> Option<u64> {
    (quota > 0).then_some(quota.into())
}

/// The word that says up to how many tasks may be charged.
pub(crate) fn quota_word(quota: Option<u64>) -> u32 {
    quota.map_or(0, |quota| quota as u32 | QUOTA_IS_SET)
}

impl Session {
    fn changes(&self) -> MutexGuard<'_, ControlChanges> {
        self.changes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Changes a control word, and waits until the change holds for every task that is submitted from then on.
    fn change_word(&self, changes: &mut ControlChanges, word: u32, value: u32) -> Result<(), Error> {
        // A task that is submitted later is released after it, and so is CHANGED.
        self.rings().host_words[word as usize].store(value, Ordering::Relaxed);
        let keepers = self.layout.keepers as usize;
        if keepers > 0 {
            changes.count = changes.count.wrapping_add(1);
            let change = changes.count << 8 | word;
            // Pairs with the acquire of whoever keeps the control words: the word that changed is seen.
            self.rings().host_words[control::CHANGED as usize].store(change, Ordering::Release);
            self.served.current_run().wake();
            self.await_keepers(change, keepers)?;
        }
        // Groups that found nothing they were allowed to do look again.
        self.served.current_run().wake();
        Ok(())
    }

    /// Waits until all lanes that keep the control words have taken a change over.
    fn await_keepers(&self, change: u32, keepers: usize) -> Result<(), Error> {
        let acks = self.rings().memory.shared.need(BufferId::Acks)?;
        let acks = acks.view32().ok_or(Error::Internal("acks"))?;
        let mut backoff = PollBackoff::default();
        // Pairs with the kernel's release: tasks that are submitted from here on meet the change.
        while !acks[..keepers].iter().all(|ack| ack.load(Ordering::Acquire) == change) {
            if !self.rings().state.is_running() {
                return Err(self.rings().state.ended_error());
            }
            if backoff.is_slow() {
                self.served.check_for_end();
            }
            backoff.pause();
        }
        Ok(())
    }

    /// Says how far the host has read the log.
    pub(super) fn log_read(&self, records: u32) -> Result<(), Error> {
        self.change_word(&mut self.changes(), control::LOG_READ, records)
    }

    /// How many tasks were charged to a tenant. A group that takes a window may have charged more for a moment.
    fn charged_tasks(&self, tenant: TenantId) -> Result<u64, Error> {
        let mut word = [0u64];
        self.memory
            .blocks
            .need(BufferId::Control)?
            .download((control::CLAIMS + tenant) as usize, &mut word)?;
        Ok(word[0])
    }

    /// Sets up to how many tasks may be charged to a tenant.
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
                // The account has 31 bits, so a quota that lies far behind what was charged would look as if it lay ahead.
                Some(quota.max(charged.saturating_sub(Tenant::MAX_QUOTA.into())))
            }
            None => None,
        };
        self.change_word(changes, control::QUOTAS + tenant, quota_word(quota))?;
        changes.quotas[tenant as usize] = quota;
        Ok(())
    }
}

/// Rights and credit of tenants, while the kernel runs.
impl Session {
    /// Sets what a tenant may do: bit i allows opcode i, bit 31 all opcodes from 31 on. 0 disables the tenant: its tasks stay where
    /// they are until it is enabled again.
    ///
    /// When this returns, no task that is submitted afterwards begins under the old mask.
    pub fn set_mask(&self, tenant: TenantId, mask: u32) -> Result<(), Error> {
        self.check_tenant(tenant)?;
        self.change_word(&mut self.changes(), control::MASKS + tenant, mask)
    }

    /// Allows a tenant these opcodes and no others. All opcodes from 31 on are allowed or not together, and an empty list disables the
    /// tenant: see [`set_mask`](Session::set_mask), which says when the change holds.
    pub fn allow(&self, tenant: TenantId, ops: &[Opcode]) -> Result<(), Error> {
        self.set_mask(tenant, Opcode::mask_of(ops))
    }

    /// Sets how many tasks may be charged to a tenant in all, counted from the launch of the session; 0 lifts the limit. Only tasks that
    /// begin while there is a quota are charged, so a tenant that never had one starts with all of `quota`. Use
    /// [`grant`](Session::grant) to give more credit to a tenant whatever it has used.
    ///
    /// When this returns, no task that is submitted afterwards begins under the old quota.
    ///
    /// # Errors
    ///
    /// [`Error::TooMuchCredit`] if the tenant would then have credit for more than [`Tenant::MAX_QUOTA`] tasks.
    pub fn set_quota(&self, tenant: TenantId, quota: u32) -> Result<(), Error> {
        self.check_tenant(tenant)?;
        let quota = quota_limit(quota);
        self.set_limit(&mut self.changes(), tenant, quota)
    }

    /// Gives a tenant credit for so many more tasks. A tenant without a quota has no limit, and keeps none. If
    /// [`set_quota`](Session::set_quota) has set a quota below what was charged already, the grant first makes up for the difference. When
    /// this returns, the credit counts for every task, submitted before or afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::TooMuchCredit`] if the tenant's credit would exceed [`Tenant::MAX_QUOTA`] tasks; it is then left as it was.
    pub fn grant(&self, tenant: TenantId, more: u32) -> Result<(), Error> {
        self.check_tenant(tenant)?;
        let mut changes = self.changes();
        match changes.quotas[tenant as usize] {
            Some(quota) => self.set_limit(&mut changes, tenant, Some(quota + u64::from(more))),
            None => Ok(()),
        }
    }

    /// How many tasks a tenant may still begin before it needs more credit; `None` if it has no quota. While the tenant's tasks are being
    /// taken the number may be too low for a moment.
    pub fn credit(&self, tenant: TenantId) -> Result<Option<u64>, Error> {
        self.check_tenant(tenant)?;
        let quota = self.changes().quotas[tenant as usize];
        quota.map(|quota| Ok(quota.saturating_sub(self.charged_tasks(tenant)?))).transpose()
    }

    fn check_tenant(&self, tenant: TenantId) -> Result<(), Error> {
        match self.spec.tenants.iter().any(|t| t.id == tenant) {
            true => Ok(()),
            false => Err(Error::UnknownTenant(tenant)),
        }
    }
}
