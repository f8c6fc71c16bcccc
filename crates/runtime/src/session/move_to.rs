//! Moving: a session goes on with a kernel on another device.
//!
//! This is a [hand-over](super::handover) to a kernel that was assembled for another device. Rings and records lie in memory
//! of the host, which the next device [adopts](pelton_device::Device::adopt), so producers and tickets notice no more than at
//! any other hand-over. What lies in the device's memory is copied in the pause: the workspace, cells and their frames,
//! queues, events, graphs, counters, and how far each ring was served.
//!
//! **Near slots.** A device with memory of its own polls near slots there, and another device cannot poll them. But the host
//! keeps a copy of every line that it writes to such memory, and writes both in the same way. So the next device polls the
//! host's copy, and producers need not know where their slots are polled. It answers later than a device that polls memory
//! of its own.
//!
//! **What belongs to one device alone.** Devices with memory of their own have copies of the control words, of payloads and
//! of replies there. When a session moves to such a device, these are made from the host's words. When it moves away, the
//! replies of tasks that have begun are copied back to the host, where the next device goes on writing them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::thread::Builder;

use pelton_device::memory::Slice;
use pelton_device::{Device, Memory, WordWidth};

use super::Session;
use super::handover::PlannedKernel;
use super::kernel::SessionKernel;
use super::memory::BufferMemories;
use super::resize::fitting_workers;
use super::rings::Rings;
use super::running::{PauseEnd, RunningKernel};
use crate::error::Error;
use crate::kernel::cells::cell_state;
use crate::kernel::layout::{BufferBinding, BufferKey};
use crate::kernel::{Assembled, BufferId, Layout, PreviousKernel, Spec, assemble_after, worker_count};
use crate::protocol::control;

impl Session {
    /// Moves the session to another device while producers submit tasks. Tasks, tickets and the contents of all memory stay,
    /// and resumable tasks that have begun go on there.
    ///
    /// The session then has as many groups as its `Spec` names, or as many as suit the other device if it names no number, but
    /// no more than a [`resize`](Session::resize) could give it. This takes `&mut self`, so no view of the old device's memory
    /// can be in use.
    ///
    /// ```
    /// use std::time::Duration;
    /// use pelton::{Opcode, Session, Spec, Task, device};
    ///
    /// let mut session = Session::launch(&device::open("cpu")?, &Spec::default())?;
    /// let mut producer = session.producer(0)?;
    /// let add = Task::new(Opcode::ATOMIC_ADD).args([5, 0]);
    /// assert_eq!(producer.submit(add)?.wait(Duration::from_secs(60))?, 0);
    /// session.move_to(&device::open("reference")?)?;
    /// assert_eq!(producer.submit(add)?.wait(Duration::from_secs(60))?, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the session's kernel cannot be assembled for the other device, and [`Error::Device`] if that
    /// device has too little memory or room, or cannot load or launch the kernel. In all these cases the session goes on where it is. [`Error::Ended`] if the session has ended, or ends now
    /// because neither device can run its kernel.
    pub fn move_to(&mut self, device: &Arc<dyn Device>) -> Result<(), Error> {
        loop {
            let old = self.kernel();
            if Arc::ptr_eq(&old.device, device) {
                return self.running.pause_and_launch(None).map(|_| ());
            }
            self.check_running()?;
            let adopted = self.running.adopt_rings(device)?;
            let planned = plan_move(&old, device, &adopted)?;
            match self.running.pause_and_launch(Some(&planned))? {
                PauseEnd::Launched => return Ok(()),
                // The device was lost meanwhile, and the kernel that runs now is another one.
                PauseEnd::Recovered => {}
            }
        }
    }
}

impl RunningKernel {
    /// Makes the memory of the rings reachable for another device. If the device has to do something for that, the memory stays
    /// reachable until the session is dropped: producers may keep the run that they have last woken, and with it its memory,
    /// for any time, and a driver may refuse to register memory again before it was given back.
    pub(super) fn adopt_rings(&self, device: &Arc<dyn Device>) -> Result<BufferMemories, Error> {
        let mut known = self.adopted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, blocks)) = known.iter().find(|(known, _)| is_device(known, device)) {
            return Ok(blocks.clone());
        }
        let memory = &self.served.rings.memory;
        let near = memory.near_slots(&self.kernel().memories).ok().cloned();
        let near = near.map(|slots| (BufferKey::Kernel(BufferId::NearSlots), slots));
        let shared = memory.shared.iter().map(|(key, memory)| (key, memory.clone()));
        let shared = shared.filter(|(key, _)| *key != BufferKey::Kernel(BufferId::NearSlots));
        let mut kept = false;
        let adopt = |(key, memory): (BufferKey, Memory)| {
            let adopted = device.adopt(&memory)?;
            kept |= !Arc::ptr_eq(adopted.store(), memory.store());
            Ok((key, adopted))
        };
        let blocks = shared.chain(near).map(adopt).collect::<Result<BufferMemories, Error>>()?;
        if kept {
            known.push((Arc::downgrade(device), blocks.clone()));
        }
        Ok(blocks)
    }

    /// Forgets how a device reaches the memory of the rings, because the device was lost.
    pub(super) fn forget_adopted(&self, device: &Arc<dyn Device>) {
        let mut known = self.adopted.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(known, _)| !is_device(known, device));
    }
}

/// Whether a reference is to this device.
fn is_device(known: &Weak<dyn Device>, device: &Arc<dyn Device>) -> bool {
    std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(device))
}

/// Assembles, compiles and loads the kernel of a session for another device, and allocates its memory there. `adopted` is
/// the memory of the rings as that device reaches it.
pub(super) fn plan_move(
    old: &Arc<SessionKernel>,
    device: &Arc<dyn Device>,
    adopted: &BufferMemories,
) -> Result<PlannedKernel, Error> {
    let (spec, placement) = (&old.spec, old.layout.placement());
    let (least, most) = old.layout.banks.worker_range().into_inner();
    let mut workers = worker_count(spec, device.caps(), placement)?.clamp(least, most);
    let previous = PreviousKernel { layout: &old.layout, stand_ins: &old.stand_ins };
    let (geometry, assembled, compiled) = loop {
        let geometry = old.geometry.clone().groups(workers);
        let fitted = Spec { geometry: geometry.clone(), placement: Some(placement), ..Spec::clone(spec) };
        let assembled = assemble_after(Some(previous), &fitted, device.caps())?;
        let compiled = device.compile(&assembled.module, None, assembled.layout.lanes)?;
        let fit = fitting_workers(&*compiled.load()?, spec.share, &assembled.layout).clamp(least, most);
        if spec.geometry.groups.is_some() || workers <= fit {
            break (geometry, assembled, compiled);
        }
        workers = fit;
    };
    let memories = memory_on(device, adopted, &assembled)?;
    Ok(PlannedKernel {
        follows: old.clone(),
        device: device.clone(),
        spec: spec.clone(),
        geometry,
        assembled,
        stand_ins: old.stand_ins.clone(),
        compiled,
        memories,
        fresh_versions: Vec::new(),
        moves: true,
    })
}

/// Returns the memory of a kernel on another device. Memory of the rings was adopted, and all other memory is new.
fn memory_on(
    device: &Arc<dyn Device>,
    adopted: &BufferMemories,
    assembled: &Assembled,
) -> Result<BufferMemories, Error> {
    let block = |b: &BufferBinding| {
        let memory = match adopted.get(b.key).filter(|memory| memory.len() == b.len) {
            Some(memory) => memory.clone(),
            None => device.alloc(b.kind, b.width, b.len)?,
        };
        Ok((b.key, memory))
    };
    assembled.layout.buffers.iter().map(block).collect()
}

/// Copies what the kernel of another device has left to the memory of the kernel that follows it. Does nothing where both
/// have the same memory.
pub(super) fn copy_to_device(
    rings: &Rings,
    old: &SessionKernel,
    layout: &Layout,
    memories: &BufferMemories,
) -> Result<(), Error> {
    for (key, to) in memories.iter() {
        // Counters and frames are copied by themselves, because they may have another order. Producers write near slots at
        // any time, and have written them to both memories.
        let skipped = [BufferId::Rows, BufferId::StepCounts, BufferId::Frames, BufferId::NearSlots];
        let same = old.memories.get(key).is_some_and(|from| is_same_block(from, to));
        if same || skipped.map(BufferKey::Kernel).contains(&key) {
            continue;
        }
        let from = match key {
            BufferKey::Kernel(BufferId::ControlCopy) => {
                rings.memory.shared.get(BufferKey::Kernel(BufferId::Host))
            }
            BufferKey::Kernel(id @ (BufferId::PayloadCopy | BufferId::ReplyCopy)) => {
                let original = if id == BufferId::PayloadCopy { BufferId::Payload } else { BufferId::Reply };
                old.memories.get(key).or(old.memories.get(BufferKey::Kernel(original)))
            }
            key => old.memories.get(key),
        };
        // Buffers of other lengths belong to one run alone, and begin with zeros.
        if let Some(from) = from.filter(|from| from.len() == to.len()) {
            copy_words(from, to)?;
        }
    }
    if let Some(words) = memories.get(BufferKey::Kernel(BufferId::ControlCopy)) {
        // The host still asks the old kernel to end.
        words.upload(control::SHUTDOWN as usize, &[0u32])?;
    }
    copy_replies_back(rings, old, layout)
}

/// Copies the replies of tasks that have begun to the host's memory, if the old kernel has written them to a copy and the
/// next one has none.
fn copy_replies_back(rings: &Rings, old: &SessionKernel, layout: &Layout) -> Result<(), Error> {
    let copy = old.memories.get(BufferKey::Kernel(BufferId::ReplyCopy)).filter(|_| !layout.remote);
    let Some(copy) = copy.filter(|_| layout.cell_count() > 0) else { return Ok(()) };
    let states = old.memories.download_words(BufferId::CellStates)?;
    let (replies, words) =
        (rings.memory.shared.need(BufferId::Reply)?, layout.places.reply_stride() as usize);
    let mut reply = vec![0u32; words];
    let begun =
        states.iter().enumerate().filter(|(_, state)| **state & cell_state::PHASE != cell_state::ENDED);
    for (cell, _) in begun {
        let first = (layout.slot_count() as usize + cell) * words;
        copy.download(first, &mut reply)?;
        replies.upload(first, &reply)?;
    }
    Ok(())
}

/// Whether two blocks of memory have the same words.
pub(super) fn is_same_block(a: &Memory, b: &Memory) -> bool {
    let start = |memory: &Memory| memory.store().mapped().map(|mapped| mapped.start());
    Arc::ptr_eq(a.store(), b.store()) || start(a).is_some_and(|from| start(b) == Some(from))
}

/// How many words a thread copies at once. They should fit into the cache of a core, because they are copied twice.
const WORDS_PER_COPY: usize = 1 << 16;

/// The most threads that copy a block.
const MOST_COPIERS: usize = 8;

/// Copies all words of a block to another one of the same length. Producers wait meanwhile, so large blocks are copied by
/// several threads.
pub(super) fn copy_words(from: &Memory, to: &Memory) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let copy = || match from.width() {
        WordWidth::W32 => copy_pieces::<u32>(from, to, &next),
        WordWidth::W64 => copy_pieces::<u64>(from, to, &next),
    };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let pieces = from.len().div_ceil(WORDS_PER_COPY);
    let helpers = cores.min(MOST_COPIERS).min(pieces / PIECES_PER_COPIER).saturating_sub(1);
    std::thread::scope(|threads| {
        // This thread copies whatever the helpers leave, so it does not matter if one cannot be started.
        let started = (0..helpers).map_while(|_| Builder::new().spawn_scoped(threads, copy).ok());
        let started: Vec<_> = started.collect();
        let own = copy();
        let panicked = |_| Err(Error::Internal("copy"));
        started.into_iter().map(|helper| helper.join().unwrap_or_else(panicked)).fold(own, Result::and)
    })
}

/// How many pieces there must be for each thread that copies.
const PIECES_PER_COPIER: usize = 8;

/// Copies pieces of a block, the numbers of which `next` counts, until none is left.
fn copy_pieces<T: Slice + Clone + Default>(
    from: &Memory,
    to: &Memory,
    next: &AtomicUsize,
) -> Result<(), Error> {
    let mut words = vec![T::default(); WORDS_PER_COPY.min(from.len())];
    loop {
        let first = next.fetch_add(1, Ordering::Relaxed) * WORDS_PER_COPY;
        if first >= from.len() {
            return Ok(());
        }
        let piece = &mut words[..WORDS_PER_COPY.min(from.len() - first)];
        from.download(first, piece)?;
        to.upload(first, piece)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pelton_device::MemoryKind;

    /// The largest of these blocks are copied by several threads, where there are several cores.
    #[test]
    fn every_word_is_copied_whatever_the_length() {
        let many = WORDS_PER_COPY * PIECES_PER_COPIER;
        for len in [0, 1, WORDS_PER_COPY, WORDS_PER_COPY + 1, many - 1, 4 * many + 3] {
            for width in [WordWidth::W32, WordWidth::W64] {
                let block = || Memory::mapped(MemoryKind::Host, width, len).unwrap();
                let (from, to) = (block(), block());
                let numbers: Vec<u64> = (1..=len as u64).collect();
                from.set_bits(&numbers).unwrap();
                copy_words(&from, &to).unwrap();
                assert!(to.bits().unwrap() == numbers, "{len} words of {width:?}");
            }
        }
    }
}
