//! `pelton bench`: figures as tables for people and rows for programs.
//!
//! What a row is held against, a limit or a peer, is measured in the same [rounds]. Every case checks its results, so that
//! what is timed is what was meant.

mod builds;
mod compile;
mod device;
mod echo;
mod flood;
pub mod machine;
mod mark;
mod ratio;
mod rounds;
mod row;
mod session;
mod soak;

use std::path::{Path, PathBuf};

use clap::Subcommand;

use crate::count::parse_count_in;
use crate::error::CliError;
use crate::term::{Term, TextRole};
use crate::{CliStatus, json, stop};

pub use builds::BuildError;
pub use device::parse_kernel;
pub use row::BenchRow;

/// What to measure.
#[derive(Subcommand)]
enum BenchGroup {
    /// Kernels on the CPU device, beside the interpreter and the same loops in Rust
    Device,
    /// A host thread and a resident kernel that answer each other
    Echo,
    /// Parsing, validating, optimising and compiling
    Compile,
    Session(session::SessionArgs),
    Soak(soak::SoakArgs),
}

/// Measure something, and print a table
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton bench device
  pelton bench echo --json rows.jsonl
  pelton bench session --device cpu --quick
  pelton bench session --device cuda --json rows.jsonl
  pelton bench session --device cuda --quick --only task --against ../old/target/release/pelton
  pelton bench soak --tasks 1e8 --start 4294900000
  pelton bench soak --device cuda --tasks 1e10 --slots 65536 --producers 8 --placement near
  pelton bench device --only hash
  pelton bench compile --json - > rows.jsonl     rows on standard output instead of the table

Ctrl-C ends it with the rows that are measured so far, and exit status 130.")]
pub struct BenchArgs {
    /// What to measure
    #[command(subcommand)]
    group: BenchGroup,

    /// Only the cases whose name contains this
    #[arg(long, global = true, value_name = "TEXT", default_value = "")]
    only: String,

    /// How many rounds to measure; chosen for the group if not given, 5 with --against. `compile` and `soak` have no rounds
    #[arg(long, global = true, value_name = "N", value_parser = parse_count_in::<u32>(1..=1000), allow_negative_numbers = true)]
    rounds: Option<u32>,

    /// Compare this build with another build of pelton: run both in turns, and show the ratio of this one to the other
    #[arg(long, global = true, value_name = "PROGRAM")]
    against: Option<PathBuf>,

    /// Write the rows to this file, one JSON object a line; `-` is standard output, without the table
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
            BenchGroup::Session(group) => ("session", group.flags()),
            BenchGroup::Soak(_) => return Err(CliError::Wrong("`bench soak` compares no builds".into())),
        };
        let mut flags = vec!["bench", group];
        flags.extend(own);
        flags.extend(["--only", &self.only, "--rounds", "1", "--json", "-"]);
        Ok((group, flags.into_iter().map(String::from).collect()))
    }
}

pub fn run_bench(args: &BenchArgs, term: &Term) -> Result<CliStatus, CliError> {
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
        (None, BenchGroup::Session(group)) => {
            session::run_session(group, only, rounds, term).map(|all| rows = all)
        }
    };
    match ended {
        // What was measured before is shown.
        Err(CliError::Interrupted) => {}
        ended => ended?,
    }
    if rows.is_empty() && !stop::pressed() {
        return Err(CliError::Wrong(format!("no case has {:?} in its name", args.only)));
    }
    show_rows(&rows, args.json.as_deref(), term)?;
    Ok(stop::status_after(rows.len(), term))
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
