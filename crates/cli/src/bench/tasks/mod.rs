//! `bench tasks`: what tasks can do beyond one call of their handler with twelve words, compared with what the machine
//! allows.
//!
//! Each case is a row of [`CASES`], and has a file of its own.

mod contender;
mod copies;
mod event_peers;
mod events;
mod graph_shape;
mod graphs;
mod payload;
mod rayon_trees;
mod steps;
mod trees;
mod urgency;

use std::sync::Arc;
use std::time::Duration;

use pelton_device::{Device, open};

use super::BenchRow;
use super::rounds::Series;
use crate::error::CliError;
use crate::stop;
use crate::term::Term;

/// Measure what tasks can do: bring payloads and give replies, take many steps, spawn others, wait for them and form graphs
#[derive(clap::Args)]
pub(super) struct TasksArgs {
    /// The device to run on; `pelton devices` lists them
    #[arg(long, short, value_name = "NAME", default_value = "cpu")]
    device: String,

    /// Measure for a shorter time, with less certain figures
    #[arg(long)]
    quick: bool,
}

impl TasksArgs {
    /// The flags that produce these arguments again.
    pub(super) fn flags(&self) -> Vec<String> {
        let quick = self.quick.then_some("--quick");
        ["--device", &self.device].into_iter().chain(quick).map(String::from).collect()
    }
}

/// The cases of the group.
const CASES: &[TasksCase] = &[
    TasksCase { note: payload::NOTE, measure: payload::measure_payloads },
    TasksCase { note: steps::NOTE, measure: steps::measure_steps },
    TasksCase { note: trees::NOTE, measure: trees::measure_trees },
    TasksCase { note: events::NOTE, measure: events::measure_events },
    TasksCase { note: graphs::NOTE, measure: graphs::measure_graphs },
    TasksCase { note: urgency::NOTE, measure: urgency::measure_urgency },
];

/// A case, which may have several rows.
struct TasksCase {
    /// What is being measured, for people who wait.
    note: &'static str,
    /// Measures the contenders whose name contains the wanted text, and returns their rows.
    measure: fn(&TasksBench<'_>) -> Result<Vec<BenchRow>, CliError>,
}

/// What a case is measured with.
struct TasksBench<'a> {
    device: &'a Arc<dyn Device>,
    /// The time for which each contender is measured in a round.
    time: Duration,
    rounds: u32,
    /// Whether the figures may be less certain.
    quick: bool,
    /// The text that the name of a row contains.
    only: &'a str,
}

impl TasksBench<'_> {
    /// Whether the device works in the host's memory. It then runs on the host's cores too, so that what runs there is
    /// its peer.
    fn is_local(&self) -> bool {
        self.device.caps().memory_bytes.is_none()
    }

    /// A row from what was measured in rounds; `None` if Ctrl-C was pressed before the first round ended, or if the row
    /// is not wanted.
    fn row(&self, case: &str, series: &Series, against: Option<(&str, &Series)>) -> Option<BenchRow> {
        self.row_of(case, "tasks/s", series, against)
    }

    /// A row whose figures have this unit.
    fn row_of(
        &self,
        case: &str,
        metric: &'static str,
        series: &Series,
        against: Option<(&str, &Series)>,
    ) -> Option<BenchRow> {
        Some(BenchRow {
            group: "tasks",
            case: case.into(),
            device: self.device.caps().name.clone(),
            metric: metric.into(),
            value: series.value().filter(|_| case.contains(self.only))?,
            spread: None,
            against: against.and_then(|(name, peer)| series.against(name, peer)),
        })
    }
}

/// Measures the cases whose name contains `only`, and adds their rows. After a failure the rows of the cases before it
/// stay.
pub(super) fn run_tasks(
    args: &TasksArgs,
    only: &str,
    rounds: Option<u32>,
    rows: &mut Vec<BenchRow>,
    term: &Term,
) -> Result<(), CliError> {
    stop::listen()?;
    let device = &open(&args.device)?;
    let (time, least) = if args.quick { (100, 5) } else { (300, 15) };
    let time = Duration::from_millis(time);
    let bench = TasksBench { device, time, rounds: rounds.unwrap_or(least), quick: args.quick, only };
    for case in CASES.iter().take_while(|_| !stop::pressed()) {
        term.note(format_args!("{} …", case.note));
        rows.extend((case.measure)(&bench)?);
    }
    Ok(())
}
