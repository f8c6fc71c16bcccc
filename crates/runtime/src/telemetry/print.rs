//! What tasks print, rendered on the host.

use std::sync::Mutex;

use crate::error::Error;
use crate::kernel::BufferId;
use crate::protocol::log::{self, Format, LogView};
use crate::session::Memories;

/// The formats of a session and how far its log was read.
#[derive(Debug)]
pub(crate) struct LogPrinter {
    formats: Vec<Format>,
    pub read: Mutex<u32>,
}

impl LogPrinter {
    /// Formats that `assemble` has accepted.
    pub fn new(formats: &[String]) -> Self {
        let formats = formats.iter().filter_map(|format| format.parse().ok()).collect();
        LogPrinter { formats, read: Mutex::new(0) }
    }

    /// The text of a record. One whose format nobody registered is shown as it is.
    fn render_record(&self, record: &log::LogRecord) -> String {
        match usize::from(record.format).checked_sub(1).and_then(|at| self.formats.get(at)) {
            Some(format) => format.render(record),
            None => format!("format {}: {:#x} {:#x}", record.format, record.values[0], record.values[1]),
        }
    }
}

/// The lines that were printed since `read`, and how far that was.
pub(crate) fn read_log(
    printer: &LogPrinter,
    memories: &Memories,
    read: u32,
) -> Result<(Vec<String>, u32), Error> {
    let memory = memories.need(BufferId::Log)?;
    let mut words = vec![0u32; log::WORDS];
    memory.download(0, &mut words)?;
    let whole = LogView::new(&words)?.records(read, words[log::CURSOR as usize])?.count() as u32;
    // The first words were read with the rest, in any order; the rest is read again, after them.
    memory.download(0, &mut words)?;
    let end = read.wrapping_add(whole);
    let lines =
        LogView::new(&words)?.records(read, end)?.map(|record| printer.render_record(&record)).collect();
    Ok((lines, end))
}
