//! The first record of a recording: what is run.

use std::path::Path;

use pelton::Spec;
use pelton_filetest::init::Init;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{RecordingError, RunRecord, visit_records};
use crate::error::CliError;

/// What decides the results of a run, besides its input.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RunHeader {
    /// The whole spec, as `pelton kernel --whole` prints it.
    pub spec: String,
    /// What regions are filled with.
    pub buffers: Vec<RecordedBuffer>,
}

/// What a region is filled with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RecordedBuffer {
    /// The region, as the command line names it.
    pub region: String,
    /// What the command line says.
    pub init: String,
    /// The hash of the file that it names, if it does.
    pub sha256: Option<String>,
}

impl RecordedBuffer {
    pub(crate) fn new(region: String, init: &Init) -> Result<RecordedBuffer, CliError> {
        let sha256 = match init {
            Init::File(path) => Some(file_hash(path)?),
            _ => None,
        };
        Ok(RecordedBuffer { region, init: init.to_string(), sha256 })
    }

    /// Returns what the region is filled with. A file must be the one that it was.
    pub(crate) fn init(&self) -> Result<Init, CliError> {
        let init: Init = self.init.parse().map_err(|error| CliError::Wrong(format!("{error}")))?;
        match &init {
            Init::File(path) if self.sha256 != Some(file_hash(path)?) => {
                Err(RecordingError::OtherFile { path: path.clone(), region: self.region.clone() }.into())
            }
            _ => Ok(init),
        }
    }
}

fn file_hash(path: &Path) -> Result<String, CliError> {
    let bytes = std::fs::read(path)
        .map_err(|error| CliError::Wrong(format!("cannot read {}: {error}", path.display())))?;
    Ok(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

impl RunHeader {
    pub(crate) fn new(spec: &Spec, buffers: Vec<RecordedBuffer>) -> RunHeader {
        RunHeader { spec: spec.to_string(), buffers }
    }

    /// The header as the text of its record.
    pub(crate) fn text(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// The fingerprint of the journal.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        Sha256::digest(self.text()).into()
    }

    /// Reads the header of a recording.
    pub(crate) fn read(folder: &Path) -> Result<RunHeader, CliError> {
        let mut reader = pelton::journal::JournalReader::open(folder)?;
        let first = reader.next_record()?.and_then(RunRecord::decode);
        match first {
            Some(RunRecord::Header(text)) => serde_json::from_str(text).ok(),
            _ => None,
        }
        .ok_or_else(|| RecordingError::NotARecording { folder: folder.into() }.into())
    }

    /// The error of a journal that has another header.
    pub(crate) fn other_run(&self, folder: &Path) -> CliError {
        match RunHeader::read(folder) {
            Err(error) => error,
            Ok(recorded) => {
                let difference = self.difference(&recorded);
                RecordingError::OtherRun { folder: folder.into(), difference }.into()
            }
        }
    }

    /// Says how this header differs from the one that was recorded.
    fn difference(&self, recorded: &RunHeader) -> String {
        if self.spec != recorded.spec {
            let (mut now, mut then) = (self.spec.lines(), recorded.spec.lines());
            loop {
                match (now.next(), then.next()) {
                    (Some(now), Some(then)) if now == then => {}
                    (None, None) => return "the specs differ in their white space".into(),
                    (now, then) => {
                        let [now, then] = [now, then].map(|line| match line {
                            Some(line) => format!("`{}`", line.trim()),
                            None => "nothing".into(),
                        });
                        return format!("the spec has {now} where that of the journal has {then}");
                    }
                }
            }
        }
        let texts = |header: &RunHeader| {
            let parts = header.buffers.iter().map(|buffer| {
                let hash =
                    buffer.sha256.as_deref().map_or(String::new(), |hash| format!(" ({})", &hash[..8]));
                format!("--buffer {}={}{hash}", buffer.region, buffer.init)
            });
            let parts: Vec<String> = parts.collect();
            if parts.is_empty() { "no --buffer".into() } else { parts.join(" ") }
        };
        format!("it has {}, and now there is {}", texts(recorded), texts(self))
    }
}

/// Reads the header of a recording and the number of results in it, and checks all of it.
pub(crate) fn read_whole(
    folder: &Path,
    mut result: impl FnMut(u64, &[u8]),
) -> Result<(RunHeader, RecordingCounts), CliError> {
    let mut counts = RecordingCounts::default();
    visit_records(folder, |record| {
        match record {
            RunRecord::Task { .. } => counts.tasks += 1,
            RunRecord::Started(_) => counts.starts += 1,
            RunRecord::Result { line, text, .. } => {
                counts.results += 1;
                result(line, text);
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok((RunHeader::read(folder)?, counts))
}

/// What a recording has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RecordingCounts {
    pub tasks: u64,
    pub results: u64,
    /// How often the command was started.
    pub starts: u64,
}
