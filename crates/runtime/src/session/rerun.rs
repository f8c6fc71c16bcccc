//! How kept regions are restored after a loss: tasks that have ended run once more.
//!
//! When the device is lost, the host has the last [checkpoint](super::checkpoint), and the rings have the slots and records of
//! all tasks since. Before the next kernel is launched, the checkpoint is copied to its memory. Then those tasks run once more
//! that have ended since and may have written a kept region. After that the region is as of every record that was posted, and
//! whatever has no record begins again in the next kernel.
//!
//! **Which tasks.** Those of handlers that may write kept regions, with a record which says that the handler ran: the task is
//! done, or has ended with a fault of its own. A task that was refused or cancelled has done nothing. Of a packed slot, the
//! tasks up to the one with the fault have run.
//!
//! **How they run.** As a drained batch over the memory of the kept regions. All else that they write is of no use any more:
//! their records and replies, observables, lines that they print, and regions that are not kept, of which the batch has copies.
//! Masks and quotas are left out, because they were looked at when the tasks ran first. The order is any order: handlers that
//! write kept regions have [declared](crate::kernel::Class::Commuting) that it does not matter. If tasks run [one at a
//! time](TaskOrder::Serial), they run once more in the order in which they ran first, and should end as they did. The first one
//! that does not is reported.
//!
//! **Then a checkpoint is taken**, since no kernel runs anyway. If the device is lost again, nothing of this is done twice. And the
//! next kernel may number its tasks from 1 again.

use std::sync::atomic::Ordering;

use pelton_ir::types::Access;

use super::checkpoint::{Checkpoint, KeptRegions, StripeCover};
use super::kernel::SessionKernel;
use super::move_to::copy_words;
use super::rings::{Rings, Stripe, record_outcome};
use crate::drain::{Batch, Drain};
use crate::error::{Error, TaskError};
use crate::kernel::kept::{REFUSALS, kept_writers};
use crate::kernel::layout::BufferKey;
use crate::kernel::{
    Claim, Geometry, Recovery, Region, Report, Retention, SlotBody, Spec, TaskOrder, Telemetry, Tenant,
    TenantId,
};
use crate::protocol::fault::TaskFault;
use crate::protocol::packed::{InnerOp, decode_packed};
use crate::protocol::record::TaskEnd;
use crate::protocol::{Opcode, Slot, slot};
use crate::ring::SlotLines;
use crate::task::Task;
use crate::telemetry::RerunDifference;

/// The most tasks that one pass of a batch runs.
const MOST_PER_PASS: u32 = 1 << 16;

impl KeptRegions {
    /// Restores the kept regions in the memory of a kernel that is about to be launched after a loss, and takes a checkpoint.
    /// Only the thread that recovers calls this, and no kernel runs.
    pub(super) fn restore(&self, rings: &Rings, kernel: &SessionKernel) -> Result<(), Error> {
        let mut checkpoint = self.lock_checkpoint();
        let covers = checkpoint.covers_after(rings);
        self.copy_back(&checkpoint, &kernel.memories)?;
        let tasks = self.tasks_since(rings, &checkpoint, &kernel.spec)?;
        if tasks.is_empty() {
            checkpoint.cover(rings, covers);
            return Ok(());
        }
        let difference = run_again(kernel, &tasks)?;
        self.copy_to_spare(&checkpoint, &kernel.memories)?;
        checkpoint.replace(rings, covers);
        self.note_rerun(tasks.len() as u64, difference);
        Ok(())
    }

    /// Collects the tasks that have ended since a checkpoint and may have written kept regions, in the order in which they ran
    /// if that is known.
    fn tasks_since(
        &self,
        rings: &Rings,
        checkpoint: &Checkpoint,
        spec: &Spec,
    ) -> Result<Vec<RerunTask>, Error> {
        let layout = &rings.layout;
        let mut found = RerunTasks {
            writers: kept_writers(spec).map(|handler| handler.op).collect(),
            fused: spec.body == SlotBody::Fused,
            tasks: Vec::new(),
        };
        for (ring, of) in (0u32..).zip(&layout.rings) {
            for at in (0..layout.ring_stripes()).map(|k| layout.stripe_number(ring, k)) {
                let (stripe, cover) = (&rings.stripes[at], &checkpoint.covers[at]);
                for position in ended_since(stripe, cover) {
                    found.add(self, rings, (of.tenant, stripe, position))?;
                }
            }
        }
        found.tasks.sort_by_key(|task| task.number);
        Ok(found.tasks)
    }
}

/// A task that is to run once more.
struct RerunTask {
    /// Its number in the order in which tasks ran, or 0 if that is not known. Tasks of a packed slot share it.
    number: u64,
    tenant: TenantId,
    task: Task,
    payload: Vec<u8>,
    /// How it ended, if its record says so and it should end in the same way again.
    end: Option<Result<u32, TaskError>>,
}

/// Returns the positions of tasks that have ended and that a checkpoint does not cover.
fn ended_since<'c>(stripe: &'c Stripe, cover: &'c StripeCover) -> impl Iterator<Item = u64> + 'c {
    let all = cover.below..cover.below + stripe.ring.capacity();
    all.filter(|at| stripe.ring.record_at(*at).is_some() && cover.beyond.binary_search(at).is_err())
}

/// The tasks that are to run once more.
struct RerunTasks {
    /// The opcodes of handlers that may write kept regions.
    writers: Vec<Opcode>,
    /// Whether every task runs the only handler, whatever its opcode is.
    fused: bool,
    tasks: Vec<RerunTask>,
}

impl RerunTasks {
    /// Adds the task at a position that has ended, or all tasks of a packed slot, if they ran and may have written kept
    /// regions.
    fn add(
        &mut self,
        kept: &KeptRegions,
        rings: &Rings,
        (tenant, stripe, position): (TenantId, &Stripe, u64),
    ) -> Result<(), Error> {
        let Some(record) = stripe.ring.record_at(position) else { return Ok(()) };
        // How many tasks of a packed slot ran, and whether the record is that of the last one. Any other slot has one.
        let (ran, is_last) = match record.end()? {
            TaskEnd::Done(_) => (usize::MAX, true),
            TaskEnd::Fault(fault) if REFUSALS.contains(&fault.code) => (usize::from(fault.inner), false),
            TaskEnd::Fault(fault) => (usize::from(fault.inner) + 1, true),
            TaskEnd::Cancelled { .. } | TaskEnd::Lost(_) => (0, false),
        };
        if ran == 0 {
            return Ok(());
        }
        let tasks = self.tasks_at(kept, (stripe, position), ran)?;
        let place = stripe.place_at(position);
        // Relaxed: no kernel runs, and the end of the last one was seen.
        let number = kept.order.as_ref().map(|order| order[place].load(Ordering::Relaxed));
        for (at, task) in tasks.iter().enumerate().filter(|(_, task)| self.writers.contains(&task.op)) {
            let compared = number.is_some() && is_last && at + 1 == tasks.len();
            self.tasks.push(RerunTask {
                number: number.unwrap_or(0),
                tenant,
                task: *task,
                payload: rings.places.as_ref().map(|places| places.copy_payload(place)).unwrap_or_default(),
                end: compared.then(|| alone(record_outcome(record))),
            });
        }
        Ok(())
    }

    /// Returns the tasks in a slot of which so many ran.
    fn tasks_at(
        &self,
        kept: &KeptRegions,
        (stripe, position): (&Stripe, u64),
        ran: usize,
    ) -> Result<Vec<Task>, Error> {
        let words = Slot::from(stripe.ring.lines.line(stripe.ring.slot_at(position)));
        let args: [u32; slot::ARGS] = std::array::from_fn(|k| words.0[slot::ARG as usize + k]);
        Ok(match kept.submitted_op(stripe, position) {
            _ if self.fused => self.writers.iter().map(|op| Task::new(*op).args(args)).collect(),
            Opcode::PACKED_SLOT => {
                // The kernel has found that the slot is well formed, or none of its tasks would have run.
                let inner = decode_packed(&args, |_| Some(0))?;
                inner.iter().take(ran).map(|inner| inner_task(inner, &args)).collect()
            }
            op => vec![Task::new(op).args(args)],
        })
    }
}

/// Returns how a task would have ended in a slot of its own.
fn alone(end: Result<u32, TaskError>) -> Result<u32, TaskError> {
    match end {
        Err(TaskError::Fault(fault)) => Err(TaskError::Fault(TaskFault { inner: 0, ..fault })),
        end => end,
    }
}

/// Returns a task of a packed slot as one of its own. It may have more arguments than its handler reads.
fn inner_task(inner: &InnerOp, words: &[u32; slot::ARGS]) -> Task {
    let from = &words[usize::from(inner.at).min(slot::ARGS)..];
    let mut args = [0; slot::ARGS];
    args[..from.len()].copy_from_slice(from);
    Task::new(Opcode::from_code(inner.op.into())).args(args)
}

/// Runs tasks once more over the kept regions of a kernel that is not launched yet. Returns the first one that ended differently.
fn run_again(kernel: &SessionKernel, tasks: &[RerunTask]) -> Result<Option<RerunDifference>, Error> {
    let mut batch = Batch::with_capacity(tasks.len());
    for RerunTask { tenant, task, payload, .. } in tasks {
        batch.push(*tenant, task.bytes(payload))?;
    }
    let spec = rerun_spec(kernel, tasks.len());
    let areas = &kernel.layout.areas;
    // A region that is only read can be used where it lies, too.
    let is_lent = |region: &Region| region.is_kept() || region.access == Access::Read;
    let lent = |key| match key {
        BufferKey::Region(number) if is_lent(&areas[number].region) => kernel.memories.get(key).cloned(),
        _ => None,
    };
    let mut drain = Drain::over(&kernel.device, &spec, lent)?;
    for number in (0..areas.len()).filter(|number| !is_lent(&areas[*number].region)) {
        let key = BufferKey::Region(number);
        let blocks = kernel.memories.get(key).zip(drain.memories().get(key));
        // A region that no writer names has another length there.
        if let Some((from, to)) = blocks.filter(|(from, to)| from.len() == to.len()) {
            copy_words(from, to)?;
        }
    }
    let ends = drain.run(&batch)?.outcomes().ok_or(Error::Internal("outcomes"))?;
    let mut compared = tasks.iter().zip(ends).filter_map(|(task, again)| Some((task, task.end?, again)));
    let differs = compared.find(|(_, first, again)| first != again);
    Ok(differs.map(|(task, first, again)| difference(&kernel.spec, task, (&first, &again))))
}

/// Describes a task that ended differently when it ran once more.
fn difference(
    spec: &Spec,
    RerunTask { tenant, task, .. }: &RerunTask,
    (first, again): (&Result<u32, TaskError>, &Result<u32, TaskError>),
) -> RerunDifference {
    let text = |end: &Result<u32, TaskError>| match end {
        Ok(result) => format!("with result {result}"),
        Err(error) => error.to_string(),
    };
    let handler = spec.handlers.iter().find(|handler| handler.op == task.op);
    RerunDifference {
        tenant: *tenant,
        handler: handler.map(|handler| handler.name.clone()).unwrap_or_default(),
        args: task.args.to_vec(),
        first: text(first),
        again: text(again),
    }
}

/// Returns the `Spec` of a batch that runs so many tasks of a kernel once more.
fn rerun_spec(kernel: &SessionKernel, tasks: usize) -> Spec {
    let spec = &*kernel.spec;
    let writers: Vec<_> = kept_writers(spec).cloned().collect();
    let is_named = |name: &str| {
        writers.iter().any(|writer| writer.module.buffers.iter().any(|(_, decl)| decl.name == name))
    };
    let is_used = |region: &Region| is_named(&region.name) || region.is_kept();
    let region = |region: &Region| {
        let len = if is_used(region) { region.len } else { 1 };
        Region { len, retention: Retention::Volatile, ..region.clone() }
    };
    let unused = spec.regions.iter().filter(|region| !is_used(region));
    let unused: Vec<&str> = unused.map(|region| &*region.name).collect();
    let tenant = |tenant: &Tenant| {
        let sizes = tenant.sizes.iter().filter(|(name, _)| !unused.contains(&&**name)).cloned();
        Tenant { mask: u32::MAX, quota: 0, weight: None, sizes: sizes.collect(), ..tenant.clone() }
    };
    let slots = (tasks as u32).next_power_of_two().clamp(64, MOST_PER_PASS);
    let geometry = match spec.order {
        TaskOrder::Free => Geometry { groups: kernel.geometry.groups, ..Geometry::new(slots) },
        // One group takes one task after another.
        TaskOrder::Serial => Geometry::new(slots).groups(1).window(1),
    };
    Spec {
        order: TaskOrder::Free,
        geometry: geometry.lanes(kernel.layout.lanes),
        claim: Claim::Owned,
        body: SlotBody::Dispatch,
        report: Report::Full,
        telemetry: Telemetry::Off,
        recovery: Recovery::Off,
        regions: spec.regions.iter().map(region).collect(),
        tenants: spec.tenants.iter().map(tenant).collect(),
        handlers: writers,
        ..spec.clone()
    }
}
