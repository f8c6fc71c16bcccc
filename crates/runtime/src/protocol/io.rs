//! The IO queue, in which kernels ask the host to read and write.

use super::table::{codes, words};
use super::{Malformed, WirePlace};

/// The number of requests that the queue holds.
pub const REQUESTS: usize = 64;

/// The number of words in a request.
pub const REQUEST_WORDS: usize = 8;

/// The number of words in the queue.
pub const WORDS: usize = REQUESTS * REQUEST_WORDS;

codes! {
    /// What an IO request asks for.
    IoOp "IO operation" {
        Read  1 "READ"  "Read bytes from a source into the workspace.";
        Write 2 "WRITE" "Write bytes from the workspace to a destination.";
        Fence 3 "FENCE" "Do nothing, but only after all requests before it.";
    }
}

codes! {
    /// How far the host has dealt with an IO request.
    IoState "state of an IO request" {
        Asked 0    "ASKED" "The host has not answered yet.";
        Ok    0x10 "OK"    "The host has done all of it.";
        Error 0x11 "ERROR" "The host could not do it.";
    }
}

pub use super::control::WordWriter;

words! {
    /// The words of an IO request.
    WordWriter;
    OP          0 Device "READ, WRITE or FENCE. Zero means that there is no request.";
    SOURCE      1 Device "The source of the bytes.";
    DESTINATION 2 Device "The destination of the bytes.";
    OFFSET_LOW  3 Device "The low word of the byte offset at which to begin.";
    OFFSET_HIGH 4 Device "The high word of the byte offset at which to begin.";
    BYTES       5 Device "The number of bytes.";
    STATE       6 Host   "The host's answer: zero while there is none, OK or ERROR.";
    TAG         7 Device "A number that the kernel chooses for its own use.";
}

/// A request of a kernel to the host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IoRequest {
    /// What the request asks for.
    pub op: IoOp,
    /// The source of the bytes.
    pub source: u32,
    /// The destination of the bytes.
    pub destination: u32,
    /// The byte offset at which to begin.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u32,
    /// The host's answer.
    pub state: IoState,
    /// A number that the kernel chooses for its own use.
    pub tag: u32,
}

impl IoRequest {
    /// Returns the words of the request.
    pub const fn encode(&self) -> [u32; REQUEST_WORDS] {
        let (low, high) = (self.offset as u32, (self.offset >> 32) as u32);
        [self.op.code(), self.source, self.destination, low, high, self.bytes, self.state.code(), self.tag]
    }

    /// Returns the request at a place in the queue, `None` if there is none, or an error that names the word that is
    /// malformed.
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
            return stray.map_or(Ok(None), |(word, _)| Err(wrong(word, "although there is no request")));
        }
        let op = IoOp::from_code(op).ok_or_else(|| wrong(OP, "which is not an operation"))?;
        let state =
            IoState::from_code(state).ok_or_else(|| wrong(STATE, "which is not a state of a request"))?;
        let offset = u64::from(low) | u64::from(high) << 32;
        Ok(Some(IoRequest { op, source, destination, offset, bytes, state, tag }))
    }
}

/// Returns the requests of a queue in order, with `None` for places that hold no request.
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
