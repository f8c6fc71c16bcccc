//! The state of a session at one moment.
//!
//! The kernel counts once per window, each group in its own words, before it posts the records of the window. So
//! whoever has seen the record of a task finds the task counted. A task that the router runs alone is counted right
//! after its record instead. Everything else is what the host knows about its rings.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;

use crate::error::Error;
use crate::kernel::layout::Layout;
use crate::kernel::{BufferId, Spec, Tenant, TenantId};
use crate::protocol::{Priority, control};
use crate::session::{BufferMemories, Rings};
use crate::telemetry::Quantiles;
use crate::telemetry::cells::{CellSnapshot, snapshot_cells};

/// A count and the name of what was counted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NamedCount {
    /// The name of what was counted, such as an opcode or a tenant.
    pub name: String,
    /// How many there were.
    pub count: u64,
}

/// How many slots of all rings are in which state. Where regions are [kept](crate::Retention), a slot that no checkpoint
/// covers counts as if a ticket held it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Occupancy {
    /// Slots that are free.
    pub empty: u64,
    /// Slots whose task was published and has not been seen to end. It waits or is being run.
    pub published: u64,
    /// Slots that a ticket holds and whose task ended well.
    pub done: u64,
    /// Slots that a ticket holds and whose task ended with a fault.
    pub fault: u64,
    /// Slots that a ticket holds and whose task was cancelled.
    pub cancelled: u64,
    /// Slots that a ticket holds and whose task ended as lost although the session went on.
    pub lost: u64,
}

/// The state of a session at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Snapshot {
    /// How long the session has run.
    pub uptime: Duration,
    /// How many kernels have run one after another. A hand-over begins another one, and so does a session that makes way for
    /// others.
    pub runs: u64,
    /// The number of slots in each state.
    pub occupancy: Occupancy,
    /// The number of tasks that have ended.
    pub done: u64,
    /// The number of tasks run per opcode, including those in packed slots.
    pub opcodes: Vec<NamedCount>,
    /// The number of tasks taken per tenant.
    pub tenants: Vec<NamedCount>,
    /// The number of tasks taken per priority.
    pub priorities: Vec<NamedCount>,
    /// The number of windows that were given to the priority that had waited longest.
    pub guarded: u64,
    /// The number of published tasks that have not ended, per ring.
    pub depth: Vec<u64>,
    /// The number of fences passed.
    pub epoch: u64,
    /// The number of debug records that found no room.
    pub lost: u64,
    /// The number of lines whose check failed.
    pub checks: u64,
    /// The latencies measured so far.
    pub latency: Quantiles,
    /// What there is to say of resumable tasks, or `None` if the kernel has no resumable handlers.
    pub cells: Option<CellSnapshot>,
    /// How often the session has recovered, or `None` if it does not recover.
    pub recovery: Option<RecoverySnapshot>,
    /// What there is to say of kept regions, or `None` if no region is kept.
    pub kept: Option<KeptSnapshot>,
    /// How long an idle kernel rests at most before it looks for tasks again, or `None` if the kernel is woken.
    pub idle_ns: Option<u64>,
}

/// How often a session has gone on after its device was lost.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RecoverySnapshot {
    /// How often it has.
    pub count: u64,
    /// The last time, if there was one.
    pub last: Option<LastRecovery>,
}

/// The last recovery of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LastRecovery {
    /// How long the session had run when its kernel was launched again.
    pub at: Duration,
    /// How long it took from the moment at which the loss was known until the kernel was launched again.
    pub took: Duration,
    /// The name of the device that was lost.
    pub from: String,
    /// The name of the device on which the session went on.
    pub to: String,
    /// How many tasks that were submitted had not ended. They began again, or for the first time.
    pub unfinished: u64,
    /// How many tasks may have run and must not begin again, so that they ended as lost.
    pub lost: u64,
}

/// The checkpoints of a session with [kept](crate::Retention) regions.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct KeptSnapshot {
    /// How many checkpoints were taken while the session ran.
    pub checkpoints: u64,
    /// How long the copies of the last checkpoint took, if there was one. The kernel had ended meanwhile.
    pub last_took: Option<Duration>,
    /// How many tasks that had ended ran once more in the last recovery, to restore what they have written.
    pub rerun: u64,
    /// The first task that ended differently when it ran once more in the last recovery, if there was one. Results are
    /// compared only where tasks run [one at a time](crate::TaskOrder::Serial). A difference means that a handler depends on
    /// something that is not restored, so that kept regions may not be what they were.
    pub difference: Option<RerunDifference>,
}

/// A task that ended differently when it ran once more.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RerunDifference {
    /// The tenant of the task.
    pub tenant: TenantId,
    /// The name of its handler.
    pub handler: String,
    /// The arguments of the task.
    pub args: Vec<u32>,
    /// How it ended first.
    pub first: String,
    /// How it ended when it ran once more.
    pub again: String,
}

/// Returns the counters of a kernel, summed over its groups.
pub(crate) fn sum_counters(layout: &Layout, memories: &BufferMemories) -> Result<Vec<u64>, Error> {
    let row = layout.counters_per_group() as usize;
    let mut sums = vec![0u64; row];
    let download = |id: BufferId, len: usize| -> Result<Vec<u64>, Error> {
        let memory = memories.need(id)?;
        let mut words = vec![0u64; len];
        memory.download(0, &mut words)?;
        Ok(words)
    };
    for group in download(BufferId::Rows, row * layout.groups as usize)?.chunks(row) {
        for (sum, word) in sums.iter_mut().zip(group) {
            *sum += word;
        }
    }
    let shared = download(BufferId::Control, control::OBSERVABLES as usize)?;
    for word in [control::EPOCH, control::LOG_LOST] {
        sums[word as usize] += shared[word as usize];
    }
    Ok(sums)
}

/// Returns the counters of opcodes with their names.
pub(crate) fn opcode_counts(spec: &Spec, layout: &Layout, counters: &[u64]) -> Vec<NamedCount> {
    let name = |op: &crate::protocol::Opcode| {
        let handler = spec.handlers.iter().find(|h| h.op == *op);
        handler.map_or_else(|| op.to_string(), |h| h.name.clone())
    };
    let counts = counters[control::OBSERVABLES as usize..].iter();
    layout.ops.iter().zip(counts).map(|(op, count)| NamedCount { name: name(op), count: *count }).collect()
}

/// Returns the counters of tenants with their names.
pub(crate) fn tenant_counts(spec: &Spec, counters: &[u64]) -> Vec<NamedCount> {
    let count =
        |t: &Tenant| NamedCount { name: t.name.clone(), count: counters[(control::CLAIMS + t.id) as usize] };
    spec.tenants.iter().map(count).collect()
}

/// Returns the counters of priorities with their names. A session without priorities counts all tasks as NORMAL.
pub(crate) fn priority_counts(layout: &Layout, counters: &[u64]) -> Vec<NamedCount> {
    let at = |level: usize| counters[control::LEVELS as usize + level];
    if layout.levels == 1 {
        return vec![NamedCount { name: Priority::Normal.to_string(), count: at(0) }];
    }
    Priority::ALL.iter().enumerate().map(|(k, p)| NamedCount { name: p.to_string(), count: at(k) }).collect()
}

/// Returns the state of a session.
pub(crate) fn take_snapshot(
    spec: &Spec,
    layout: &Layout,
    rings: &Rings,
    memories: &BufferMemories,
) -> Result<Snapshot, Error> {
    let mut occupancy = Occupancy::default();
    let mut depth = Vec::with_capacity(layout.rings.len());
    for ring in 0..layout.rings.len() as u32 {
        let before = occupancy.published;
        for stripe in rings.ring_stripes(ring) {
            let (free, tail) = (stripe.free.load(Ordering::Acquire), stripe.tail.load(Ordering::Acquire));
            occupancy.empty += stripe.ring.capacity() - (tail - free).min(stripe.ring.capacity());
            for position in free..tail {
                use crate::error::TaskError::{Cancelled, Fault, Lost};
                match stripe.ring.record_at(position).map(crate::session::record_outcome) {
                    None => occupancy.published += 1,
                    Some(Err(Fault(_))) => occupancy.fault += 1,
                    Some(Err(Cancelled { .. })) => occupancy.cancelled += 1,
                    Some(Err(Lost { .. })) => occupancy.lost += 1,
                    Some(_) => occupancy.done += 1,
                }
            }
        }
        depth.push(occupancy.published - before);
    }
    let counters = sum_counters(layout, memories)?;
    if let Some(recovery) = &rings.recovery {
        recovery.keep_counters(&counters);
        recovery.tell_epoch(counters[control::EPOCH as usize]);
    }
    Ok(Snapshot {
        uptime: rings.meter.uptime(),
        runs: rings.state.run_number(),
        occupancy,
        done: counters[control::DONE_COUNT as usize],
        opcodes: opcode_counts(spec, layout, &counters),
        tenants: tenant_counts(spec, &counters),
        priorities: priority_counts(layout, &counters),
        guarded: counters[control::STARVATION as usize],
        depth,
        epoch: counters[control::EPOCH as usize],
        lost: counters[control::LOG_LOST as usize],
        checks: counters[control::CHECKS as usize],
        latency: rings.meter.quantiles(),
        cells: snapshot_cells(spec, layout, rings, memories)?,
        recovery: rings.recovery.as_ref().map(|recovery| recovery.snapshot()),
        kept: rings.kept.as_ref().map(|kept| kept.snapshot()),
        idle_ns: layout.longest_rest().map(|rest| rest.as_nanos() as u64),
    })
}

/// Prints a summary of several lines for people.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, what: &str, counts: &[NamedCount]| {
            write!(f, "{what:<11}")?;
            let some = counts.iter().filter(|c| c.count > 0);
            let text: Vec<String> = some.map(|c| format!("{} {}", c.name, c.count)).collect();
            writeln!(f, "{}", if text.is_empty() { "none".into() } else { text.join(", ") })
        };
        writeln!(f, "{:<11}{} tasks in {:.3} s", "done", self.done, self.uptime.as_secs_f64())?;
        let Occupancy { empty, published, done, fault, cancelled, lost } = self.occupancy;
        write!(f, "{:<11}{empty} empty, {published} published, ", "slots")?;
        write!(f, "{done} done, {fault} fault, {cancelled} cancelled")?;
        match lost {
            0 => writeln!(f)?,
            lost => writeln!(f, ", {lost} lost")?,
        }
        list(f, "opcodes", &self.opcodes)?;
        list(f, "tenants", &self.tenants)?;
        list(f, "priorities", &self.priorities)?;
        if self.latency.samples > 0 {
            let Quantiles { samples, p50_ns, p99_ns, p999_ns, max_ns } = self.latency;
            let us = |ns: u64| ns as f64 / 1e3;
            write!(f, "{:<11}p50 {:.2} us, p99 {:.2} us, ", "latency", us(p50_ns), us(p99_ns))?;
            writeln!(f, "p99.9 {:.2} us, max {:.2} us ({samples} samples)", us(p999_ns), us(max_ns))?;
        }
        if let Some(cells) = &self.cells {
            writeln!(f, "{cells}")?;
        }
        if let Some(RecoverySnapshot { count, last: Some(last) }) = &self.recovery {
            let LastRecovery { at, took, from, to, unfinished, lost } = last;
            let (at, took) = (at.as_secs_f64(), took.as_secs_f64() * 1e3);
            write!(
                f,
                "{:<11}{count}, the last at {at:.3} s in {took:.1} ms from {from} to {to}: ",
                "recoveries"
            )?;
            writeln!(f, "{unfinished} tasks had not ended, {lost} were lost")?;
        }
        if let Some(KeptSnapshot { checkpoints, last_took, rerun, difference }) = &self.kept {
            write!(f, "{:<11}{checkpoints} checkpoints", "kept")?;
            if let Some(took) = last_took {
                write!(f, ", the last in {:.1} ms", took.as_secs_f64() * 1e3)?;
            }
            writeln!(f, ", {rerun} tasks run once more in the last recovery")?;
            if let Some(RerunDifference { tenant, handler, args, first, again }) = difference {
                write!(f, "{:<11}a task of {handler} of tenant {tenant} with arguments {args:?} ", "")?;
                writeln!(f, "ended differently: first {first}, then {again}")?;
            }
        }
        write!(
            f,
            "{:<11}epoch {}, {} records lost, {} checks failed",
            "also", self.epoch, self.lost, self.checks
        )?;
        if self.runs > 1 {
            write!(f, ", kernel launched {} times", self.runs)?;
        }
        match self.idle_ns {
            Some(ns) => write!(f, ", idle looks at most {:.1} us apart", ns as f64 / 1e3),
            None => Ok(()),
        }
    }
}
