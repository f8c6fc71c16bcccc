//! Recovery: a session goes on after its device was lost.
//!
//! A run may end although nobody has asked it to: its device is lost, a task traps, the lease runs out, or the kernel
//! returns. Without [`Recovery::On`](crate::kernel::Recovery), that is the end of the session. With it, the session launches
//! its kernel again, on the same device or on another one, and goes on. Producers and tickets only wait longer, except for
//! tasks that must not run twice and may have begun, and [one that makes the kernel trap each time](super::quarantine): these end
//! as lost.
//!
//! **Who recovers.** Whoever waits for long looks whether the run is still there. If it is not, it asks the reaper, which
//! recovers in its next turn. A hand-over that finds the run lost recovers itself, and then begins anew. Both hold the lock
//! of the pause, so there is one recovery at a time, and no hand-over, move or stop beside it. Whoever has the lock looks at the
//! run again, so a loss that several threads have noticed is recovered from once.
//!
//! **Never two runs.** Two runs over the same rings would be a disaster. So the next run is launched only after the wait
//! for the last one has said that it has ended or that its device is lost. If it says anything else, the session ends.
//!
//! **What happens.** The host [finds out](super::loss) which tasks have ended, and ends those that must not begin again. Then
//! it tries one device after another: the one that was lost, and then those that the [user has
//! named](super::Session::set_failover). On each it adopts the memory of the rings, assembles, compiles and loads the kernel,
//! allocates and fills its memory, and launches it. The first one on which all of this works serves the session from then
//! on. If there is none, the session ends.
//!
//! **What the next kernel finds.** Masks, quotas and other control words are as the host has set them last. The workspace, the
//! observables and the log are as at a first launch: zeros, or what the user's [hook](super::Session::on_recovery) has
//! written. Kept regions are [restored](super::rerun). Regions in host memory are part of the memory of the rings, and stay. Near
//! slots are polled in the host's memory, as after a [move](super::move_to).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use pelton_device::process_fence::fence_all_threads;
use pelton_device::{Device, DeviceError, Launch};

use super::Session;
use super::fill::fill_after_loss;
use super::handover::PlannedKernel;
use super::kernel::SessionKernel;
use super::launch::bind_buffers;
use super::loss::{LossFindings, RingRecovery};
use super::memory::BufferMemories;
use super::move_to::plan_move;
use super::rings::Rings;
use super::running::{RunningKernel, residence_of};
use crate::error::{EndReason, Error, SessionEnd};
use crate::kernel::layout::BufferKey;
use crate::kernel::{Assembled, BufferId, Layout, TenantId};
use crate::protocol::control;
use crate::telemetry::LastRecovery;
use crate::workspace::{self, Element, RegionView};

/// How often a device is tried that is lost again while the session recovers there.
const TRIES_PER_DEVICE: u32 = 8;

/// What a user wants to be done before the next kernel is launched.
#[derive(Clone)]
pub(super) struct RecoveryHook(Arc<HookFunction>);

type HookFunction = dyn Fn(&RecoveringSession<'_>) -> Result<(), Error> + Send + Sync;

impl fmt::Debug for RecoveryHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecoveryHook").finish_non_exhaustive()
    }
}

/// A session that recovers, as its [hook](Session::on_recovery) sees it: the memory of the next kernel, which is not
/// launched yet.
#[derive(Debug)]
pub struct RecoveringSession<'r> {
    memories: &'r BufferMemories,
    layout: &'r Layout,
    devices: (&'r str, &'r str),
}

impl RecoveringSession<'_> {
    /// Returns a view of a tenant's piece of a region, as [`Session::view`] does. All elements are zero, except those of
    /// regions in host memory, which are as tasks and the host have left them.
    ///
    /// # Errors
    ///
    /// Those of [`Session::view`], and [`Error::KeptRegion`] if the region is [kept](crate::Retention): such a region is
    /// restored after the hook.
    pub fn view<T: Element>(&self, tenant: TenantId, region: &str) -> Result<RegionView<'_, T>, Error> {
        if self.layout.area(region).is_some_and(|area| area.region.is_kept()) {
            return Err(Error::KeptRegion(region.into()));
        }
        workspace::open_view(self.memories, self.layout, tenant, region)
    }

    /// Returns the name of the device that was lost.
    pub fn lost_device(&self) -> &str {
        self.devices.0
    }

    /// Returns the name of the device on which the session goes on.
    pub fn device(&self) -> &str {
        self.devices.1
    }
}

/// What a session does after its device was lost, if its `Spec` says that it [recovers](crate::kernel::Recovery).
impl Session {
    /// Sets the devices on which the session tries to go on if its device is lost, in this order. The device that was lost is
    /// always tried first. Without this, it is the only one.
    ///
    /// The session needs nothing of these devices until then. Each of them must be able to reach the memory of the rings and
    /// to run the session's kernel; if one is not, the next is tried.
    ///
    /// ```
    /// use pelton::{Recovery, Session, Spec, device};
    ///
    /// let session = Session::launch(&device::open("cpu")?, &Spec::default().recovery(Recovery::On))?;
    /// session.set_failover(vec![device::open("reference")?]);
    /// assert_eq!(session.snapshot()?.recovery.map(|recovery| recovery.count), Some(0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_failover(&self, devices: Vec<Arc<dyn Device>>) {
        *self.running.failover.lock().unwrap_or_else(PoisonError::into_inner) = devices;
    }

    /// Sets what is done before the kernel is launched again after a loss, instead of what was set before: regions
    /// in the memory of the device are zero then, and the hook may write what tasks need to find there. Regions in host memory are
    /// as they were left, and kept regions cannot be written here, because they are restored afterwards. One recovery may call the
    /// hook several times.
    ///
    /// The hook runs in a thread of the session and must not use the session, which waits for it. If it returns an error or
    /// panics, the session does not go on with this device, and tries the next one.
    ///
    /// ```
    /// use pelton::{Recovery, Session, Spec, device};
    ///
    /// let session = Session::launch(&device::open("cpu")?, &Spec::default().recovery(Recovery::On))?;
    /// let table = [1u32, 2, 4, 8];
    /// session.view(0, "data")?.write(0, &table)?;
    /// session.on_recovery(move |session| session.view(0, "data")?.write(0, &table));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_recovery(
        &self,
        hook: impl Fn(&RecoveringSession<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) {
        *self.running.hook.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(RecoveryHook(Arc::new(hook)));
    }
}

impl RunningKernel {
    /// Recovers if somebody has asked for it and the run has really ended. If the session cannot go on, it has ended, and
    /// whoever uses it finds out.
    pub(super) fn recover(&self) {
        let _pause = self.lock_pause();
        let asked = self.served.rings.wait_list.clear_recovery_asked();
        if !asked || self.check_running().is_err() {
            return;
        }
        match self.served.run_end() {
            // A stop waits for the pause, and ends the session as the run has ended.
            None | Some(SessionEnd::Stopped) => {}
            Some(_) if self.is_stopping() => {}
            Some(end) => drop(self.recover_in_pause(end)),
        }
    }

    /// Goes on after the run has ended in this way, if that means that it is over, or ends the session. The caller holds the
    /// lock of the pause.
    pub(super) fn recover_in_pause(&self, end: SessionEnd) -> Result<(), Error> {
        match self.served.rings.recovers_from(&end) {
            true => self.go_on_after(end),
            false => self.end_session(end),
        }
    }

    /// Goes on if the session recovers and is not stopped, or ends it in this way. The caller holds the lock of the pause, and
    /// no run is alive.
    pub(super) fn go_on_after(&self, end: SessionEnd) -> Result<(), Error> {
        let rings = &*self.served.rings;
        let started = Instant::now();
        let (recovery, reason) = match (&rings.recovery, end.reason()) {
            (Some(recovery), EndReason::Lost(reason)) if !self.is_stopping() => (recovery, reason),
            _ => return self.end_session(end),
        };
        let mut found = rings.settle_loss(recovery, reason);
        if !recovery.is_worth_it(&found) {
            return self.end_session(end);
        }
        if let Some(kept) = &rings.kept {
            kept.begin_recovery();
        }
        if let Some(suspects) = recovery.suspects(rings, reason, &found) {
            self.quarantine_culprits(recovery, suspects);
            found = rings.settle_loss(recovery, reason);
        }
        let old = self.kernel();
        self.forget_adopted(&old.device);
        let mut last = end.clone();
        for device in self.candidates(&old.device) {
            if self.is_stopping() {
                return self.end_session(end);
            }
            match self.recover_with_tries(&device, &old, (recovery, &found, started)) {
                Ok(()) => return Ok(()),
                Err(error) => last = SessionEnd::NotRecovered(Arc::new(error)),
            }
        }
        self.end_session(if self.is_stopping() { end } else { last })
    }

    /// Ends the session, and returns the error that says how it has ended.
    fn end_session(&self, end: SessionEnd) -> Result<(), Error> {
        let state = &self.served.rings.state;
        state.note_end(end);
        Err(state.ended_error())
    }

    /// Returns the devices to try after a loss: the one that was lost, and then those that the user has named.
    fn candidates(&self, lost: &Arc<dyn Device>) -> Vec<Arc<dyn Device>> {
        let named = self.failover.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let others = named.into_iter().filter(|device| !Arc::ptr_eq(device, lost));
        std::iter::once(lost.clone()).chain(others).collect()
    }

    /// Launches the kernel of the session on a device after a loss. A device may be lost again meanwhile, so it is tried
    /// [`TRIES_PER_DEVICE`] times if it says that it is lost.
    fn recover_with_tries(
        &self,
        device: &Arc<dyn Device>,
        old: &Arc<SessionKernel>,
        loss: (&RingRecovery, &LossFindings, Instant),
    ) -> Result<(), Error> {
        let mut tries = 1..=TRIES_PER_DEVICE;
        loop {
            tries.next();
            match self.recover_on(device, old, loss) {
                Err(Error::Device(DeviceError::Lost(_))) if !tries.is_empty() && !self.is_stopping() => {
                    self.forget_adopted(device);
                }
                tried => return tried,
            }
        }
    }

    /// Launches the kernel of the session on a device after a loss, or fails.
    fn recover_on(
        &self,
        device: &Arc<dyn Device>,
        old: &Arc<SessionKernel>,
        (recovery, found, started): (&RingRecovery, &LossFindings, Instant),
    ) -> Result<(), Error> {
        let rings = &*self.served.rings;
        let adopted = self.adopt_rings(device)?;
        let planned = plan_move(old, device, &adopted)?;
        let kernel = prepare_after_loss(rings, &planned, (recovery, found))?;
        self.run_hook(&kernel, old)?;
        if let Some(kept) = &rings.kept {
            kept.restore(rings, &kernel)?;
        }
        self.served.launch_next(old.spec.lease, || {
            // Nobody changes a control word from here until the kernel is the one that changes are told to.
            let _words = self.lock_words();
            copy_control_words(rings, &kernel)?;
            let _graphs = self.graphs.restore(&kernel.memories)?;
            // Not every device issues a fence when its run is woken, and the next run relies on one.
            fence_all_threads();
            let name = |device: &Arc<dyn Device>| device.caps().name.clone();
            let last = LastRecovery {
                at: rings.meter.uptime(),
                took: started.elapsed(),
                from: name(&old.device),
                to: name(device),
                unfinished: found.unfinished,
                lost: found.lost,
            };
            // As soon as the kernel runs, tasks may end, and whoever sees that must not find the lost memory.
            let kernel = Arc::new(kernel);
            self.set_kernel(kernel.clone());
            let before = recovery.note_recovery(last);
            self.set_launching(kernel.launch.residence.clone());
            let launched = kernel.loaded.launch(&kernel.launch);
            self.set_launching(None);
            match &launched {
                Ok(_) => recovery.note_launched(rings.meter.uptime(), started.elapsed()),
                Err(_) => {
                    recovery.take_back(before);
                    self.set_kernel(old.clone());
                }
            }
            Ok(launched?)
        })
    }

    /// Lets the user's hook write the memory of the next kernel.
    pub(super) fn run_hook(&self, kernel: &SessionKernel, old: &SessionKernel) -> Result<(), Error> {
        let hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(hook) = hook else { return Ok(()) };
        let devices = (&*old.device.caps().name, &*kernel.device.caps().name);
        let session = RecoveringSession { memories: &kernel.memories, layout: &kernel.layout, devices };
        let ran = catch_unwind(AssertUnwindSafe(|| (hook.0)(&session)));
        ran.unwrap_or(Err(Error::RecoveryHook))
    }
}

/// Loads a planned kernel after a loss, and fills its memory.
pub(super) fn prepare_after_loss(
    rings: &Rings,
    planned: &PlannedKernel,
    (recovery, found): (&RingRecovery, &LossFindings),
) -> Result<SessionKernel, Error> {
    let Assembled { module, layout } = &planned.assembled;
    let loaded = planned.compiled.load()?;
    fill_after_loss(&planned.spec, layout, &planned.memories, &found.starts)?;
    recovery.restore(rings, found, (&planned.spec, layout), &planned.memories)?;
    let residence = Some(residence_of(rings));
    Ok(SessionKernel {
        device: planned.device.clone(),
        spec: planned.spec.clone(),
        layout: Arc::new(layout.clone()),
        memories: planned.memories.clone(),
        geometry: planned.geometry.clone(),
        stand_ins: planned.stand_ins.clone(),
        loaded,
        launch: Launch { residence, ..bind_buffers(&planned.spec, module, layout, &planned.memories) },
    })
}

/// Copies the host's control words to where a kernel reads them, if it has a copy. Its log is empty, so nothing of it was
/// read.
pub(super) fn copy_control_words(rings: &Rings, kernel: &SessionKernel) -> Result<(), Error> {
    rings.host_words[control::LOG_READ as usize].store(0, Ordering::Relaxed);
    let Some(copy) = kernel.memories.get(BufferKey::Kernel(BufferId::ControlCopy)) else { return Ok(()) };
    let mut words: Vec<u32> = rings.host_words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
    words[control::SHUTDOWN as usize] = 0;
    Ok(copy.upload(0, &words)?)
}
