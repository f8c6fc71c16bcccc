//! What is measured in the rounds of a case, and the rows that come of it.

use std::time::{Duration, Instant};

use super::{BenchRow, TasksBench};
use crate::bench::rounds::{Sample, Series, play_rounds};
use crate::error::CliError;
use crate::stop;

/// One of those that are measured in every round of a case.
pub(super) struct Contender<C> {
    /// The name of its row.
    pub name: String,
    /// The name of the contender that it is compared with.
    pub peer: Option<String>,
    /// The unit of its figure.
    pub metric: &'static str,
    /// What to measure.
    pub what: C,
}

impl<C> Contender<C> {
    /// A contender that is compared with nothing.
    pub(super) fn new(name: impl Into<String>, metric: &'static str, what: C) -> Self {
        Contender { name: name.into(), peer: None, metric, what }
    }

    /// The same contender, compared with the one of this name.
    pub(super) fn against(self, peer: impl Into<String>) -> Self {
        Contender { peer: Some(peer.into()), ..self }
    }
}

/// Measures the contenders whose rows are wanted, and those that they are compared with, in turns. Returns a series for
/// each that was measured.
pub(super) fn play_contenders<C>(
    bench: &TasksBench<'_>,
    contenders: Vec<Contender<C>>,
    mut measure: impl FnMut(&mut C) -> Result<Sample, CliError>,
) -> Result<Vec<(Contender<C>, Series)>, CliError> {
    let wanted: Vec<String> = contenders
        .iter()
        .filter(|one| one.name.contains(bench.only))
        .flat_map(|one| [Some(one.name.clone()), one.peer.clone()])
        .flatten()
        .collect();
    let mut measured: Vec<_> = contenders.into_iter().filter(|one| wanted.contains(&one.name)).collect();
    let series = play_rounds(bench.rounds, &mut measured, |one| measure(&mut one.what))?;
    Ok(measured.into_iter().zip(series).collect())
}

/// The rows of the contenders whose rows are wanted.
pub(super) fn contender_rows<C>(
    bench: &TasksBench<'_>,
    measured: &[(Contender<C>, Series)],
) -> Vec<BenchRow> {
    let row = |(one, series): &(Contender<C>, Series)| {
        let peer = measured.iter().find(|(other, _)| Some(&other.name) == one.peer.as_ref());
        let against = peer.map(|(other, theirs)| (&*other.name, theirs));
        let row = bench.row_of(&one.name, one.metric, series, against)?;
        Some(BenchRow { spread: series.percentiles(), ..row })
    };
    measured.iter().filter_map(row).collect()
}

/// Repeats something that says how much it has done, for a while. Returns how much that is per second.
pub(super) fn repeat(
    time: Duration,
    mut run: impl FnMut() -> Result<u64, CliError>,
) -> Result<f64, CliError> {
    let (start, mut done) = (Instant::now(), 0);
    while start.elapsed() < time {
        stop::unless_pressed()?;
        done += run()?;
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
}

/// Repeats something that gives times in microseconds, for a while, and returns all of them.
pub(super) fn repeat_times(
    time: Duration,
    mut run: impl FnMut() -> Result<Vec<f64>, CliError>,
) -> Result<Vec<f64>, CliError> {
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < time {
        stop::unless_pressed()?;
        times.extend(run()?);
    }
    Ok(times)
}
