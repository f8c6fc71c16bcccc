//! The lines that tasks print, rendered by the host.

use std::sync::Mutex;

use crate::error::Error;
use crate::kernel::BufferId;
use crate::protocol::log::{self, Format, LogView};
use crate::session::BufferMemories;

/// The formats of a session, and how far its log has been read.
#[derive(Debug)]
pub(crate) struct LogPrinter {
    formats: Vec<Format>,
    pub read: Mutex<LogPosition>,
}

/// How far a log was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LogPosition {
    /// How many times the session had recovered when the log began.
    pub recoveries: u64,
    /// How many of its records were read.
    pub records: u32,
}

impl LogPrinter {
    /// Returns a printer for formats that `assemble` has accepted.
    pub(crate) fn new(formats: &[String]) -> Self {
        let formats = formats.iter().filter_map(|format| format.parse().ok()).collect();
        LogPrinter { formats, read: Mutex::default() }
    }

    /// Returns the text of a record. A record whose format is unknown is shown as numbers.
    fn render_record(&self, record: &log::LogRecord) -> String {
        match usize::from(record.format).checked_sub(1).and_then(|at| self.formats.get(at)) {
            Some(format) => format.render(record),
            None => format!("format {}: {:#x} {:#x}", record.format, record.values[0], record.values[1]),
        }
    }
}

/// Returns the lines that were printed since record `read`, and the number of the next record.
pub(crate) fn read_log(
    printer: &LogPrinter,
    memories: &BufferMemories,
    read: u32,
) -> Result<(Vec<String>, u32), Error> {
    let memory = memories.need(BufferId::Log)?;
    let mut words = vec![0u32; log::WORDS];
    memory.download(0, &mut words)?;
    let whole = LogView::new(&words)?.records(read, words[log::CURSOR as usize])?.count() as u32;
    // The first words of the records were read together with the rest in any order, so the rest is read again after
    // them.
    memory.download(0, &mut words)?;
    let end = read.wrapping_add(whole);
    let lines =
        LogView::new(&words)?.records(read, end)?.map(|record| printer.render_record(&record)).collect();
    Ok((lines, end))
}
