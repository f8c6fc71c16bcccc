//! The errors of words that do not follow the protocol.

use std::fmt;

use super::{Opcode, fault, opcode, packed};

/// The place where malformed words were found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WirePlace {
    /// The slot with this number in a ring.
    Slot(usize),
    /// The control words.
    Control,
    /// A completion record.
    Record,
    /// The debug log.
    Log,
    /// The request with this number in the IO queue.
    Request(usize),
    /// The words of a graph.
    Graph,
}

impl fmt::Display for WirePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WirePlace::Slot(index) => write!(f, "slot {index}"),
            WirePlace::Control => f.write_str("control"),
            WirePlace::Record => f.write_str("completion record"),
            WirePlace::Log => f.write_str("debug log"),
            WirePlace::Request(index) => write!(f, "IO request {index}"),
            WirePlace::Graph => f.write_str("graph"),
        }
    }
}

/// Why words or values do not follow the protocol.
#[allow(missing_docs)]
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// A number of bytes that is not a whole number of units.
    #[error("{what} is {bytes} bytes, not a whole number of {unit}-byte {units}")]
    Bytes { what: &'static str, bytes: usize, unit: usize, units: &'static str },
    /// A buffer that ends before a word that it must have.
    #[error("{what} is {words} words long and ends before word {word} ({name})", name = .name.to_lowercase())]
    Short { what: &'static str, words: usize, word: u32, name: &'static str },
    /// A word with a value that it cannot have.
    #[error("{place}: word {word} ({name}) is {value:#x}, {why}", name = .name.to_lowercase())]
    Word { place: WirePlace, word: u32, name: &'static str, value: u64, why: &'static str },
    /// A control word that belongs to the device, which the host tried to write.
    #[error("control: word {word} ({name}) is not written by the host", name = .name.to_lowercase())]
    Writer { word: u32, name: &'static str },
    /// A name that does not exist.
    #[error("there is no {what} {found:?}")]
    Name { what: &'static str, found: String },
    /// An opcode that is reserved for the protocol.
    #[error("opcode {code:#x} is reserved, as are all of {all}", code = .0.code(), all = opcode::reserved_ranges())]
    Reserved(Opcode),
    /// A fault code that is reserved for the protocol or out of range.
    #[error("fault code {0:#x} is reserved: handlers have {first:#x} to {last:#x}", first = fault::FIRST_USER, last = fault::MAX_CODE)]
    Fault(u32),
    /// The wrong number of arguments for an opcode.
    #[error("{opcode} takes {takes} arguments, not {found}")]
    Arity { opcode: Opcode, takes: usize, found: usize },
    /// More words than the argument area holds.
    #[error("{what} takes {found} words, but there is room for {most}")]
    Long { what: &'static str, found: usize, most: usize },
    /// A packed slot that breaks a rule.
    #[error("packed slot: {0}")]
    Packed(packed::PackedError),
    /// The text of a format that cannot be parsed.
    #[error("format {text:?}, byte {at}: {why}")]
    Format { text: String, at: usize, why: &'static str },
}
