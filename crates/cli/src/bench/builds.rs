//! Compares two builds of this program, which are measured in turns.
//!
//! Every round runs the benchmark once with each build, as a child process with the same flags. Both builds are
//! children, so that both start in the same way, and they run one after the other, so that only one of them holds a
//! device.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::BenchRow;
use super::rounds::{Series, take_turns};
use crate::error::CliError;
use crate::term::Term;
use crate::{CliStatus, stop};

/// The number of rounds if none is given.
const ROUNDS: u32 = 5;
/// The longest time until a Ctrl-C that ended a child is noticed in this process too.
const NOTICE: Duration = Duration::from_secs(1);

/// The reason why two builds cannot be compared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    /// A build cannot be started.
    #[error("cannot run {}: {source}", path.display())]
    Start {
        /// The program of the build.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A build does not accept the flags.
    #[error(
        "{} does not understand `{flags}`; it must be a build of pelton that has `bench --rounds`",
        path.display()
    )]
    Flags {
        /// The program of the build.
        path: PathBuf,
        /// The flags that it was given.
        flags: String,
    },
    /// The benchmark failed.
    #[error("`{} {flags}` failed, {status}: {}", path.display(), stderr.trim_end())]
    Failed {
        /// The program of the build.
        path: PathBuf,
        /// The flags that it was given.
        flags: String,
        /// How the child ended.
        status: ExitStatus,
        /// What the child wrote to standard error.
        stderr: String,
    },
    /// A build wrote something other than rows.
    #[error("{} wrote a line that is not a row: {line}", path.display())]
    Line {
        /// The program of the build.
        path: PathBuf,
        /// The line that it wrote.
        line: String,
    },
    /// The builds measure different things.
    #[error("the two builds have no row in common, so there is nothing to compare")]
    Nothing,
}

/// The parts of a child's row that are compared.
#[derive(Clone, PartialEq, Debug, Deserialize)]
struct BuildFigure {
    case: String,
    device: String,
    metric: String,
    /// The figure. `None` is how JSON spells one that is not a number.
    value: Option<f64>,
}

impl BuildFigure {
    /// The key that identifies a figure. A case that is compared with several others has several rows with the same
    /// figure.
    fn key(&self) -> (&str, &str, &str) {
        (&self.case, &self.device, &self.metric)
    }
}

/// Measures this build and another in rounds, with the flags after `bench` that choose a benchmark.
pub(super) fn compare_builds(
    group: &'static str,
    flags: &[String],
    other: &Path,
    rounds: Option<u32>,
    term: &Term,
) -> Result<Vec<BenchRow>, CliError> {
    let start = |path: &Path, source| BuildError::Start { path: path.into(), source };
    let ours = env::current_exe().map_err(|source| start(Path::new("this program"), source))?;
    // A name without a folder is a file in the current folder, not a command to search for.
    let theirs = fs::canonicalize(other).map_err(|source| start(other, source))?;
    let rounds = rounds.unwrap_or(ROUNDS);
    term.note(format_args!("{} and then {} in turns, rounds {rounds} …", ours.display(), theirs.display()));
    let bar = term.bar(u64::from(rounds) * 2, "{bar:40} {msg}");
    let mut runs = take_turns(rounds, &mut [ours, theirs], |path| {
        bar.set_message(path.display().to_string());
        let figures = measure_build(path, flags)?;
        bar.inc(1);
        Ok(figures)
    })?;
    bar.finish_and_clear();
    let theirs = runs.pop().unwrap_or_default();
    let ours = runs.pop().unwrap_or_default();
    for (who, strays) in
        [("this build", cases_of_one(&ours, &theirs)), ("the other build", cases_of_one(&theirs, &ours))]
    {
        if !strays.is_empty() {
            term.note(format_args!("only {who} has: {}", Vec::from_iter(strays).join("; ")));
        }
    }
    let rows = comparison_rows(group, &ours, &theirs);
    match rows.is_empty() && !ours.is_empty() {
        true => Err(BuildError::Nothing.into()),
        false => Ok(rows),
    }
}

/// Runs a benchmark once with a build; fails if Ctrl-C was pressed meanwhile.
fn measure_build(path: &Path, flags: &[String]) -> Result<Vec<BuildFigure>, CliError> {
    let output = Command::new(path).args(flags).stdin(Stdio::null()).output();
    let output = output.map_err(|source| BuildError::Start { path: path.into(), source })?;
    let code = output.status.code();
    // A terminal sends Ctrl-C to the child too, which may end before this process notices.
    let since = Instant::now();
    while code.is_none_or(|code| code == CliStatus::Interrupted as i32)
        && !stop::pressed()
        && since.elapsed() < NOTICE
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    stop::unless_pressed()?;
    if code == Some(CliStatus::Usage as i32) {
        return Err(BuildError::Flags { path: path.into(), flags: flags.join(" ") }.into());
    }
    if code != Some(0) {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let (path, flags, status) = (path.into(), flags.join(" "), output.status);
        return Err(BuildError::Failed { path, flags, status, stderr }.into());
    }
    Ok(parse_figures(path, &String::from_utf8_lossy(&output.stdout))?)
}

/// Parses the figures of the rows that a build wrote.
fn parse_figures(path: &Path, text: &str) -> Result<Vec<BuildFigure>, BuildError> {
    let figure = |line: &str| {
        serde_json::from_str(line).map_err(|_| BuildError::Line { path: path.into(), line: line.into() })
    };
    text.lines().map(figure).collect()
}

/// The cases that only the first of two builds has.
fn cases_of_one<'a>(runs: &'a [Vec<BuildFigure>], others: &[Vec<BuildFigure>]) -> BTreeSet<&'a str> {
    let there = |figure: &BuildFigure| others.iter().flatten().any(|other| other.key() == figure.key());
    runs.iter().flatten().filter(|figure| !there(figure)).map(|figure| &*figure.case).collect()
}

/// A row for each figure that both builds have, in the order of ours, with each build's median over all rounds.
fn comparison_rows(
    group: &'static str,
    ours: &[Vec<BuildFigure>],
    theirs: &[Vec<BuildFigure>],
) -> Vec<BenchRow> {
    let mut figures: Vec<&BuildFigure> = Vec::new();
    for figure in ours.iter().flatten() {
        if !figures.iter().any(|known| known.key() == figure.key()) {
            figures.push(figure);
        }
    }
    let series = |runs: &[Vec<BuildFigure>], figure: &BuildFigure| -> Series {
        let of = |run: &Vec<BuildFigure>| run.iter().find(|other| other.key() == figure.key())?.value;
        // A round without the figure still counts as a round of the other build.
        runs.iter().map(|run| of(run).unwrap_or(f64::NAN)).collect()
    };
    let row = |figure: &BuildFigure| {
        let (ours, theirs) = (series(ours, figure), series(theirs, figure));
        Some(BenchRow {
            group,
            case: figure.case.clone(),
            device: figure.device.clone(),
            metric: figure.metric.clone().into(),
            value: ours.value()?,
            spread: None,
            against: Some(ours.against("other build", &theirs)?),
        })
    };
    figures.into_iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(case: &str, value: Option<f64>) -> BuildFigure {
        BuildFigure { case: case.into(), device: "cpu".into(), metric: "us".into(), value }
    }

    #[test]
    fn rows_are_compared_round_by_round_and_once_each() {
        let run =
            |trip, other: &str| vec![figure("trip", trip), figure("trip", trip), figure(other, Some(1.0))];
        let ours = [run(Some(2.0), "new"), run(Some(8.0), "new"), run(Some(9.0), "new")];
        let theirs = [run(Some(1.0), "old"), run(Some(4.0), "old"), run(None, "old")];
        let rows = comparison_rows("echo", &ours, &theirs);
        let [row] = &rows[..] else { panic!("{rows:?}") };
        let against = row.against.as_ref().expect("there is another build");
        assert_eq!((row.case.as_str(), row.value, against.value), ("trip", 8.0, 2.5));
        assert_eq!(against.ratio.map(|ratio| (ratio.median, ratio.rounds)), Some((2.0, 2)));
        assert_eq!(Vec::from_iter(cases_of_one(&ours, &theirs)), ["new"]);
        assert_eq!(Vec::from_iter(cases_of_one(&theirs, &ours)), ["old"]);
    }

    #[test]
    fn a_case_on_another_device_is_another_case() {
        let ours = [vec![figure("trip", Some(1.0))]];
        let theirs = [vec![BuildFigure { device: "rust".into(), ..figure("trip", Some(1.0)) }]];
        assert!(comparison_rows("echo", &ours, &theirs).is_empty());
    }

    #[test]
    fn rows_of_other_versions_are_read() {
        let path = Path::new("pelton");
        let line = r#"{"case":"a","device":"cpu","metric":"us","value":null,"group":"echo","more":[1]}"#;
        assert_eq!(parse_figures(path, line).expect("it is a row"), [figure("a", None)]);
        let refused = parse_figures(path, "case   device").expect_err("a table is no row");
        assert_eq!(refused.to_string(), "pelton wrote a line that is not a row: case   device");
    }
}
