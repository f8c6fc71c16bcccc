//! Tasks that take the device down each time they run: how they are found and quarantined.
//!
//! A handler that [may trap](crate::Handler::may_trap) can end the kernel for everybody. A session that
//! [recovers](super::recovery) then begins its tasks again, and the task that has trapped among them. If it traps each time, the
//! others get nowhere.
//!
//! **Suspects.** The host does not know which task has trapped. It knows which tasks had not ended. A task that has trapped is
//! among the first of its stripe that have not ended, or in a cell. So after [`TRAPS_IN_A_ROW`] traps, each soon after the kernel
//! was launched, those are suspects that had not ended at any of them.
//!
//! **Running some alone.** The session then launches its kernel for a few of the suspects only. Such a kernel finds other tails
//! and other near slots than the producers write, in which nothing is published but these tasks, and of the tasks in cells only
//! theirs are ready. It serves the same records, so whoever waits for one of them sees it end as ever. If the kernel traps, the
//! suspects are halved. If it does not, none of them is guilty. So a task that traps is alone in the end. It is *quarantined*: it
//! ends as lost, for the reason [`LossReason::Quarantine`].
//!
//! **What this costs.** Each such run is like another loss to the others: the memory of the device begins at zero. A fence would
//! not wait for tasks before it that are not shown, so tasks behind a fence are no suspects. Only traps lead here. A device that
//! is lost for another reason says nothing about the tasks that ran.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pelton_device::process_fence::fence_all_threads;
use pelton_device::{Device, DeviceError, LaunchEnd, LaunchOutcome, MemoryKind, Run, WordWidth};

use super::kernel::SessionKernel;
use super::loss::{LossFindings, RingRecovery};
use super::move_to::plan_move;
use super::recovery::{copy_control_words, prepare_after_loss};
use super::rings::Rings;
use super::running::RunningKernel;
use crate::error::{Error, LossReason};
use crate::kernel::layout::BufferKey;
use crate::kernel::{BufferId, Placement, STRIDE};
use crate::protocol::record::TaskEnd;
use crate::protocol::{Opcode, control};
use crate::ring::SlotLines;
use crate::simulated;

/// After so many traps in a row, tasks that had not ended at any of them are suspects.
const TRAPS_IN_A_ROW: u32 = 3;

/// A kernel that has run for longer was not taken down by the first tasks that it met.
const SOON: Duration = Duration::from_secs(2);

/// How many tasks of a stripe are suspects at most: as many as a window has.
const SUSPECTS_PER_STRIPE: usize = 256;

/// For how long a few tasks run alone. One that waits for something else does not end, and does not trap either.
const ALONE_FOR: Duration = Duration::from_millis(200);

/// How long their kernel has to end after that. A task may take longer, and is cut off then; it begins again later.
const END_WITHIN: Duration = Duration::from_secs(2);

/// How often some tasks run alone in one recovery at most.
const MOST_RUNS: u32 = 64;

/// A task that has not ended: the number of its stripe, and its position there.
pub(super) type Suspect = (u32, u64);

/// What a session remembers of the last traps.
#[derive(Clone, Debug, Default)]
pub(super) struct TrapHistory {
    /// The tasks that had not ended at any of the last traps.
    suspects: Vec<Suspect>,
    /// How many traps there were in a row.
    traps: u32,
}

impl TrapHistory {
    /// Notes a loss after a run of this length, and returns the suspects if there is a reason to look for the guilty one.
    pub(super) fn note_loss(
        &mut self,
        reason: LossReason,
        ran_for: Duration,
        unfinished: &[Suspect],
    ) -> Option<Vec<Suspect>> {
        if reason != LossReason::Trap || ran_for > SOON {
            *self = TrapHistory::default();
        }
        if reason != LossReason::Trap {
            return None;
        }
        match self.traps {
            0 => self.suspects = unfinished.to_vec(),
            _ => self.suspects.retain(|suspect| unfinished.contains(suspect)),
        }
        self.traps += 1;
        if self.traps < TRAPS_IN_A_ROW || self.suspects.is_empty() {
            return None;
        }
        Some(std::mem::take(self).suspects)
    }
}

impl Rings {
    /// Returns the first tasks of each stripe that have not ended and stand before any fence, and those in cells.
    pub(super) fn suspects(&self, recovery: &RingRecovery, starts: &[u64]) -> Vec<Suspect> {
        let mut suspects = Vec::new();
        for (number, (stripe, start)) in (0u32..).zip(self.slot_stripes().iter().zip(starts)) {
            let tail = stripe.tail.load(Ordering::Acquire);
            let unfinished = (*start..tail).filter(|at| stripe.ring.record_at(*at).is_none());
            let opcode = |at: u64| (stripe.ring.lines.line(stripe.ring.slot_at(at))[0] >> 32) as u32;
            let before_fence = unfinished.take_while(|at| opcode(*at) != Opcode::BATCH_FENCE.code());
            suspects.extend(before_fence.take(SUSPECTS_PER_STRIPE).map(|at| (number, at)));
        }
        let first = self.layout.stripe_count();
        for (number, stripe) in (first..).zip(self.cell_stripes()) {
            let adopted = recovery.cells.iter().flat_map(|cells| cells.adopted_in(self, stripe));
            suspects.extend(adopted.map(|used| (number, used)));
        }
        suspects
    }

    fn has_ended(&self, (stripe, position): Suspect) -> bool {
        let stripe = &self.stripes[stripe as usize];
        match stripe.has_cells() {
            true => !stripe.is_use_unfinished(position),
            false => stripe.slot_has_ended(position),
        }
    }
}

/// What became of some tasks that ran alone.
enum Verdict {
    /// They have ended, or would have trapped by now.
    Innocent,
    /// The kernel has trapped, or the device was lost for another reason.
    Lost(LossReason),
}

impl RunningKernel {
    /// Finds the tasks among the suspects that make the kernel trap, and quarantines them. Does nothing if the kernel cannot be
    /// launched; whoever recovers finds that out too. The caller holds the lock of the pause, and no run is alive.
    pub(super) fn quarantine_culprits(&self, recovery: &RingRecovery, suspects: Vec<Suspect>) {
        let (rings, old) = (&*self.served.rings, self.kernel());
        let mut lists = match suspects.len() {
            1 => vec![suspects],
            _ => halves(suspects),
        };
        for _ in 0..MOST_RUNS {
            let Some(mut list) = lists.pop() else { return };
            list.retain(|suspect| !rings.has_ended(*suspect));
            if list.is_empty() || self.is_stopping() {
                continue;
            }
            match (self.run_alone(&old.device, &old, recovery, &list), &list[..]) {
                (Ok(Verdict::Lost(LossReason::Trap)), [(stripe, position)]) => {
                    let ring = &rings.stripes[*stripe as usize].ring;
                    ring.post_end(*position, TaskEnd::Lost(LossReason::Quarantine));
                }
                (Ok(Verdict::Lost(LossReason::Trap)), _) => lists.extend(halves(list)),
                (Ok(Verdict::Innocent), _) => {}
                (Ok(Verdict::Lost(_)) | Err(_), _) => return,
            }
        }
    }

    /// Launches the kernel for some tasks only, until they have ended or the kernel has.
    fn run_alone(
        &self,
        device: &Arc<dyn Device>,
        old: &Arc<SessionKernel>,
        recovery: &RingRecovery,
        tasks: &[Suspect],
    ) -> Result<Verdict, Error> {
        let rings = &*self.served.rings;
        let mut found = rings.settle_loss(recovery, LossReason::Trap);
        self.forget_adopted(device);
        let mut planned = plan_move(old, device, &self.adopt_rings(device)?)?;
        show_alone(rings, device, &mut found, tasks, |id, memory| {
            planned.memories.replace(BufferKey::Kernel(id), memory);
        })?;
        let kernel = prepare_after_loss(rings, &planned, (recovery, &found))?;
        self.run_hook(&kernel, old)?;
        if let Some(kept) = &rings.kept {
            kept.restore(rings, &kernel)?;
        }
        let run = {
            let _words = self.lock_words();
            copy_control_words(rings, &kernel)?;
            let _graphs = self.graphs.restore(&kernel.memories)?;
            rings.host_words[control::SHUTDOWN as usize].store(0, Ordering::Release);
            fence_all_threads();
            kernel.loaded.launch(&kernel.launch)?
        };
        Ok(self.watch_alone(&*run, tasks))
    }

    /// Waits for the end of some tasks or of their kernel, and then lets the kernel end.
    fn watch_alone(&self, run: &dyn Run, tasks: &[Suspect]) -> Verdict {
        let rings = &*self.served.rings;
        let (mut asked, mut cut_off, until) = (false, false, simulated::now() + ALONE_FOR);
        loop {
            match run.wait(Some(Duration::from_millis(1))) {
                Ok(None) => run.renew(),
                Ok(Some(LaunchEnd { outcome: LaunchOutcome::Done, .. })) if asked => {
                    return Verdict::Innocent;
                }
                Ok(Some(_)) if cut_off => return Verdict::Innocent,
                Ok(Some(_)) => return Verdict::Lost(LossReason::Returned),
                Err(DeviceError::Fault { .. }) => return Verdict::Lost(LossReason::Trap),
                Err(_) => return Verdict::Lost(LossReason::Device),
            }
            let over = tasks.iter().all(|task| rings.has_ended(*task)) || simulated::now() > until;
            if !asked && (over || self.is_stopping()) {
                asked = true;
                rings.ask_shutdown();
                run.wake();
            }
            if !cut_off && simulated::now() > until + END_WITHIN {
                cut_off = true;
                run.stop();
            }
        }
    }
}

/// Divides suspects into two lists.
fn halves(mut suspects: Vec<Suspect>) -> Vec<Vec<Suspect>> {
    let second = suspects.split_off(suspects.len() / 2);
    vec![second, suspects]
}

/// Makes memory in which nothing is published but these tasks, and lets the next kernel begin with them.
fn show_alone(
    rings: &Rings,
    device: &Arc<dyn Device>,
    found: &mut LossFindings,
    tasks: &[Suspect],
    mut replace: impl FnMut(BufferId, pelton_device::Memory),
) -> Result<(), Error> {
    let mut ranges: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for (stripe, position) in tasks {
        let range = ranges.entry(*stripe).or_insert((*position, *position));
        *range = (range.0.min(*position), range.1.max(position + 1));
    }
    for (number, start) in found.starts.iter_mut().enumerate() {
        *start = ranges.get(&(number as u32)).map_or(*start, |range| range.0);
    }
    let block = |words: &[u64]| -> Result<_, Error> {
        let memory = device.alloc(MemoryKind::Host, WordWidth::W64, words.len())?;
        memory.upload(0, words)?;
        Ok(memory)
    };
    if let Some(far) = rings.layout.bank(Placement::Far) {
        let mut tails = vec![0; rings.layout.rings.len() * STRIDE as usize];
        for at in 0..far.stripe_count() {
            let number = far.first_stripe + at;
            let shown = ranges.get(&number).map_or(found.starts[number as usize], |range| range.1);
            tails[(at * STRIDE) as usize] = shown;
        }
        replace(BufferId::Tails, block(&tails)?);
    }
    if let Some(near) = rings.layout.bank(Placement::Near) {
        let mut words = vec![0; near.slot_count() as usize * 8];
        for (number, position) in tasks.iter().filter(|(number, _)| *number < rings.layout.stripe_count()) {
            let ring = &rings.stripes[*number as usize].ring;
            let is_near = (near.first_stripe..near.first_stripe + near.stripe_count()).contains(number);
            if is_near {
                let slot = ring.slot_at(*position);
                words[slot * 8..][..8].copy_from_slice(&ring.lines.line(slot));
            }
        }
        replace(BufferId::NearSlots, block(&words)?);
    }
    found.alone = Some(tasks.to_vec());
    Ok(())
}
