//! Cases in which the host rewrites a region between tasks: no task may read an old word.
//!
//! A GPU reads memory through caches that are not told what a copy has written. These cases therefore feed a
//! session: the host copies or, into host memory, stores a new word into a region that handlers only read, and then submits tasks that read it,
//! both alone, so that a poller runs them, and in batches, so that a group does. The words lie close together, so
//! that a task reads what was in a cache a moment before.

use std::sync::Arc;
use std::time::Instant;

use pelton::ir::types::Type;
use pelton::kernel::{Region, RegionMemory};
use pelton::{Deadline, Handler, Opcode, Placement, Session, Spec, Task};
use pelton_device::Device;

use super::stage::{CaseResult, OutcomeCounts};
use crate::error::CliError;
use crate::stop;

/// The cases, by the memory of the region and the placement of their rings.
pub(super) const CASES: [(&str, RegionMemory, Placement); 6] = [
    ("region rewritten, far rings", RegionMemory::Device, Placement::Far),
    ("region rewritten, near rings", RegionMemory::Device, Placement::Near),
    ("region rewritten, near and far rings", RegionMemory::Device, Placement::Both),
    ("region in host memory rewritten, far rings", RegionMemory::Host, Placement::Far),
    ("region in host memory rewritten, near rings", RegionMemory::Host, Placement::Near),
    ("region in host memory rewritten, near and far rings", RegionMemory::Host, Placement::Both),
];

/// The number of words that are rewritten in turn.
const WORDS: u32 = 64;
/// The number of tasks in a batch that a group runs.
const BATCH: usize = 6;

/// Plays a number of rounds, each of which rewrites a word and reads it.
pub(super) fn play_region(
    device: &Arc<dyn Device>,
    (memory, placement): (RegionMemory, Placement),
    rounds: u64,
) -> Result<CaseResult, CliError> {
    let (alone, turns) = (opcode(8)?, opcode(9)?);
    let spec = Spec::default()
        .placement(placement)
        .region(Region { memory, ..Region::new("table", Type::U32, WORDS).read_only() })
        .handler_at(
            alone,
            "alone",
            Handler::lane_wide(|slot| {
                let table = slot.region::<u32>("table");
                slot.finish(slot.body().load(table.at(slot.arg(0))));
            }),
        )
        .handler_at(
            turns,
            "turns",
            Handler::lane_wide(|slot| {
                let (f, table) = (slot.body(), slot.region::<u32>("table"));
                let read = |_, _, _| f.load(table.at(slot.arg(0)));
                slot.finish(f.range((f.lit(0), slot.arg(1), f.lit(1)), f.lit(0), read));
            }),
        );
    let session = Session::launch(device, &spec)?;
    let (table, mut producer) = (session.view::<u32>(0, "table")?, session.producer(0)?);
    let mut counts = OutcomeCounts::default();
    let began = Instant::now();
    for round in 0..rounds {
        stop::unless_pressed()?;
        let (at, word) = (round as u32 % WORDS, round as u32 ^ 0x5555_5555);
        table.write(at as usize, &[word])?;
        let mut ticket = producer.submit(Task::new(alone).args([at]))?;
        let mut read = vec![ticket.wait(Deadline::Never)];
        let mut span = producer.submit_all([Task::new(turns).args([at, 2]); BATCH])?;
        span.wait(Deadline::Never)?;
        read.extend(span.results());
        for result in read {
            counts.beside += 1;
            counts.bad += u64::from(result? != word);
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    session.stop()?;
    Ok(CaseResult { rounds, counts, seconds })
}

fn opcode(code: u32) -> Result<Opcode, CliError> {
    Opcode::user(code).map_err(|error| CliError::Wrong(error.to_string()))
}
