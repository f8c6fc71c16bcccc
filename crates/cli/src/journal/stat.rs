//! `pelton journal stat`: counts what a journal of `pelton run` holds.

use std::path::Path;

use serde_json::json;

use super::{count_text, torn_json, torn_text};
use crate::CliStatus;
use crate::error::CliError;
use crate::recording::{RunRecord, TaskEnd, visit_records};
use crate::term::Term;

/// What a journal holds.
#[derive(Default, serde::Serialize)]
struct JournalCounts {
    /// How often `pelton run` was started.
    starts: u64,
    tasks: u64,
    /// The number of the last line that is a task.
    last_line: u64,
    done: u64,
    faults: u64,
    /// How many results were surely printed.
    printed: u64,
    records: u64,
    /// Whether the last run has closed the journal.
    closed: bool,
    /// The device of the last run.
    device: String,
}

impl JournalCounts {
    fn take(&mut self, record: RunRecord<'_>) {
        self.records += 1;
        self.closed = record == RunRecord::Closed;
        match record {
            RunRecord::Started(device) => {
                self.starts += 1;
                self.device = device.into();
            }
            RunRecord::Task { line, .. } => {
                self.tasks += 1;
                self.last_line = line;
            }
            RunRecord::Result { end: TaskEnd::Done, .. } => self.done += 1,
            RunRecord::Result { end: TaskEnd::Fault, .. } => self.faults += 1,
            RunRecord::Printed(count) => self.printed = count,
            RunRecord::Header(_) | RunRecord::Closed => {}
        }
    }
}

pub(super) fn count_journal(folder: &Path, json: bool, term: &Term) -> Result<CliStatus, CliError> {
    let mut counts = JournalCounts::default();
    let reader = visit_records(folder, |record| {
        counts.take(record);
        Ok(())
    })?;
    let (segments, bytes) = (reader.segment_count(), reader.byte_count());
    if json {
        let mut row = json!(counts);
        row["segments"] = json!(segments);
        row["bytes"] = json!(bytes);
        row["torn_tail"] = json!(reader.torn_tail().map(torn_json));
        term.line(row)?;
        return Ok(CliStatus::Fine);
    }
    let JournalCounts { starts, tasks, last_line, done, faults, printed, records, closed, device } = counts;
    let end = if closed { "closed" } else { "not closed: the last run was killed, or still runs" };
    term.line(format_args!("tasks     {tasks}, the last one at line {last_line}"))?;
    let left = tasks.saturating_sub(done + faults);
    term.line(format_args!(
        "results   {done} done, {}, {left} missing, {printed} printed",
        count_text(faults, "fault")
    ))?;
    term.line(format_args!("runs      {}, the last one on {device}; {end}", count_text(starts, "start")))?;
    term.line(format_args!(
        "on disk   {}, {}, {bytes} bytes",
        count_text(records, "record"),
        count_text(segments, "segment")
    ))?;
    if let Some(torn) = reader.torn_tail() {
        term.line(torn_text(torn))?;
    }
    Ok(CliStatus::Fine)
}
