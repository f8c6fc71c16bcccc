//! What `pelton run --journal` records, and how it is read again.
//!
//! A recording is a journal whose first record says what is run. After it come the tasks, each with the number and the
//! text of its line, and the results. A result follows its task, and results stand in the order in which they were
//! printed, so one number says how many of them were.

mod header;
mod lines;

use std::path::{Path, PathBuf};

use pelton::journal::{JournalReader, JournalRecord, RecordKind, RecordPlace};
use serde_json::json;

pub(crate) use header::{RecordedBuffer, RunHeader, read_whole};
pub(crate) use lines::RecordedLines;

use crate::error::CliError;

const HEADER: RecordKind = RecordKind::new(1);
const STARTED: RecordKind = RecordKind::new(2);
const TASK: RecordKind = RecordKind::new(3);
const RESULT: RecordKind = RecordKind::new(4);
const PRINTED: RecordKind = RecordKind::new(5);

/// How a task ended that has a result. Other tasks have none and are run again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TaskEnd {
    Done = 0,
    Fault = 1,
}

impl TaskEnd {
    fn name(self) -> &'static str {
        match self {
            TaskEnd::Done => "done",
            TaskEnd::Fault => "fault",
        }
    }
}

/// A record of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunRecord<'a> {
    /// What is run: a [`RunHeader`] as JSON.
    Header(&'a str),
    /// The command was started on a device with this name.
    Started(&'a str),
    /// A line of the input is a task.
    Task {
        /// The number of the line, from 1.
        line: u64,
        /// The line, without white space around it.
        text: &'a [u8],
    },
    /// A task has ended.
    Result {
        /// The number of its line.
        line: u64,
        /// How it ended.
        end: TaskEnd,
        /// The line of the result, without its end.
        text: &'a [u8],
    },
    /// This many of the results, from the first one on, were printed.
    Printed(u64),
    /// The command has ended.
    Closed,
}

impl<'a> RunRecord<'a> {
    /// Reads a record, or returns `None` if `pelton run` has not written it.
    pub(crate) fn decode(record: JournalRecord<'a>) -> Option<RunRecord<'a>> {
        let number = |bytes: &'a [u8]| {
            bytes.split_first_chunk::<8>().map(|(number, rest)| (u64::from_le_bytes(*number), rest))
        };
        match record.kind {
            HEADER => Some(RunRecord::Header(str::from_utf8(record.bytes).ok()?)),
            STARTED => Some(RunRecord::Started(str::from_utf8(record.bytes).ok()?)),
            TASK => number(record.bytes).map(|(line, text)| RunRecord::Task { line, text }),
            RESULT => {
                let (line, rest) = number(record.bytes)?;
                let (end, text) = rest.split_first()?;
                let end = [TaskEnd::Done, TaskEnd::Fault].into_iter().find(|known| *known as u8 == *end)?;
                Some(RunRecord::Result { line, end, text })
            }
            PRINTED => number(record.bytes).map(|(count, _)| RunRecord::Printed(count)),
            RecordKind::CLOSED => Some(RunRecord::Closed),
            _ => None,
        }
    }

    /// Calls `append` with the kind of the record and the parts of its content.
    pub(crate) fn encode<T>(&self, append: impl FnOnce(RecordKind, &[&[u8]]) -> T) -> T {
        match self {
            RunRecord::Header(text) => append(HEADER, &[text.as_bytes()]),
            RunRecord::Started(device) => append(STARTED, &[device.as_bytes()]),
            RunRecord::Task { line, text } => append(TASK, &[&line.to_le_bytes(), text]),
            RunRecord::Result { line, end, text } => {
                append(RESULT, &[&line.to_le_bytes(), &[*end as u8], text])
            }
            RunRecord::Printed(count) => append(PRINTED, &[&count.to_le_bytes()]),
            RunRecord::Closed => append(RecordKind::CLOSED, &[]),
        }
    }

    /// The kind of the record as a word, and its content as text.
    pub(crate) fn describe(&self) -> (&'static str, String) {
        let lossy = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        match self {
            RunRecord::Header(text) => ("header", format!("{} bytes", text.len())),
            RunRecord::Started(device) => ("started", format!("on {device}")),
            RunRecord::Task { line, text } => ("task", format!("line {line}: {}", lossy(text))),
            RunRecord::Result { text, .. } => ("result", lossy(text)),
            RunRecord::Printed(count) => ("printed", format!("results 1 to {count}")),
            RunRecord::Closed => ("closed", String::new()),
        }
    }

    /// The content of the record as JSON.
    pub(crate) fn content_json(&self) -> serde_json::Value {
        let lossy = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        match self {
            RunRecord::Header(text) => serde_json::from_str(text).unwrap_or_default(),
            RunRecord::Started(device) => json!({ "device": device }),
            RunRecord::Task { line, text } => json!({ "line": line, "text": lossy(text) }),
            RunRecord::Result { line, end, text } => {
                json!({ "line": line, "status": end.name(), "text": lossy(text) })
            }
            RunRecord::Printed(count) => json!({ "results": count }),
            RunRecord::Closed => json!({}),
        }
    }
}

/// Reads all records of a journal that `pelton run` has written, and passes them to `visit`.
pub(crate) fn visit_records(
    folder: &Path,
    mut visit: impl FnMut(RunRecord<'_>) -> Result<(), CliError>,
) -> Result<JournalReader, CliError> {
    let mut reader = JournalReader::open(folder)?;
    let mut first = true;
    while let Some(record) = reader.next_record()? {
        let decoded = RunRecord::decode(record);
        if std::mem::take(&mut first) && !matches!(decoded, Some(RunRecord::Header(_))) {
            return Err(RecordingError::NotARecording { folder: folder.into() }.into());
        }
        visit(decoded.ok_or(RecordingError::Unknown { place: record.place })?)?;
    }
    Ok(reader)
}

/// Finds the text of a task and of its result. Either may be missing.
pub(crate) fn find_line(folder: &Path, wanted: u64) -> Result<(Option<String>, Option<String>), CliError> {
    let (mut task, mut result) = (None, None);
    visit_records(folder, |record| {
        match record {
            RunRecord::Task { line, text } if line == wanted => task = Some(shown_text(text)),
            RunRecord::Result { line, text, .. } if line == wanted => result = Some(shown_text(text)),
            _ => {}
        }
        Ok(())
    })?;
    Ok((task, result))
}

/// A line as a message shows it, which is not all of it if it is long.
pub(crate) fn shown_text(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.into_owned(),
    }
}

/// Why a journal cannot be continued or replayed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordingError {
    /// The journal was written by another program.
    #[error("the journal in {} was not written by `pelton run`", folder.display())]
    NotARecording { folder: PathBuf },
    /// A record is none that `pelton run` writes.
    #[error("the record at {place} is none that this version of `pelton run` writes")]
    Unknown { place: RecordPlace },
    /// The spec or an option is another one.
    #[error("the journal in {} is of another run: {difference}", folder.display())]
    OtherRun { folder: PathBuf, difference: String },
    /// A line of the input is another one.
    #[error("line {line} of the input is {found}, but the journal has {recorded}")]
    OtherLine { line: u64, found: String, recorded: String },
    /// A line of the input is a task, and was none.
    #[error(
        "line {line} of the input is {found}, but the journal has no task there, and tasks of later lines"
    )]
    NewLine { line: u64, found: String },
    /// The input has no task where there was one.
    #[error("the input has no task at line {line}, but the journal has {recorded}")]
    MissingLine { line: u64, recorded: String },
    /// An option cannot be combined with a journal.
    #[error("--journal cannot be combined with {option}: {reason}")]
    Refused { option: String, reason: &'static str },
    /// A file that fills a region has changed.
    #[error("{} has changed since the journal was begun, so region `{region}` cannot be filled as it was", path.display())]
    OtherFile { path: PathBuf, region: String },
}
