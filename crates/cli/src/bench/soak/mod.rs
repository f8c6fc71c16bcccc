//! `bench soak`: keeps a session under load for a long time, and checks everything that comes of it.

mod graphs;
mod marked;
mod random_graph;
mod stress;
mod workers;

use std::time::Duration;

use pelton::{Aim, Geometry, Placement, Session, Spec};
use pelton_device::open;

use super::BenchRow;
use crate::count::{parse_count, parse_count_in};
use crate::error::CliError;
use crate::stop;
use crate::term::Term;

/// The time between two updates of the progress bar.
const GLANCE: Duration = Duration::from_millis(100);

/// Keep a session under load for a long time, and check every word
#[derive(clap::Args)]
pub(super) struct SoakArgs {
    /// What to load the session with
    #[arg(long, value_name = "LOAD", value_enum, default_value_t = SoakLoad::Tasks)]
    load: SoakLoad,

    /// The device to run on; `pelton devices` lists them
    #[arg(long, short, value_name = "NAME", default_value = "cpu")]
    device: String,

    /// The number of tasks, such as 1e9. If it is not given, it is 1e9, or 1e8 for the load `stress`, which counts spawned
    /// tasks and the nodes of graphs too
    #[arg(long, value_name = "N", value_parser = parse_count::<u64>, allow_negative_numbers = true)]
    tasks: Option<u64>,

    /// The number of graphs, all of them different; 1e6 if it is not given
    #[arg(long, value_name = "N", value_parser = parse_count::<u64>, allow_negative_numbers = true)]
    graphs: Option<u64>,

    /// The seed of all random choices. With the load `graphs`, an error names the seed of the graph that went wrong, so
    /// that this graph can be run alone with `--graphs 1`. With the load `stress`, the same seed gives the same tasks,
    /// but they are not cancelled, paused or resumed at the same moments, and may wait for other numbers of signals
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_count::<u64>, allow_negative_numbers = true)]
    seed: u64,

    /// The number of slots per ring, a power of two; chosen for the load if it is not given
    #[arg(long, value_name = "N", value_parser = parse_count::<u32>, allow_negative_numbers = true)]
    slots: Option<u32>,

    /// The number of threads that submit tasks; chosen for the load if it is not given
    #[arg(long, value_name = "N", value_parser = parse_count_in::<u32>(1..=64), allow_negative_numbers = true)]
    producers: Option<u32>,

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

/// What a session is loaded with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum SoakLoad {
    /// Tasks that are all different; the kernel checks every argument and the host every result
    Tasks,
    /// Random graphs of up to 200 nodes; each node must run once, after those it waits for and with the right
    /// arguments, and graphs with a mistake must be refused by name
    Graphs,
    /// Tasks of every kind at every level, also trees, graphs and tasks that wait for events, some of which are cancelled,
    /// paused, resumed or dropped; each must end as it has to, and nothing may be left in the end
    Stress,
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

/// What a producer aims at. Every other one aims at latency.
fn aim_of(producer: u32) -> Aim {
    if producer.is_multiple_of(2) { Aim::Throughput } else { Aim::Latency }
}

impl SoakArgs {
    /// The `Spec` that all loads begin with.
    fn spec(&self, slots: u32) -> Spec {
        let geometry = Geometry { groups: self.groups, ..Geometry::new(slots) };
        Spec { placement: self.placement.map(RingPlace::into), ..Spec::new(geometry) }
    }

    fn launch(&self, spec: &Spec) -> Result<Session, CliError> {
        Ok(Session::launch_at(&open(&self.device)?, spec, self.start)?)
    }

    /// A figure of this command.
    fn row(&self, case: String, metric: &'static str, value: f64) -> Result<BenchRow, CliError> {
        let (group, device) = ("soak", open(&self.device)?.caps().name.clone());
        Ok(BenchRow { group, case, device, metric: metric.into(), value, spread: None, against: None })
    }

    /// Refuses an option that has no meaning for the load.
    fn check_options(&self) -> Result<(), CliError> {
        let meaningless = match self.load {
            SoakLoad::Tasks | SoakLoad::Stress => self.graphs.map(|_| "--graphs"),
            SoakLoad::Graphs => self.tasks.map(|_| "--tasks"),
        };
        match meaningless {
            None => Ok(()),
            Some(option) => {
                let why = format!("{option} has no meaning for this load; leave it out, or change --load");
                Err(CliError::Wrong(why))
            }
        }
    }
}

pub(super) fn run_soak(args: &SoakArgs, term: &Term) -> Result<Vec<BenchRow>, CliError> {
    args.check_options()?;
    stop::listen()?;
    match args.load {
        SoakLoad::Tasks => marked::soak_tasks(args, term),
        SoakLoad::Graphs => graphs::soak_graphs(args, term),
        SoakLoad::Stress => stress::soak_stress(args, term),
    }
}
