//! The payloads of a batch, and the replies of a run.
//!
//! A batch keeps its payloads in memory of its own, and a run copies each of them to the place of its slot before the
//! pass that runs it; see [`kernel::payload`](crate::kernel::payload). The replies of the last pass are read where the
//! kernel wrote them. Those of earlier passes are kept, because the next pass uses the same places.

use super::batch::Batch;
use crate::payload::Payload;
use crate::session::{PlaceMemory, ReplyPlace};

/// The payloads of a batch, one after another.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct BatchPayloads {
    /// The bytes of all payloads.
    bytes: Vec<u8>,
    /// The number of the slot of each payload that is not empty, and where its bytes begin, in the order of the slots.
    starts: Vec<(usize, usize)>,
    /// The length of the longest payload.
    longest: usize,
}

impl BatchPayloads {
    /// Adds the payload of a slot. Slots come in order.
    #[inline]
    pub(super) fn push(&mut self, slot: usize, payload: Payload<'_>) {
        if payload.is_empty() {
            return;
        }
        self.starts.push((slot, self.bytes.len()));
        self.longest = self.longest.max(payload.len());
        match payload {
            Payload::Bytes(bytes) => self.bytes.extend_from_slice(bytes),
            Payload::Words(words) => self.bytes.extend(words.iter().flat_map(|word| word.to_le_bytes())),
        }
    }

    /// Removes all payloads and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
        self.longest = 0;
    }

    /// Returns the payload that is longest.
    pub(super) fn longest(&self) -> Payload<'_> {
        Payload::Bytes(&self.bytes[..self.longest])
    }

    /// Returns the payload of a slot.
    pub(super) fn get(&self, slot: usize) -> Payload<'_> {
        let Ok(at) = self.starts.binary_search_by_key(&slot, |(slot, _)| *slot) else { return Payload::NONE };
        let end = self.starts.get(at + 1).map_or(self.bytes.len(), |(_, start)| *start);
        Payload::Bytes(&self.bytes[self.starts[at].1..end])
    }
}

/// The tasks of a run in the order of the ring, for copying their payloads to their places.
#[derive(Debug, Default)]
pub(super) struct PlacedTasks {
    /// The number of the task at each place. This is empty if tasks stand in the order in which they were added.
    by_place: Vec<usize>,
}

impl PlacedTasks {
    /// Notes the place of each task of a run, or no places if tasks stand in order.
    pub(super) fn set_order(&mut self, order: &[usize]) {
        self.by_place.clear();
        self.by_place.resize(order.len(), 0);
        for (task, place) in order.iter().enumerate() {
            self.by_place[*place] = task;
        }
    }

    /// Writes the payloads of a pass, which begins at place `first` of the run and has `count` slots. `ends` has the end
    /// of each batch among the tasks of all batches.
    pub(super) fn write_payloads(
        &self,
        places: &PlaceMemory,
        (batches, ends): (&[Batch], &[usize]),
        (first, count): (usize, usize),
    ) {
        for at in 0..count {
            let task = self.by_place.get(first + at).copied().unwrap_or(first + at);
            let batch = ends.partition_point(|end| *end <= task);
            let start = batch.checked_sub(1).map_or(0, |last| ends[last]);
            places.write_payload(at, batches[batch].payloads().get(task - start));
        }
    }
}

/// The replies of a run, by the place of the task in the ring.
#[derive(Debug, Default)]
pub(super) struct RunReplies {
    /// The places in which the kernel writes replies, if tasks have any.
    places: Option<PlaceMemory>,
    /// The bytes of the replies of all passes but the last.
    bytes: Vec<u8>,
    /// Where the bytes of each of these replies end.
    ends: Vec<usize>,
}

/// A reply of a run.
pub(super) enum RunReply<'r> {
    /// The reply of an earlier pass, which was kept.
    Kept(&'r [u8]),
    /// The reply of the last pass, where the kernel wrote it.
    Live(ReplyPlace<'r>),
}

impl RunReply<'_> {
    /// Copies as many bytes of the reply as there is room for, and returns how many the reply has.
    pub(super) fn read_bytes(&self, into: &mut [u8]) -> usize {
        match self {
            RunReply::Kept(bytes) => {
                into.iter_mut().zip(*bytes).for_each(|(to, byte)| *to = *byte);
                bytes.len()
            }
            RunReply::Live(place) => place.read_bytes(into),
        }
    }

    /// Copies as many words of the reply as there is room for, and returns how many the reply has.
    pub(super) fn read_words(&self, into: &mut [u32]) -> usize {
        match self {
            RunReply::Kept(bytes) => {
                for (word, bytes) in into.iter_mut().zip(bytes.chunks(4)) {
                    let mut whole = [0; 4];
                    whole[..bytes.len()].copy_from_slice(bytes);
                    *word = u32::from_le_bytes(whole);
                }
                bytes.len().div_ceil(4)
            }
            RunReply::Live(place) => place.read_words(into),
        }
    }
}

impl RunReplies {
    /// Returns no replies, of tasks with these places.
    pub(super) fn new(places: Option<PlaceMemory>) -> Self {
        RunReplies { places, ..RunReplies::default() }
    }

    /// Forgets the replies of the last run.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Keeps the replies of a pass over `count` slots, which the next pass will overwrite. `lap` is that of the pass.
    pub(super) fn keep(&mut self, count: usize, lap: u64) {
        let RunReplies { places: Some(places), bytes, ends } = self else { return };
        for at in 0..count {
            if let Some(reply) = places.reply(at, lap) {
                let start = bytes.len();
                bytes.resize(start + reply.len(), 0);
                reply.read_bytes(&mut bytes[start..]);
            }
            ends.push(bytes.len());
        }
    }

    /// Returns the reply of the task at a place of the run. `lap` is that of the last pass. `None` if tasks have no
    /// replies.
    pub(super) fn get(&self, place: usize, lap: u64) -> Option<RunReply<'_>> {
        let places = self.places.as_ref()?;
        match self.ends.get(place) {
            Some(end) => {
                let start = place.checked_sub(1).map_or(0, |last| self.ends[last]);
                Some(RunReply::Kept(&self.bytes[start..*end]))
            }
            None => places.reply(place - self.ends.len(), lap).map(RunReply::Live),
        }
    }
}
