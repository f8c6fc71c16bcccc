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

use crate::count::within;
use crate::error::Error;
use crate::term::{Role, Term};
use crate::{Status, json, stop};

pub use builds::BuildError;
pub use device::module;
pub use row::Row;

/// What to measure.
#[derive(Subcommand)]
enum Group {
    /// Kernels on the CPU device, beside the interpreter and the same loops in Rust
    Device,
    /// A host thread and a resident kernel that answer each other
    Echo,
    /// Parsing, validating, optimising and compiling
    Compile,
    Session(session::Args),
    Soak(soak::Args),
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
pub struct Args {
    /// What to measure
    #[command(subcommand)]
    group: Group,

    /// Only the cases whose name contains this
    #[arg(long, global = true, value_name = "TEXT", default_value = "")]
    only: String,

    /// How many rounds to measure; chosen for the group if not given, 5 with --against. `compile` and `soak` have no rounds
    #[arg(long, global = true, value_name = "N", value_parser = within::<u32>(1..=1000), allow_negative_numbers = true)]
    rounds: Option<u32>,

    /// Compare this build with another build of pelton: run both in turns, and show the ratio of this one to the other
    #[arg(long, global = true, value_name = "PROGRAM")]
    against: Option<PathBuf>,

    /// Write the rows to this file, one JSON object a line; `-` is standard output, without the table
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Args {
    /// The name of the group, and the command line that measures the same cases in one round and writes rows.
    fn once(&self) -> Result<(&'static str, Vec<String>), Error> {
        let (group, own) = match &self.group {
            Group::Device => ("device", Vec::new()),
            Group::Echo => ("echo", Vec::new()),
            Group::Compile => ("compile", Vec::new()),
            Group::Session(group) => ("session", group.flags()),
            Group::Soak(_) => return Err(Error::Wrong("`bench soak` compares no builds".into())),
        };
        let mut flags = vec!["bench", group];
        flags.extend(own);
        flags.extend(["--only", &self.only, "--rounds", "1", "--json", "-"]);
        Ok((group, flags.into_iter().map(String::from).collect()))
    }
}

pub fn run(args: &Args, term: &Term) -> Result<Status, Error> {
    json::writable(args.json.as_deref())?;
    stop::word()?;
    term.note(machine::about());
    let (only, rounds, mut rows) = (&*args.only, args.rounds, Vec::new());
    let ended = match (&args.against, &args.group) {
        (Some(other), _) => {
            let (group, flags) = args.once()?;
            builds::run(group, &flags, other, rounds, term).map(|all| rows = all)
        }
        (None, Group::Device) => device::run(only, rounds, &mut rows, term),
        (None, Group::Echo) => echo::run(only, rounds, &mut rows, term),
        (None, Group::Compile) => compile::run(only, &mut rows, term),
        (None, Group::Soak(group)) => soak::run(group, term).map(|all| rows = all),
        (None, Group::Session(group)) => session::run(group, only, rounds, term).map(|all| rows = all),
    };
    match ended {
        // What was measured before is shown.
        Err(Error::Interrupted) => {}
        ended => ended?,
    }
    if rows.is_empty() && !stop::pressed() {
        return Err(Error::Wrong(format!("no case has {:?} in its name", args.only)));
    }
    show(&rows, args.json.as_deref(), term)?;
    Ok(stop::verdict(rows.len(), term))
}

/// Writes the rows where `--json` says, and prints a table unless that is standard output.
fn show(rows: &[Row], json: Option<&Path>, term: &Term) -> Result<(), Error> {
    if !json::rows(json, &row::json(rows), term)? || rows.is_empty() {
        return Ok(());
    }
    let (head, lines) = row::table(rows);
    term.line(term.paint(Role::Strong, head))?;
    lines.iter().try_for_each(|line| term.line(line))
}
