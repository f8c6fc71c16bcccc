//! The text form of a [`Spec`], which is TOML.
//!
//! ```text
//! lifetime = "persistent"                # or "drain"
//! placement = "near"                     # or "far", "both"; chosen for the device if left out
//! claim = "owned"                        # or "priority", or { priority = { every = 8 } }
//! body = "dispatch"                      # or "fused"
//! io = "off"                             # or "polled", "on_miss"
//! report = "full"                        # or "control"
//! telemetry = "sampled"                  # or "full", "off"
//! recovery = "on"                        # or "off", which it is if left out: whether the session outlives its device
//! share = 100                            # percent of the device
//! lease = "10s"                          # ns, us, ms, s or m
//! fuel = 1048576
//! max_steps = 1048576                    # the most steps of a task of a drained batch
//! cells = 1024                           # how many resumable tasks a producer can have under way; a power of two
//! spawn_cells = 4096                     # how many spawned tasks a tenant can have under way; a power of two
//! events = 8                             # how many events a tenant has; 0 if left out
//! graph_instances = 64                   # how many launches of graphs can be under way at once
//! graph_nodes = 100                      # nodes of the largest graph that the session may be given later; 0 if left out
//! payload = 256                          # bytes that a task may bring; 0, which is none, if left out
//! reply = 64                             # bytes that a task may give back; 0, which is none, if left out
//! libraries = ["hash.pel"]               # modules whose functions handlers import; or { text = '''…''' }
//! formats = ["sum {} of {}"]             # what PRINTF prints, by the number of the format, starting with 1
//!
//! [geometry]
//! slots = 4096
//! lanes = 64                             # lanes and groups are chosen for the device if left out
//! groups = 2
//! window = 256
//!
//! [[region]]                             # the region `data` exists without being named
//! name = "table"
//! type = "f32"
//! len = 1024
//! access = "read"                        # or "read_write"
//! shared = true
//!
//! [[tenant]]                             # tenant 0 exists if no tenant is named
//! id = 0
//! name = "alice"
//! producers = 2
//! allow = ["add", "ATOMIC_ADD"]          # or mask = 0x104; everything is allowed if left out
//! weight = 1                             # its share of the tasks, from 1 to 1000; if no tenant has one, producers come in turn
//! quota = 0                              # how many tasks it may start, at most 1000000000; 0 means no limit
//! observables = 4
//! size = { data = 4096 }
//!
//! [[handler]]
//! name = "add"
//! op = 8                                 # the lowest that is free, from 8 on, if left out
//! width = "lane"                         # or "group"
//! visible = "memory"                     # or "result"
//! class = "restart"                      # or "once", "idempotent", "commuting"
//! takes_over = false                     # whether tasks that an older version has begun go on with this one
//! file = "add.pel"                       # or text = '''…'''
//!
//! [[graph]]
//! name = "sum"
//! parameters = 2                         # how many words a launch gives it, at most 11; 0 if left out
//! result = "total"                       # the node whose result is that of the graph; the last one if left out
//!
//! [[graph.node]]                         # belongs to the `[[graph]]` above it
//! name = "left"
//! op = "add"                             # a handler or a built-in operation, by name or by number
//! args = ["$0", 10]                      # at most 12: "$0" is parameter 0, "@left" a node's result, 10 a constant
//!
//! [[graph.node]]
//! name = "total"
//! op = "add"
//! args = ["@left", "$1"]                 # a node waits for the nodes whose results it takes
//! after = ["left"]                       # nodes that it waits for besides
//! priority = "high"                      # or "critical", "normal", "low", "idle"; normal if left out
//! ```
//!
//! Everything but names, the numbers of tenants, types, lengths and the operations of nodes can be left out. Handlers without `op` get opcodes in
//! the order of the text: each gets the lowest of [`Opcode::ASSIGNED`](crate::Opcode::ASSIGNED) that no handler has.
//! `Display` writes all of it, including the text of every handler and library, and parsing that text gives an equal
//! `Spec`. Parsing reports every mistake, each with its place. Graphs are also [checked](crate::Graph::check) whole.

mod files;
mod graph;
mod print;
mod read;
mod table;
mod words;

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pelton_ir::limits::MAX_TEXT;
use pelton_ir::text::{self, ColorMode, Diagnostic};

pub use self::files::SpecFiles;
use self::read::SpecSource;
use super::spec::Spec;

/// Why a text is not a `Spec`.
#[allow(missing_docs)]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// The texts have mistakes. There is one entry per text: that of the `Spec`, and those of the handlers and
    /// libraries that it names.
    #[error("{}", self.render(false).trim_end())]
    Wrong(Vec<Mistakes>),
}

/// The mistakes in one text.
#[derive(Debug)]
pub struct Mistakes {
    /// The name of the text in diagrams, such as the path of its file.
    pub name: String,
    /// The text itself.
    pub text: String,
    /// The mistakes, each with its place.
    pub list: Vec<Diagnostic>,
}

impl TextError {
    /// Returns diagrams that show every mistake in its text, with or without colours.
    pub fn render(&self, color: bool) -> String {
        match self {
            TextError::Read { .. } => self.to_string(),
            TextError::Wrong(all) => {
                let drawn = all.iter().map(|m| {
                    text::render_diagnostics(&m.name, &m.text, &m.list, ColorMode::from_flag(color))
                });
                drawn.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

/// Conversion from and to text.
impl Spec {
    /// Reads a `Spec` from a file. Files of handlers and libraries that it names are looked up relative to the folder
    /// of that file.
    pub fn from_file(path: &Path) -> Result<Spec, TextError> {
        SpecFiles::new(path).read(&Spec::default())
    }
}

/// Parses the text of a `Spec`. Files of handlers and libraries that it names are looked up in the current folder.
impl FromStr for Spec {
    type Err = TextError;
    fn from_str(source: &str) -> Result<Spec, TextError> {
        let text = source.strip_prefix(BOM).unwrap_or(source);
        let source = SpecSource { name: "<spec>", text, folder: Path::new(""), before: &Spec::default() };
        read::read_spec(source, &mut Vec::new())
    }
}

/// Writes the text of a `Spec`, which can be parsed again. A handler whose definition is an error has no text and
/// stays empty, and a graph that [`check`](crate::Graph::check) refuses is refused when the text is parsed.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print::print_spec(self, f)
    }
}

/// The byte order mark, with which some editors begin a text. It has no meaning in UTF-8.
const BOM: char = '\u{feff}';

/// Returns the text of a file without its byte order mark. A file larger than a text may be is an error, and is not
/// read to its end.
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
