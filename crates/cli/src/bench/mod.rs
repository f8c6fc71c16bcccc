//! `pelton bench`: measures, and shows the figures as a table for people and rows for programs.
//!
//! The limit or peer that a row is compared with is measured in the same [rounds]. Every case checks its results,
//! so that what is timed is what was meant.

mod builds;
mod compile;
mod cuda;
mod device;
mod echo;
mod flood;
mod handover;
mod io;
mod journal;
pub(crate) mod machine;
mod mark;
mod ratio;
#[cfg(target_os = "linux")]
mod recovery;
mod rounds;
mod row;
mod scan;
mod session;
mod soak;
mod tasks;

use std::path::{Path, PathBuf};

use clap::Subcommand;

use crate::count::parse_count_in;
use crate::error::CliError;
use crate::term::{Term, TextRole};
use crate::{CliStatus, json, stop};

pub(crate) use builds::BuildError;
pub(crate) use device::parse_kernel;
pub(crate) use row::BenchRow;

/// The groups of benchmarks.
#[derive(Subcommand)]
enum BenchGroup {
    /// Measure kernels on the CPU device, compared with the interpreter and the same loops in Rust
    Device,
    /// Measure round trips between a host thread and a resident kernel
    Echo,
    /// Measure parsing, validating, optimising and loading
    Compile,
    Session(session::SessionArgs),
    Scan(scan::ScanBenchArgs),
    Tasks(tasks::TasksArgs),
    Handover(handover::HandOverArgs),
    #[cfg(target_os = "linux")]
    Recovery(recovery::RecoveryArgs),
    Journal(journal::JournalBenchArgs),
    Io(io::IoBenchArgs),
    Soak(soak::SoakArgs),
}

/// Measure Pelton's speed, and print a table
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton bench device
  pelton bench echo --json rows.jsonl
  pelton bench session --device cpu --quick
  pelton bench session --device cuda --json rows.jsonl
  pelton bench session --device cuda --quick --only task --against ../old/target/release/pelton
  pelton bench scan --quick
  pelton bench tasks --only payload --json rows.jsonl
  pelton bench handover --quick
  pelton bench recovery --quick
  pelton bench journal --quick
  pelton bench io --quick
  pelton bench soak --tasks 1e8 --start 4294900000
  pelton bench soak --device cuda --tasks 1e10 --slots 65536 --producers 8 --placement near
  pelton bench soak --load graphs --graphs 1e6
  pelton bench soak --load stress --tasks 1e8 --seed 7
  pelton bench device --only hash
  pelton bench compile --json - > rows.jsonl     write rows to standard output instead of the table

What a case is compared with is measured in the same rounds, in turns, so that a busy machine
slows down both. Ctrl-C ends the command with the rows so far and exit status 130.")]
pub(crate) struct BenchArgs {
    /// The group of benchmarks to run
    #[command(subcommand)]
    group: BenchGroup,

    /// Run only the cases whose name contains this text
    #[arg(long, global = true, value_name = "TEXT", default_value = "")]
    only: String,

    /// The number of rounds; chosen for the group if it is not given, and 5 with --against. `compile` and `soak`
    /// have no rounds
    #[arg(long, global = true, value_name = "N", value_parser = parse_count_in::<u32>(1..=1000), allow_negative_numbers = true)]
    rounds: Option<u32>,

    /// Compare this build with another build of pelton: run both in turns, and show the ratio of this build to the
    /// other
    #[arg(long, global = true, value_name = "PROGRAM")]
    against: Option<PathBuf>,

    /// Write the rows to this file, one JSON object per line; `-` writes them to standard output instead of the
    /// table
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl BenchArgs {
    /// The name of the group, and the command line that measures the same cases in one round and writes rows.
    fn single_round(&self) -> Result<(&'static str, Vec<String>), CliError> {
        let (group, own) = match &self.group {
            BenchGroup::Device => ("device", Vec::new()),
            BenchGroup::Echo => ("echo", Vec::new()),
            BenchGroup::Compile => ("compile", Vec::new()),
            BenchGroup::Session(group) => ("session", group.flags().into_iter().map(String::from).collect()),
            BenchGroup::Scan(group) => ("scan", group.flags()),
            BenchGroup::Tasks(group) => ("tasks", group.flags()),
            BenchGroup::Handover(group) => ("handover", group.flags()),
            #[cfg(target_os = "linux")]
            BenchGroup::Recovery(group) => ("recovery", group.flags()),
            BenchGroup::Journal(group) => ("journal", group.flags()),
            BenchGroup::Io(group) => ("io", group.flags()),
            BenchGroup::Soak(_) => {
                return Err(CliError::Wrong(
                    "`bench soak` does not compare builds; leave out --against".into(),
                ));
            }
        };
        let mut flags = vec!["bench".to_string(), group.to_string()];
        flags.extend(own);
        flags.extend(["--only", &self.only, "--rounds", "1", "--json", "-"].map(String::from));
        Ok((group, flags))
    }
}

pub(crate) fn run_bench(args: &BenchArgs, term: &Term) -> Result<CliStatus, CliError> {
    json::check_rows_writable(args.json.as_deref())?;
    stop::listen()?;
    term.note(machine::machine_line());
    let (only, rounds, mut rows) = (&*args.only, args.rounds, Vec::new());
    let ended = match (&args.against, &args.group) {
        (Some(other), _) => {
            let (group, flags) = args.single_round()?;
            builds::compare_builds(group, &flags, other, rounds, term).map(|all| rows = all)
        }
        (None, BenchGroup::Device) => device::bench_device(only, rounds, &mut rows, term),
        (None, BenchGroup::Echo) => echo::bench_echo(only, rounds, &mut rows, term),
        (None, BenchGroup::Compile) => compile::bench_compile(only, &mut rows, term),
        (None, BenchGroup::Soak(group)) => soak::run_soak(group, term).map(|all| rows = all),
        (None, BenchGroup::Session(group)) => session::run_session(group, only, rounds, &mut rows, term),
        (None, BenchGroup::Scan(group)) => scan::run_scan(group, only, rounds, &mut rows, term),
        (None, BenchGroup::Tasks(group)) => tasks::run_tasks(group, only, rounds, &mut rows, term),
        (None, BenchGroup::Handover(group)) => handover::run_handover(group, only, rounds, &mut rows, term),
        #[cfg(target_os = "linux")]
        (None, BenchGroup::Recovery(group)) => recovery::run_recovery(group, only, rounds, &mut rows, term),
        (None, BenchGroup::Journal(group)) => journal::bench_journal(group, only, rounds, &mut rows, term),
        (None, BenchGroup::Io(group)) => io::bench_io(group, only, rounds, &mut rows, term),
    };
    finish_bench(ended, &rows, args, term)?;
    Ok(stop::status_after(rows.len(), term))
}

/// Shows and writes the rows, those of an interrupted or failed run too. A failure is returned afterwards.
fn finish_bench(
    ended: Result<(), CliError>,
    rows: &[BenchRow],
    args: &BenchArgs,
    term: &Term,
) -> Result<(), CliError> {
    let ended = match ended {
        Err(CliError::Interrupted) => Ok(()),
        ended => ended,
    };
    if rows.is_empty() {
        ended?;
        if !stop::pressed() {
            let why = format!("no case has {:?} in its name; run without --only to see all names", args.only);
            return Err(CliError::Wrong(why));
        }
        return show_rows(rows, args.json.as_deref(), term);
    }
    show_rows(rows, args.json.as_deref(), term)?;
    ended
}

/// Writes the rows where `--json` says, and prints a table unless that is standard output.
fn show_rows(rows: &[BenchRow], json: Option<&Path>, term: &Term) -> Result<(), CliError> {
    if !json::write_rows(json, &row::rows_json(rows), term)? || rows.is_empty() {
        return Ok(());
    }
    let (head, lines) = row::rows_table(rows);
    term.line(term.paint(TextRole::Strong, head))?;
    lines.iter().try_for_each(|line| term.line(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::Color;

    #[test]
    fn a_failure_half_way_leaves_the_rows_before_it() {
        let path = std::env::temp_dir().join(format!("pelton-bench-rows-{}.jsonl", std::process::id()));
        let group = BenchGroup::Compile;
        let json = Some(path.clone());
        let args = BenchArgs { group, only: String::new(), rounds: None, against: None, json };
        let (group, case, device) = ("session", "far, task".to_string(), "cuda:0".to_string());
        let (metric, spread, against) = ("us".into(), None, None);
        let row = BenchRow { group, case, device, metric, value: 2.0, spread, against };
        let failed = Err(CliError::Wrong("the device is gone".into()));
        let ended = finish_bench(failed, &[row], &args, &Term::new(Color::Never));
        let written = std::fs::read_to_string(&path).expect("the rows are written");
        std::fs::remove_file(&path).expect("the file can be removed");
        assert!(ended.is_err_and(|error| error.to_string() == "the device is gone"));
        assert!(written.contains("\"far, task\""), "{written}");
        let failed = Err(CliError::Wrong("the device is gone".into()));
        assert!(finish_bench(failed, &[], &args, &Term::new(Color::Never)).is_err());
        assert!(!path.exists(), "without rows nothing is written");
    }
}
