//! The text of a [`Spec`]: TOML.
//!
//! ```text
//! lifetime = "persistent"                # or "drain"
//! placement = "near"                     # or "far"; what suits the device if left out
//! claim = "owned"                        # or "priority", or { priority = { every = 8 } }
//! body = "dispatch"                      # or "fused"
//! io = "off"                             # or "polled", "on_miss"
//! report = "full"                        # or "control"
//! telemetry = "sampled"                  # or "full", "off"
//! share = 100                            # percent of the device
//! lease = "10s"                          # ns, us, ms, s or m
//! fuel = 1048576
//! libraries = ["hash.pel"]               # modules whose functions handlers import; or { text = '''…''' }
//! formats = ["sum {} of {}"]             # what PRINTF says, by format id from 1 on
//!
//! [geometry]
//! slots = 4096
//! lanes = 64                             # these two: what suits the device if left out
//! groups = 2
//! window = 256
//!
//! [[region]]                             # `data` is there without being named
//! name = "table"
//! type = "f32"
//! len = 1024
//! access = "read"                        # or "read_write"
//! shared = true
//!
//! [[tenant]]                             # tenant 0 is there if none is named
//! id = 0
//! name = "alice"
//! producers = 2
//! allow = ["add", "ATOMIC_ADD"]          # or mask = 0x104; everything if left out
//! quota = 0                              # how many tasks it may begin, at most 1000000000; 0 is no limit
//! observables = 4
//! size = { data = 4096 }
//!
//! [[handler]]
//! name = "add"
//! op = 8                                 # the lowest that is free, from 8 on, if left out
//! width = "lane"                         # or "group"
//! visible = "memory"                     # or "result"
//! class = "once"                         # or "idempotent"
//! file = "add.pel"                       # or text = '''…'''
//! ```
//!
//! Everything but names, tenants' numbers, types and lengths can be left out. Handlers without `op` get opcodes in the order of the text: each the
//! lowest of [`Opcode::ASSIGNED`](crate::Opcode::ASSIGNED) that no handler has. `Display` writes all of it, with the text of every
//! handler and library in it, and what it writes reads back as an equal `Spec`. All that is wrong is reported, each mistake with its place.

mod print;
mod read;
mod table;
mod words;

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pelton_ir::limits::MAX_TEXT;
use pelton_ir::text::{self, Diagnostic};

use super::spec::Spec;

/// Why a text is not a `Spec`.
#[allow(missing_docs)]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// What is wrong, text by text: that of the `Spec`, and those of handlers it names.
    #[error("{}", self.render(false).trim_end())]
    Wrong(Vec<Mistakes>),
}

/// What is wrong with a text.
#[derive(Debug)]
pub struct Mistakes {
    /// What diagrams call the text.
    pub name: String,
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub list: Vec<Diagnostic>,
}

impl TextError {
    /// Diagrams of what is wrong.
    pub fn render(&self, color: bool) -> String {
        match self {
            TextError::Read { .. } => self.to_string(),
            TextError::Wrong(all) => {
                let drawn = all.iter().map(|m| text::render(&m.name, &m.text, &m.list, color));
                drawn.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

/// From and to text.
impl Spec {
    /// Reads a file. Handlers and libraries that it names as files are looked for beside it.
    pub fn from_file(path: &Path) -> Result<Spec, TextError> {
        let source = load_text(path).map_err(|source| TextError::Read { path: path.into(), source })?;
        read::read_spec(&path.display().to_string(), &source, path.parent().unwrap_or(Path::new("")))
    }
}

/// Handlers and libraries that it names as files are looked for in the current folder.
impl FromStr for Spec {
    type Err = TextError;
    fn from_str(source: &str) -> Result<Spec, TextError> {
        read::read_spec("<spec>", source.strip_prefix(BOM).unwrap_or(source), Path::new(""))
    }
}

/// As text that reads back. A handler that was written wrongly has no text, and stays empty.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print::print_spec(self, f)
    }
}

/// The byte order mark, with which some editors begin a text; it says nothing in UTF-8.
const BOM: char = '\u{feff}';

/// The text of a file, without a byte order mark; no more is read than a text may have.
fn load_text(path: &Path) -> std::io::Result<String> {
    let wrong = |why: String| std::io::Error::new(std::io::ErrorKind::InvalidData, why);
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_TEXT as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_TEXT {
        return Err(wrong(format!("it has more than the {MAX_TEXT} bytes that a text may have")));
    }
    let mut text = String::from_utf8(bytes).map_err(|e| {
        wrong(format!("it is not UTF-8: byte {} begins no character", e.utf8_error().valid_up_to()))
    })?;
    if text.starts_with(BOM) {
        text.remove(0);
    }
    Ok(text)
}
