//! `bench soak`: keeps a session under load for a long time, and checks every argument in the kernel and every
//! result on the host.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pelton::{Aim, Geometry, Opcode, Placement, Producer, Session, Spec};
use pelton_device::open;

use super::flood::{self, FloodShare, FloodWork};
use super::{BenchRow, mark};
use crate::count::{parse_count, parse_count_in};
use crate::error::CliError;
use crate::stop;
use crate::term::Term;

/// The largest number of tasks per batch.
const BATCH: u32 = 1024;
/// The time between two updates of the progress bar.
const GLANCE: Duration = Duration::from_millis(100);

/// Keep a session under load for a long time, and check every word
#[derive(clap::Args)]
pub(super) struct SoakArgs {
    /// The device to run on; `pelton devices` lists them
    #[arg(long, short, value_name = "NAME", default_value = "cpu")]
    device: String,

    /// The number of tasks, such as 1e9
    #[arg(long, value_name = "N", default_value = "1e9", value_parser = parse_count::<u64>, allow_negative_numbers = true)]
    tasks: u64,

    /// The number of slots per ring, a power of two
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = parse_count::<u32>, allow_negative_numbers = true)]
    slots: u32,

    /// The number of threads that submit tasks
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_count_in::<u32>(1..=64), allow_negative_numbers = true)]
    producers: u32,

    /// Where the rings lie; chosen for the device if it is not given
    #[arg(long, value_name = "WHERE", value_enum)]
    placement: Option<RingPlace>,

    /// The number of groups of the kernel; chosen for the device if it is not given
    #[arg(long, value_name = "N", value_parser = parse_count::<u32>, allow_negative_numbers = true)]
    groups: Option<u32>,

    /// The position at which rings start, to pass an edge such as 4294967296
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_count::<u64>, allow_negative_numbers = true)]
    start: u64,
}

/// Where the rings of a session lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum RingPlace {
    /// In memory that is fast for the groups to poll
    Near,
    /// In host memory, which one group polls for all
    Far,
    /// In both; every other producer submits its tasks to near rings
    Both,
}

impl From<RingPlace> for Placement {
    fn from(place: RingPlace) -> Placement {
        match place {
            RingPlace::Near => Placement::Near,
            RingPlace::Far => Placement::Far,
            RingPlace::Both => Placement::Both,
        }
    }
}

pub(super) fn run_soak(args: &SoakArgs, term: &Term) -> Result<Vec<BenchRow>, CliError> {
    stop::listen()?;
    let device = open(&args.device)?;
    let op = Opcode::user(8).map_err(pelton::Error::from)?;
    let geometry = Geometry { groups: args.groups, ..Geometry::new(args.slots) };
    let spec = Spec::new(geometry).producers(args.producers);
    let spec = spec.handler_at(op, "mark", mark::mark_handler());
    let spec = Spec { placement: args.placement.map(RingPlace::into), ..spec };
    let session = Session::launch_at(&device, &spec, args.start)?;
    let (done, quit) = (AtomicU64::new(0), AtomicBool::new(false));
    let aim = |producer: u32| if producer.is_multiple_of(2) { Aim::Throughput } else { Aim::Latency };
    let mut producers = (0..args.producers)
        .map(|producer| Ok(session.producer(0)?.aim(aim(producer))))
        .collect::<Result<Vec<Producer>, pelton::Error>>()?;
    let began = Instant::now();
    let (each, rest) = (args.tasks / u64::from(args.producers), args.tasks % u64::from(args.producers));
    let part = |producer: u32| {
        let (batch, deep) = flood::batch_shape(&flood::aimed_slots(&session, aim(producer)), BATCH);
        let count = each + u64::from(u64::from(producer) < rest);
        let (work, start, time, pace) = (FloodWork::Mark, args.start, Duration::MAX, None);
        let (done, quit) = (&done, &quit);
        FloodShare { work, op, producer, start, count, batch, deep, began, time, pace, done, quit }
    };
    let feeds = producers.iter_mut().zip((0..args.producers).map(part)).collect();
    let bar = term.bar(args.tasks, "{bar:40} {human_pos}/{human_len} tasks, {per_sec}, {eta} left");
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
    let names = format!("{} tasks, {} slots, producers {}", seen.tasks, args.slots, args.producers);
    let device = device.caps().name.clone();
    let (group, metric, value) = ("soak", "tasks/s".into(), seen.rate());
    Ok(vec![BenchRow { group, case: names, device, metric, value, spread: None, against: None }])
}
