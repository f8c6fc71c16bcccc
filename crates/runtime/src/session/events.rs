//! Events, as the host sees them: it signals them and reads how often they were signalled.

use super::Session;
use super::cells::AskEntry;
use crate::error::Error;
use crate::kernel::{BufferId, TenantId};

impl Session {
    /// Signals an event of a tenant so many times. Tasks that wait for it go on, and see everything that was written to the
    /// workspace before. The events of a tenant are numbered from 0.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTenant`], and [`Error::UnknownEvent`] if the tenant has no event of this number. If the session has
    /// ended, nothing is signalled.
    pub fn signal(&self, tenant: TenantId, event: u32, times: u32) -> Result<(), Error> {
        let number = self.event_number(tenant, event)?;
        self.served().ask(AskEntry::Signal { event: number, times });
        Ok(())
    }

    /// Returns how often an event of a tenant was signalled since the session's start. Signals of the host count as soon as
    /// the kernel has seen them.
    ///
    /// # Errors
    ///
    /// Those of [`signal`](Session::signal), and [`Error::Device`] if the count cannot be copied from the device.
    pub fn event_count(&self, tenant: TenantId, event: u32) -> Result<u64, Error> {
        let number = self.event_number(tenant, event)?;
        let mut count = [0u64];
        self.kernel().memories.need(BufferId::EventCounts)?.download(number as usize, &mut count)?;
        Ok(count[0])
    }

    /// Returns the number of an event among those of all tenants.
    fn event_number(&self, tenant: TenantId, event: u32) -> Result<u32, Error> {
        self.check_tenant(tenant)?;
        let events = self.rings().layout.trees.map_or(0, |trees| trees.events);
        match event < events {
            true => Ok(tenant * events + event),
            false => Err(Error::UnknownEvent { event, events }),
        }
    }
}
