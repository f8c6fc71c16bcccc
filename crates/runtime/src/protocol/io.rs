//! The IO queue: what kernels ask the host to read and write.

use super::table::{codes, words};
use super::{Malformed, WirePlace};

/// Requests that the queue holds.
pub const REQUESTS: usize = 64;

/// Words of a request.
pub const REQUEST_WORDS: usize = 8;

/// Words of the queue.
pub const WORDS: usize = REQUESTS * REQUEST_WORDS;

codes! {
    /// What is asked for.
    IoOp "IO operation" {
        Read  1 "READ"  "Bytes from a source to a destination in the workspace.";
        Write 2 "WRITE" "Bytes from the workspace to a destination.";
        Fence 3 "FENCE" "Nothing, after all requests before it.";
    }
}

codes! {
    /// What became of a request.
    IoState "state of an IO request" {
        Asked 0    "ASKED" "Nothing yet.";
        Ok    0x10 "OK"    "All of it was done.";
        Error 0x11 "ERROR" "It was not done.";
    }
}

pub use super::control::WordWriter;

words! {
    /// The words of a request.
    WordWriter;
    OP          0 Device "READ, WRITE or FENCE. Zero: no request.";
    SOURCE      1 Device "Where from.";
    DESTINATION 2 Device "Where to.";
    OFFSET_LOW  3 Device "Where to begin, in bytes: the low word.";
    OFFSET_HIGH 4 Device "The high word.";
    BYTES       5 Device "How many bytes.";
    STATE       6 Host   "What became of it: zero, OK or ERROR.";
    TAG         7 Device "The asker's own.";
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IoRequest {
    /// What is asked for.
    pub op: IoOp,
    /// Where from.
    pub source: u32,
    /// Where to.
    pub destination: u32,
    /// Where to begin, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u32,
    /// What became of it.
    pub state: IoState,
    /// The asker's own.
    pub tag: u32,
}

impl IoRequest {
    /// Its words.
    pub const fn encode(&self) -> [u32; REQUEST_WORDS] {
        let (low, high) = (self.offset as u32, (self.offset >> 32) as u32);
        [self.op.code(), self.source, self.destination, low, high, self.bytes, self.state.code(), self.tag]
    }

    /// The request of a place in the queue, or none if nothing is asked there.
    pub fn decode(words: &[u32; REQUEST_WORDS], place: usize) -> Result<Option<IoRequest>, Malformed> {
        let wrong = |word: u32, why| Malformed::Word {
            place: WirePlace::Request(place),
            word,
            name: TABLE[word as usize].name,
            value: words[word as usize].into(),
            why,
        };
        let [op, source, destination, low, high, bytes, state, tag] = *words;
        if op == 0 {
            let stray = (1..).zip(&words[1..]).find(|(_, value)| **value != 0);
            return stray.map_or(Ok(None), |(word, _)| Err(wrong(word, "where nothing is asked")));
        }
        let op = IoOp::from_code(op).ok_or_else(|| wrong(OP, "which is no operation"))?;
        let state =
            IoState::from_code(state).ok_or_else(|| wrong(STATE, "which is no state of a request"))?;
        let offset = u64::from(low) | u64::from(high) << 32;
        Ok(Some(IoRequest { op, source, destination, offset, bytes, state, tag }))
    }
}

/// The requests of a queue, in order; places where nothing is asked give none.
pub fn decode_queue(
    words: &[u32],
) -> Result<impl Iterator<Item = Result<Option<IoRequest>, Malformed>> + '_, Malformed> {
    if words.len() < WORDS {
        let word = (words.len() % REQUEST_WORDS) as u32;
        let name = TABLE[word as usize].name;
        return Err(Malformed::Short {
            what: "IO queue",
            words: words.len(),
            word: words.len() as u32,
            name,
        });
    }
    let (all, _) = words[..WORDS].as_chunks::<REQUEST_WORDS>();
    Ok(all.iter().enumerate().map(|(place, words)| IoRequest::decode(words, place)))
}
