//! The place of a launch: a stream to launch on, the end record that the kernel writes, and a page that it reads.
//!
//! Places are kept between launches. The end record of a place that no launch uses is all zero, so a launch is a single call of the
//! driver. After a launch has ended, the host reads and clears the record only if there can be anything in it: the kernel
//! gives notice of what it wrote by itself, and the host knows whether it asked the kernel to stop. No copy is queued behind the
//! kernel, because it would delay copies of other streams that happen to share the hardware queue.
//!
//! [`abi`](pelton_ir::emit::ptx::abi) lists the words of the end record. The page lies in host memory, and only the host and
//! the copy engine know its layout: see the constants below.

use std::sync::atomic::{AtomicU64, Ordering};

use pelton_ir::emit::ptx::abi::{launch, record};

use crate::error::DeviceError;
use crate::mapped::{Mapped, WordWidth};

use super::context::CudaContext;
use super::current::{Current, StreamHandle};
use super::deferred::DeferredFree;
use super::pinned::Pinned;
use super::raw::DriverStatus;

/// Bytes of the end record.
const RECORD_BYTES: usize = 4 * record::WORDS;

/// The word of the page that says when the kernel must end by itself, in nanoseconds of the device's clock.
const LEASE_WORD: usize = 0;
/// The word of the page that holds the number one, which is copied to the record's stop word.
const ONE_WORD: usize = 8;
/// The first of the words of the page that the record is copied to.
const COPY_WORD: usize = 16;
/// The first of the words of the page that are zero, to clear the record with.
const ZERO_WORD: usize = 24;
/// The word of the page where the kernel gives notice that there is something in the record.
const NOTICE_WORD: usize = 32;
/// Words of the page.
const PAGE_WORDS: usize = 512;

/// What a kernel left in its end record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct EndRecord {
    /// The code and the site of the first trap.
    pub trap: Option<(u32, u32)>,
    /// The code and the site of the first fault, and how many faults there were.
    pub fault: Option<(u32, u32, u64)>,
    /// Whether lanes left before the end of the kernel.
    pub stopped: bool,
}

impl EndRecord {
    fn from_words(words: [u32; record::WORDS]) -> Self {
        let (trap, fault) = (words[record::TRAP_CODE], words[record::FAULT_CODE]);
        let faults = words[record::FAULTS];
        EndRecord {
            trap: (words[record::TRAP] != 0).then_some((trap, words[record::TRAP_SITE])),
            fault: (faults != 0).then_some((fault, words[record::FAULT_SITE], faults.into())),
            stopped: words[record::STOPPED] != 0,
        }
    }
}

/// The place of a launch.
#[derive(Debug)]
pub(super) struct LaunchPlace {
    /// The stream that the kernel is launched on.
    pub stream: StreamHandle,
    /// The address of the end record.
    record: u64,
    page: Pinned,
}

impl LaunchPlace {
    /// Makes a new place. If a step fails, what the earlier steps made is freed with the context.
    pub(super) fn new(context: &CudaContext) -> Result<Self, DeviceError> {
        let current = context.enter()?;
        let page = Pinned::new(current, Mapped::new(WordWidth::W64, PAGE_WORDS)?)?;
        let stream = current.stream()?;
        let record = current.alloc(RECORD_BYTES).map_err(|status| status.for_bytes(RECORD_BYTES))?;
        context.clear(record, RECORD_BYTES)?;
        let place = LaunchPlace { stream, record, page };
        if let Some(one) = place.page_word(ONE_WORD) {
            one.store(1, Ordering::Relaxed);
        }
        Ok(place)
    }

    fn page_word(&self, at: usize) -> Option<&AtomicU64> {
        self.page.block.words64()?.get(at)
    }

    /// Sets until when the kernel may run, in nanoseconds of the device's clock.
    pub(super) fn set_limit(&self, device_ns: u64) {
        if let Some(word) = self.page_word(LEASE_WORD) {
            // Relaxed: the kernel reads this word and nothing that it would announce.
            word.store(device_ns, Ordering::Relaxed);
        }
    }

    /// The words of the launch record before its buffers.
    pub(super) fn launch_words(&self, limit_ns: u64) -> [u64; launch::BUFFERS] {
        let address = |word: usize| self.page.at + 8 * word as u64;
        let mut words = [0; launch::BUFFERS];
        words[launch::NOTICE] = address(NOTICE_WORD);
        words[launch::RECORD] = self.record;
        words[launch::LEASE] = address(LEASE_WORD);
        words[launch::LIMIT] = limit_ns;
        words
    }

    fn page_pointer(&self, at: usize) -> *mut u8 {
        self.page.block.start().as_ptr().wrapping_add(8 * at)
    }

    /// Asks the kernel to stop, by a copy on the given stream.
    pub(super) fn request_stop(&self, current: Current, on: StreamHandle) -> Result<(), DriverStatus> {
        let stop = self.record + 4 * record::STOP as u64;
        // SAFETY: page and record belong to the place, which outlives the copy: `take_record` is called after it was waited for.
        unsafe { current.copy_in(stop, self.page_pointer(ONE_WORD), 4, on) }
    }

    /// Reads and clears the end record of a kernel that has ended. Without a notice of the kernel and a request of the host
    /// the record is known to be empty, and is not read.
    pub(super) fn take_record(
        &self,
        current: Current,
        requested: StopRequested,
    ) -> Result<EndRecord, DriverStatus> {
        // Relaxed: the kernel has ended, and is seen to have.
        let noticed = self.page_word(NOTICE_WORD).is_none_or(|word| word.swap(0, Ordering::Relaxed) != 0);
        if !noticed && requested == StopRequested::No {
            return Ok(EndRecord::default());
        }
        // SAFETY: page and record belong to the place, and the copy is waited for.
        unsafe { current.copy_out(self.page_pointer(COPY_WORD), self.record, RECORD_BYTES, self.stream) }?;
        current.synchronize(self.stream)?;
        let mut words = [0; record::WORDS];
        for (at, pair) in words.chunks_exact_mut(2).enumerate() {
            let both = self.page_word(COPY_WORD + at).map_or(0, |word| word.load(Ordering::Relaxed));
            pair.copy_from_slice(&[both as u32, (both >> 32) as u32]);
        }
        if words != [0; record::WORDS] {
            // SAFETY: page and record belong to the place, and the copy is waited for.
            unsafe { current.copy_in(self.record, self.page_pointer(ZERO_WORD), RECORD_BYTES, self.stream) }?;
            current.synchronize(self.stream)?;
        }
        Ok(EndRecord::from_words(words))
    }

    /// The parts of the place, to be freed.
    pub(super) fn into_parts(self) -> [DeferredFree; 3] {
        let LaunchPlace { stream, record, page } = self;
        [DeferredFree::Stream(stream), DeferredFree::Device(record), DeferredFree::Host(page)]
    }
}

/// Whether the host has asked a kernel to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StopRequested {
    /// It has.
    Yes,
    /// It has not.
    No,
}

#[cfg(test)]
mod tests {
    use super::EndRecord;

    #[test]
    fn a_record_says_what_happened() {
        assert_eq!(EndRecord::from_words([0; 8]), EndRecord::default());
        let all = EndRecord::from_words([1, 77, 5, 9, 3, 2, 1, 1]);
        assert_eq!(all, EndRecord { trap: Some((77, 5)), fault: Some((9, 3, 2)), stopped: true });
        // A fault may have the code and the site 0, and so may a trap.
        assert_eq!(EndRecord::from_words([0, 0, 0, 0, 0, 1, 0, 0]).fault, Some((0, 0, 1)));
        assert_eq!(EndRecord::from_words([1, 0, 0, 0, 0, 0, 1, 1]).trap, Some((0, 0)));
    }
}
