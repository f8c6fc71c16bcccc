//! Payloads and replies as the host sees them.
//!
//! Each slot has a place for a payload and one for a reply, in memory that host and device both reach; see
//! [`kernel::payload`](crate::kernel::payload). The host's part is this:
//!
//! - A producer writes the payload of a task and its length after it has taken the slot back and before it publishes
//!   the slot. The publish is a release, so the stores here are relaxed.
//! - A ticket reads the reply of its task after it has acquired the task's record, and before it gives the slot up,
//!   which is a release. So the loads here are relaxed too.
//! - A producer takes a slot back only after its ticket has given it up and its record was posted. The kernel has then
//!   read the payload and nobody wants the reply any more, so both places may be written again.
//!
//! A ticket that was read and not dropped keeps its slot, and with it the reply. Dropping it is the only way to give
//! the reply up, so a reply is never overwritten while somebody can still ask for it.

use std::sync::atomic::Ordering;

use pelton_device::{View32, View64};

use super::memory::BufferMemories;
use crate::error::{Error, SubmitError};
use crate::kernel::payload::{REPLY_LAP_BITS, REPLY_LEN_BITS};
use crate::kernel::{BufferId, Layout, PlaceSizes};
use crate::payload::Payload;

/// The places of all slots of a session or a drain.
#[derive(Clone, Debug)]
pub(crate) struct PlaceMemory {
    sizes: PlaceSizes,
    payload: Option<PayloadMemory>,
    reply: Option<ReplyMemory>,
}

#[derive(Clone, Debug)]
struct PayloadMemory {
    words: View32,
    /// The length of each payload in bytes.
    bytes: View32,
}

#[derive(Clone, Debug)]
struct ReplyMemory {
    words: View32,
    /// The length of each reply, and the lap in which it was given.
    said: View64,
}

/// The reply of a task that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyPlace<'m> {
    words: &'m View32,
    first: usize,
    len: usize,
}

impl ReplyPlace<'_> {
    /// Returns how many bytes the reply has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Copies as many bytes of the reply as there is room for, and returns how many the reply has.
    pub(crate) fn read_bytes(&self, into: &mut [u8]) -> usize {
        let count = into.len().min(self.len);
        self.words.read_bytes(self.first, &mut into[..count]);
        self.len
    }

    /// Copies as many words of the reply as there is room for, and returns how many the reply has.
    pub(crate) fn read_words(&self, into: &mut [u32]) -> usize {
        let len = self.len.div_ceil(4);
        let count = into.len().min(len);
        self.words.read_words(self.first, &mut into[..count]);
        len
    }
}

impl PlaceMemory {
    /// Finds the places of a layout among its memory. `None` if tasks have neither payloads nor replies.
    pub(crate) fn new(layout: &Layout, memories: &BufferMemories) -> Result<Option<Self>, Error> {
        let sizes = layout.places;
        let words32 = |id: BufferId| {
            memories.need(id)?.view32().ok_or(Error::Internal("words that the host can reach"))
        };
        let payload = match sizes.payload {
            0 => None,
            _ => Some(PayloadMemory {
                words: words32(BufferId::Payload)?,
                bytes: words32(BufferId::PayloadBytes)?,
            }),
        };
        let reply = match sizes.reply {
            0 => None,
            _ => {
                let said = memories.need(BufferId::ReplySaid)?.view64();
                Some(ReplyMemory {
                    words: words32(BufferId::Reply)?,
                    said: said.ok_or(Error::Internal("words that the host can reach"))?,
                })
            }
        };
        let places = PlaceMemory { sizes, payload, reply };
        Ok((!sizes.is_empty()).then_some(places))
    }

    /// Writes the payload of the task that is about to be published in a slot. Only who may write the slot may call
    /// this. Payloads are checked before; what does not fit nevertheless is cut off.
    #[inline]
    pub(crate) fn write_payload(&self, place: usize, payload: Payload<'_>) {
        let Some(to) = &self.payload else { return };
        let most = self.sizes.payload as usize;
        let first = place * self.sizes.payload_stride() as usize;
        match payload {
            Payload::Bytes(bytes) => to.words.write_bytes(first, &bytes[..bytes.len().min(most)]),
            Payload::Words(words) => to.words.write_words(first, &words[..words.len().min(most.div_ceil(4))]),
        }
        // Relaxed: the publish of the slot is a release.
        to.bytes[place].store(payload.len().min(most) as u32, Ordering::Relaxed);
    }

    /// Returns a copy of the payload in a place, whose slot nobody writes meanwhile.
    pub(super) fn copy_payload(&self, place: usize) -> Vec<u8> {
        let Some(from) = &self.payload else { return Vec::new() };
        let len = from.bytes[place].load(Ordering::Relaxed).min(self.sizes.payload);
        let mut bytes = vec![0; len as usize];
        from.words.read_bytes(place * self.sizes.payload_stride() as usize, &mut bytes);
        bytes
    }

    /// Returns the reply of a task that ended in a lap, whose record the caller has acquired. It is empty if the task
    /// gave none.
    pub(crate) fn reply(&self, place: usize, lap: u64) -> Option<ReplyPlace<'_>> {
        let ReplyMemory { words, said } = self.reply.as_ref()?;
        // Relaxed: the record was acquired.
        let word = said[place].load(Ordering::Relaxed);
        let own = word >> REPLY_LEN_BITS == lap & (u64::MAX >> (u64::BITS - REPLY_LAP_BITS));
        let len = if own { (word & ((1 << REPLY_LEN_BITS) - 1)) as usize } else { 0 };
        let first = place * self.sizes.reply_stride() as usize;
        Some(ReplyPlace { words, first, len: len.min(self.sizes.reply as usize) })
    }

    /// Forgets that a task has given a reply, because it has not ended and its device was lost. No kernel runs.
    pub(crate) fn forget_reply(&self, place: usize) {
        if let Some(reply) = &self.reply {
            reply.said[place].store(0, Ordering::Relaxed);
        }
    }

    /// Forgets the reply of a task that begins again, of which nothing may be seen. Returns the sizes of its payload and its
    /// reply as a cell keeps them. No kernel runs.
    pub(crate) fn begin_again(&self, place: usize) -> u64 {
        self.forget_reply(place);
        if let Some(reply) = &self.reply {
            let stride = self.sizes.reply_stride() as usize;
            reply.words.write_words(place * stride, &vec![0; stride]);
        }
        self.payload.as_ref().map_or(0, |payload| payload.bytes[place].load(Ordering::Relaxed).into())
    }

    /// Returns where the payload of a place begins, and its words.
    pub(crate) fn payload_words(&self, place: usize) -> (usize, Vec<u32>) {
        let first = place * self.sizes.payload_stride() as usize;
        let Some(payload) = &self.payload else { return (first, Vec::new()) };
        let bytes = payload.bytes[place].load(Ordering::Relaxed).min(self.sizes.payload);
        let mut words = vec![0; bytes.div_ceil(4) as usize];
        payload.words.read_words(first, &mut words);
        (first, words)
    }

    /// Forgets all replies, because laps are about to be counted from 0 again.
    pub(crate) fn forget_replies(&self) {
        if let Some(reply) = &self.reply {
            reply.said.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
    }
}

/// Checks that a payload fits the tasks of a session or a drain.
#[inline]
pub(crate) fn check_payload(sizes: PlaceSizes, payload: Payload<'_>) -> Result<(), SubmitError> {
    let (bytes, most) = (payload.len() as u64, sizes.payload);
    match most {
        _ if bytes <= u64::from(most) => Ok(()),
        0 => Err(SubmitError::NoPayloads { bytes }),
        _ => Err(SubmitError::PayloadTooLong { bytes, most }),
    }
}
