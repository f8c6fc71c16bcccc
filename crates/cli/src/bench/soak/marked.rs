//! The load `tasks`: tasks that are all different. Every argument is checked in the kernel and every result on the host.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pelton::{Opcode, Producer};

use super::{GLANCE, SoakArgs, aim_of};
use crate::bench::flood::{self, FloodShare, FloodWork};
use crate::bench::{BenchRow, mark};
use crate::error::CliError;
use crate::term::Term;

/// The largest number of tasks per batch.
const BATCH: u32 = 1024;
/// The number of tasks, slots per ring and producers if they are not given.
const TASKS: u64 = 1_000_000_000;
const SLOTS: u32 = 4096;
const PRODUCERS: u32 = 1;

/// Runs tasks that are all different.
pub(super) fn soak_tasks(args: &SoakArgs, term: &Term) -> Result<Vec<BenchRow>, CliError> {
    let (tasks, slots) = (args.tasks.unwrap_or(TASKS), args.slots.unwrap_or(SLOTS));
    let producer_count = args.producers.unwrap_or(PRODUCERS);
    let op = Opcode::user(8).map_err(pelton::Error::from)?;
    let spec = args.spec(slots).producers(producer_count).handler_at(op, "mark", mark::mark_handler());
    let session = args.launch(&spec)?;
    term.note("tasks are under way");
    let (done, quit) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut producers = (0..producer_count)
        .map(|producer| Ok(session.producer(0)?.aim(aim_of(producer))))
        .collect::<Result<Vec<Producer>, pelton::Error>>()?;
    let began = Instant::now();
    let (each, rest) = (tasks / u64::from(producer_count), tasks % u64::from(producer_count));
    let part = |producer: u32| {
        let (batch, deep) = flood::batch_shape(&flood::aimed_slots(&session, aim_of(producer)), BATCH);
        let count = each + u64::from(u64::from(producer) < rest);
        let (work, start, time, pace) = (FloodWork::Mark, args.start, Duration::MAX, None);
        let (done, quit) = (&done, &quit);
        FloodShare { work, op, producer, start, count, batch, deep, began, time, pace, done, quit }
    };
    let feeds = producers.iter_mut().zip((0..producer_count).map(part)).collect();
    let bar = term.bar(tasks, "{bar:40} {human_pos}/{human_len} tasks, {per_sec}, {eta} left");
    let seen = flood::run_producers(feeds, || {
        std::thread::sleep(GLANCE);
        bar.set_position(done.load(Ordering::Relaxed));
    });
    bar.finish_and_clear();
    let seen = seen?;
    flood::check_data(&session, FloodWork::Mark, &seen)?;
    drop(producers);
    let left = session.stop()?.tasks_left();
    if left != 0 {
        return Err(CliError::Wrong(format!("{left} tasks were left when the session stopped")));
    }
    let case = format!("{} tasks, {slots} slots, producers {producer_count}", seen.tasks);
    Ok(vec![args.row(case, "tasks/s", seen.rate())?])
}
