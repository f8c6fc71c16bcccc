//! The load `stress`: producers of two tenants submit tasks of every kind at every level, and cancel, pause, resume and
//! drop some of them at random moments.
//!
//! There are plain tasks, tasks of several steps, trees, graphs, and tasks that wait for events or signal them. Every task
//! leaves what it did in a row or block of its own, so the producers know for each task what it must have done, and at the
//! end the whole workspace is compared with what all tasks together must have left. Then all cells and all instances of
//! graphs are taken at once, which only works if none was lost.

mod feed;
mod handlers;
mod job;
mod memory;
mod plan;
mod pools;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pelton::ir::types::Type;
use pelton::{Claim, Region, Session, Tenant};

use self::feed::{BATCH, FeedEnd, FeedTotals, StressFeed};
use self::handlers::{row_word, with_stress_handlers};
use self::memory::MemoryWatch;
use self::plan::StressPlan;
use super::SoakArgs;
use super::random_graph::{MAX_NODES, with_node_handlers};
use super::workers::{SoakProgress, run_workers};
use crate::bench::BenchRow;
use crate::error::CliError;
use crate::term::Term;

/// The number of tasks, slots per ring and producers if they are not given.
const TASKS: u64 = 100_000_000;
const SLOTS: u32 = 256;
const PRODUCERS: u32 = 8;
/// The least number of slots per ring: a producer may hold the tickets of two batches of the same level.
const LEAST_SLOTS: u32 = 2 * BATCH;
/// The number of cells of a producer: for two batches, and for tasks whose tickets were dropped.
const CELLS: u32 = 4 * BATCH;
/// The number of cells of a tenant for spawned tasks. There are so few that trees often find none.
const SPAWN_CELLS: u32 = 512;
/// The number of launches per producer that can be under way at once. There are so few that some have to wait.
const INSTANCES_PER_PRODUCER: u32 = 4;

/// Runs tasks of every kind.
pub(super) fn soak_stress(args: &SoakArgs, term: &Term) -> Result<Vec<BenchRow>, CliError> {
    let tasks = args.tasks.unwrap_or(TASKS);
    let plan = StressPlan { producers: args.producers.unwrap_or(PRODUCERS) };
    let slots = args.slots.unwrap_or(SLOTS);
    if slots < LEAST_SLOTS {
        let why = format!("{slots} slots per ring are too few for this load; it needs {LEAST_SLOTS}");
        return Err(CliError::Wrong(why));
    }
    let spec = with_node_handlers(args.spec(slots))
        .claim(Claim::PRIORITY)
        .cells(CELLS)
        .spawn_cells(SPAWN_CELLS)
        .events(plan.last_event() + 1)
        .graph_nodes(MAX_NODES)
        .graph_instances(plan.producers * INSTANCES_PER_PRODUCER)
        .region(Region::new("data", Type::U32, plan.element_count()));
    let spec = (0..plan.tenants())
        .fold(spec, |spec, tenant| spec.tenant(Tenant::new(tenant).producers(plan.producers_of(tenant))));
    let (spec, ops) = with_stress_handlers(spec)?;
    let session = args.launch(&spec)?;
    term.note("tasks of every kind are under way");
    let submitted = AtomicU64::new(0);
    let (progress, began) = (SoakProgress::default(), Instant::now());
    let bar = term.bar(tasks, "{bar:40} {human_pos}/{human_len} tasks, {per_sec}, {eta} left");
    let mut memory = MemoryWatch::default();
    let work = |worker: u32| {
        let mut feed = StressFeed::new(&session, ops, plan, (worker, args.seed))?;
        feed.run(tasks, &progress, &submitted)?;
        feed.finish()
    };
    let seen = run_workers(plan.producers, &progress, work, || {
        progress.set(submitted.load(Ordering::Relaxed) + spawned_count(&session)?);
        bar.set_position(progress.done());
        memory.look()
    });
    bar.finish_and_clear();
    let ends = seen?;
    let seen = ends.iter().map(|end| end.totals).fold(FeedTotals::default(), FeedTotals::and);
    let (spawned, took) = (spawned_count(&session)?, began.elapsed().as_secs_f64());
    pools::check_idle(&session)?;
    check_tenants(&session, plan, &ends)?;
    pools::fill_pools(&session, &ops, plan)?;
    pools::check_idle(&session)?;
    match session.stop()?.tasks_left() {
        0 => {}
        left => return Err(CliError::Wrong(format!("{left} tasks were left when the session stopped"))),
    }
    let FeedTotals { submitted, launches, cancelled, dropped, faults } = seen;
    let grown =
        memory.growth().map_or(String::new(), |bytes| format!("; the process grew by {} MiB", bytes >> 20));
    term.note(format!(
        "{submitted} tasks were submitted, of which {launches} launched graphs, and {spawned} were spawned or were nodes; \
         {cancelled} ended as cancelled, {faults} ended with the fault that they had to end with, and the tickets of {dropped} \
         were dropped{grown}"
    ));
    let count = submitted + spawned;
    let case = format!("{count} tasks of every kind, producers {}", plan.producers);
    Ok(vec![args.row(case, "tasks/s", count as f64 / took)?])
}

/// The number of tasks that were spawned so far, with the nodes of graphs.
fn spawned_count(session: &Session) -> Result<u64, CliError> {
    Ok(session.snapshot()?.cells.map_or(0, |cells| cells.steps.spawned))
}

/// Compares all elements of all tenants with what the producers know to be in their rows, and the count of the event that
/// the producers of a tenant share with how often they have signalled it.
fn check_tenants(session: &Session, plan: StressPlan, ends: &[FeedEnd]) -> Result<(), CliError> {
    for tenant in 0..plan.tenants() {
        let (mut wanted, mut signals) = (vec![0u32; plan.element_count() as usize], 0);
        for (producer, end) in (0..).zip(ends).filter(|(producer, _)| plan.tenant(*producer) == tenant) {
            signals += end.shared_signals;
            for (row, words) in (0..).zip(&end.rows) {
                let at = plan.row_at(producer, row) as usize;
                wanted[at..at + words.len()].copy_from_slice(words);
                for word in [row_word::RUNS, row_word::SUM] {
                    wanted[word as usize] = wanted[word as usize].wrapping_add(words[word as usize]);
                }
            }
        }
        feed::check_event(session, tenant, plan.shared_event(), signals)?;
        let found = session.view::<u32>(tenant, "data")?.read_all()?;
        if let Some(at) = (0..wanted.len()).find(|at| wanted[*at] != found[*at]) {
            let what = format!("element {at} of tenant {tenant} is {}, not {}", found[at], wanted[at]);
            return Err(CliError::Wrong(what));
        }
    }
    Ok(())
}
