//! A session under load for a long time: every argument checked in the kernel, every result on the host.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pelton::{Aim, Geometry, Opcode, Producer, Session, Spec};
use pelton_device::{Placement, open};

use super::flood::{self, Part, Work};
use super::{Row, mark};
use crate::count::{count, within};
use crate::error::Error;
use crate::stop;
use crate::term::Term;

/// Tasks at once, at most.
const BATCH: u32 = 1024;
/// How often the bar moves.
const GLANCE: Duration = Duration::from_millis(100);

/// A session under load for a long time, with every word checked
#[derive(clap::Args)]
pub struct Args {
    /// What to run it on; `pelton devices` lists what there is
    #[arg(long, short, value_name = "NAME", default_value = "cpu")]
    device: String,

    /// How many tasks, such as 1e9
    #[arg(long, value_name = "N", default_value = "1e9", value_parser = count::<u64>, allow_negative_numbers = true)]
    tasks: u64,

    /// Slots of a ring, a power of two
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = count::<u32>, allow_negative_numbers = true)]
    slots: u32,

    /// Threads that submit
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within::<u32>(1..=64), allow_negative_numbers = true)]
    producers: u32,

    /// Where rings lie; chosen for the device if not given
    #[arg(long, value_name = "WHERE", value_enum)]
    placement: Option<Place>,

    /// Groups of the kernel; chosen for the device if not given
    #[arg(long, value_name = "N", value_parser = count::<u32>, allow_negative_numbers = true)]
    groups: Option<u32>,

    /// The position that rings start from, to go past an edge such as 4294967296
    #[arg(long, value_name = "N", default_value = "0", value_parser = count::<u64>, allow_negative_numbers = true)]
    start: u64,
}

/// Where rings lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Place {
    /// In memory that groups poll at home
    Near,
    /// In host memory that one group polls for all
    Far,
    /// In both; every other producer sends its tasks near
    Both,
}

impl From<Place> for Placement {
    fn from(place: Place) -> Placement {
        match place {
            Place::Near => Placement::Near,
            Place::Far => Placement::Far,
            Place::Both => Placement::Both,
        }
    }
}

pub fn run(args: &Args, term: &Term) -> Result<Vec<Row>, Error> {
    stop::word()?;
    let device = open(&args.device)?;
    let op = Opcode::user(8).map_err(pelton::Error::from)?;
    let geometry = Geometry { groups: args.groups, ..Geometry::new(args.slots) };
    let spec = Spec::new(geometry).producers(args.producers);
    let handler = mark::handler(op, &spec.regions);
    let spec = Spec { placement: args.placement.map(Place::into), ..spec.with(handler) };
    let session = Session::launch_at(&device, &spec, args.start)?;
    let (done, quit) = (AtomicU64::new(0), AtomicBool::new(false));
    let aim = |producer: u32| if producer.is_multiple_of(2) { Aim::Throughput } else { Aim::Latency };
    let mut producers = (0..args.producers)
        .map(|producer| Ok(session.producer(0)?.aim(aim(producer))))
        .collect::<Result<Vec<Producer>, pelton::Error>>()?;
    let began = Instant::now();
    let (each, rest) = (args.tasks / u64::from(args.producers), args.tasks % u64::from(args.producers));
    let part = |producer: u32| {
        let (batch, deep) = flood::shape(&flood::aimed_bank(&session, aim(producer)), BATCH);
        let count = each + u64::from(u64::from(producer) < rest);
        let (work, start, time, pace) = (Work::Mark, args.start, Duration::MAX, None);
        let (done, quit) = (&done, &quit);
        Part { work, op, producer, start, count, batch, deep, began, time, pace, done, quit }
    };
    let feeds = producers.iter_mut().zip((0..args.producers).map(part)).collect();
    let bar = term.bar(args.tasks, "{bar:40} {human_pos}/{human_len} tasks, {per_sec}, {eta} left");
    let seen = flood::all(feeds, || {
        std::thread::sleep(GLANCE);
        bar.set_position(done.load(Ordering::Relaxed));
    });
    bar.finish_and_clear();
    let seen = seen?;
    flood::check(&session, Work::Mark, &seen)?;
    drop(producers);
    let left = session.stop()?.total();
    if left != 0 {
        return Err(Error::Wrong(format!("{left} tasks were left behind")));
    }
    let names = format!("{} tasks, {} slots, producers {}", seen.tasks, args.slots, args.producers);
    let device = device.caps().name.clone();
    let (group, metric, value) = ("soak", "tasks/s".into(), seen.rate());
    Ok(vec![Row { group, case: names, device, metric, value, spread: None, against: None }])
}
