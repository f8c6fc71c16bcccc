//! `pelton journal`: shows, checks and counts what a journal holds.

mod show;
mod stat;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use pelton::journal::{JournalReader, TornTail, cut_damage};
use serde_json::{Value, json};

use crate::CliStatus;
use crate::error::CliError;
use crate::term::{Term, TextRole};

/// Show, check and count what a journal holds
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton journal stat run.journal                  how many tasks and results it has
  pelton journal show run.journal | tail           the last records
  pelton journal show run.journal --as results     the result lines, each of them once
  pelton journal show run.journal --as spec > spec.toml
  pelton journal verify run.journal --json         check every byte
  pelton journal cut run.journal                   drop everything from the first damage on

A journal is the folder that `pelton run --journal` writes. All commands but `cut` only read, and can
be used while `pelton run` writes. `pelton replay` runs the tasks of a journal again.

A process that is killed, or a machine that loses power, leaves an unfinished end, which is cut off
when the journal is used again. Damage before that end is an error with its file and position, and
the exit status is 1.")]
pub(crate) struct JournalArgs {
    #[command(subcommand)]
    command: JournalCommand,
}

#[derive(Subcommand)]
enum JournalCommand {
    /// Print the records, or what they were made of
    Show(show::ShowArgs),
    /// Check every record, and say what is damaged
    Verify(FolderArgs),
    /// Count tasks, results and bytes
    Stat(FolderArgs),
    /// Cut the journal off at the first damage, and lose every record behind it
    Cut(FolderArgs),
}

/// A journal, and how to print what is said about it.
#[derive(clap::Args)]
struct FolderArgs {
    /// The folder of the journal
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_journal(args: &JournalArgs, term: &Term) -> Result<CliStatus, CliError> {
    match &args.command {
        JournalCommand::Show(args) => show::show_journal(args, term),
        JournalCommand::Verify(args) => verify_journal(args, term),
        JournalCommand::Stat(args) => stat::count_journal(&args.folder, args.json, term),
        JournalCommand::Cut(args) => cut_journal(args, term),
    }
}

fn verify_journal(args: &FolderArgs, term: &Term) -> Result<CliStatus, CliError> {
    let mut records = 0u64;
    let checked = count_records(&args.folder, &mut records);
    if args.json {
        let (whole, error) = (checked.is_ok(), checked.as_ref().err().map(ToString::to_string));
        let torn = checked.as_ref().ok().and_then(|reader| reader.torn_tail().map(torn_json));
        term.line(json!({ "whole": whole, "records": records, "torn_tail": torn, "error": error }))?;
        return Ok(if whole { CliStatus::Fine } else { CliStatus::Wrong });
    }
    let reader = checked?;
    term.line(format_args!(
        "{}: {} in {} of {} bytes",
        term.paint(TextRole::Good, "whole"),
        count_text(records, "record"),
        count_text(reader.segment_count(), "segment"),
        reader.byte_count()
    ))?;
    if let Some(torn) = reader.torn_tail() {
        term.line(torn_text(torn))?;
    }
    Ok(CliStatus::Fine)
}

/// Reads all records, and counts them.
fn count_records(folder: &Path, records: &mut u64) -> Result<JournalReader, CliError> {
    let mut reader = JournalReader::open(folder)?;
    while reader.next_record()?.is_some() {
        *records += 1;
    }
    Ok(reader)
}

fn cut_journal(args: &FolderArgs, term: &Term) -> Result<CliStatus, CliError> {
    let cut = cut_damage(&args.folder)?;
    match (args.json, &cut) {
        (true, cut) => term.line(json!({ "cut": cut.as_ref().map(torn_json) }))?,
        (false, None) => term.line("nothing is damaged, and nothing was cut off")?,
        (false, Some(TornTail { path, offset, bytes })) => {
            let path = path.display();
            term.line(format_args!("cut off {bytes} bytes, from byte {offset} of {path} on"))?;
        }
    }
    Ok(CliStatus::Fine)
}

/// Describes a torn tail.
fn torn_text(torn: &TornTail) -> String {
    let TornTail { path, offset, bytes } = torn;
    let path = path.display();
    format!(
        "the last {bytes} bytes, from byte {offset} of {path} on, are no whole records and will be cut off"
    )
}

/// A torn tail as JSON: `{"file", "offset", "bytes"}`.
fn torn_json(torn: &TornTail) -> Value {
    json!({ "file": torn.path.display().to_string(), "offset": torn.offset, "bytes": torn.bytes })
}

/// A number of things, in words.
fn count_text(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
