//! `pelton journal show`: prints the records, or what they were made of.

use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;

use pelton::journal::JournalReader;
use serde_json::json;

use super::torn_text;
use crate::CliStatus;
use crate::error::CliError;
use crate::recording::{RecordedLines, RunHeader, RunRecord, visit_records};
use crate::term::Term;

/// What to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum ShowAs {
    /// Every record, with its place
    Records,
    /// The tasks, each at the line that it had
    Input,
    /// The result lines, in the order in which they were printed
    Results,
    /// The spec, with all defaults filled in
    Spec,
}

/// Print the records, or what they were made of
#[derive(clap::Args)]
pub(super) struct ShowArgs {
    /// The folder of the journal
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// What to print
    #[arg(long = "as", value_enum, value_name = "WHAT", default_value_t = ShowAs::Records)]
    what: ShowAs,

    /// Print one JSON object per record
    #[arg(long)]
    json: bool,
}

pub(super) fn show_journal(args: &ShowArgs, term: &Term) -> Result<CliStatus, CliError> {
    if args.json && args.what != ShowAs::Records {
        return Err(CliError::Wrong("--json shows records, so leave out --as".into()));
    }
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout());
    match args.what {
        ShowAs::Records => show_records(args, &mut out, term)?,
        ShowAs::Spec => out.write_all(RunHeader::read(&args.folder)?.spec.as_bytes())?,
        ShowAs::Input => {
            // What cannot be replayed is refused before anything is printed.
            visit_records(&args.folder, |_| Ok(()))?;
            copy_lines(RecordedLines::new(JournalReader::open(&args.folder)?), &mut out)?;
        }
        ShowAs::Results => {
            visit_records(&args.folder, |record| {
                if let RunRecord::Result { text, .. } = record {
                    out.write_all(text)?;
                    out.write_all(b"\n")?;
                }
                Ok(())
            })?;
        }
    }
    out.flush()?;
    Ok(CliStatus::Fine)
}

/// Copies lines, and tells a failure to read from one to write.
fn copy_lines(mut lines: impl Read, out: &mut impl Write) -> Result<(), CliError> {
    let mut bytes = vec![0; 1 << 16];
    loop {
        match lines.read(&mut bytes).map_err(CliError::Input)? {
            0 => return Ok(()),
            count => out.write_all(&bytes[..count])?,
        }
    }
}

/// Prints every record. Those of other programs are shown by kind and length.
fn show_records(args: &ShowArgs, out: &mut impl Write, term: &Term) -> Result<(), CliError> {
    let mut reader = JournalReader::open(&args.folder)?;
    while let Some(record) = reader.next_record()? {
        let place = record.place;
        let decoded = RunRecord::decode(record);
        if args.json {
            let (kind, content) = match &decoded {
                Some(known) => (json!(known.describe().0), known.content_json()),
                None => (json!(record.kind.number()), json!({ "bytes": record.bytes.len() })),
            };
            let row =
                json!({ "segment": place.segment, "offset": place.offset, "kind": kind, "content": content });
            writeln!(out, "{row}")?;
            continue;
        }
        let (kind, text) = match &decoded {
            Some(known) => known.describe(),
            None => ("other", format!("kind {}, {} bytes", record.kind.number(), record.bytes.len())),
        };
        writeln!(out, "{}", format!("{place:<12} {kind:<8} {text}").trim_end())?;
    }
    if let Some(torn) = reader.torn_tail() {
        term.note(torn_text(torn));
    }
    Ok(())
}
