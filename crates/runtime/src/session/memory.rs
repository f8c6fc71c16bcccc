//! The memory of a session, and who owns it.
//!
//! A kernel reaches all memory through its buffers and does not care who owns it. The host does, because the owner
//! decides how long a block lives. See [`rings`](super::rings).

use std::sync::Arc;

use pelton_device::{Device, DeviceError, Memory, MemoryKind, View64, WordWidth};

use crate::error::Error;
use crate::kernel::layout::{BufferBinding, BufferKey, SlotBank};
use crate::kernel::{BufferId, Layout};

/// Blocks of memory, each with the buffer of the kernel that it is bound to.
#[derive(Clone, Debug)]
pub(crate) struct BufferMemories(Vec<(BufferKey, Memory)>);

impl BufferMemories {
    /// Allocates a block for every buffer of a layout that is in a wanted kind of memory. The optimizer may have
    /// removed a buffer; its block is then not used.
    fn allocate(
        device: &Arc<dyn Device>,
        layout: &Layout,
        wanted: impl Fn(MemoryKind) -> bool,
    ) -> Result<BufferMemories, DeviceError> {
        let buffers = layout.buffers.iter().filter(|buffer| wanted(buffer.kind));
        let block = |b: &BufferBinding| Ok((b.key, device.alloc(b.kind, b.width, b.len)?));
        Ok(BufferMemories(buffers.map(block).collect::<Result<_, DeviceError>>()?))
    }

    /// Returns the blocks for a kernel with this layout that is to follow the kernel with these blocks. A block is kept if its
    /// size stays the same and it is not to be renewed, and all others are new.
    pub(super) fn for_layout(
        &self,
        device: &Arc<dyn Device>,
        layout: &Layout,
        renewed: impl Fn(BufferKey) -> bool,
    ) -> Result<Self, DeviceError> {
        let kept = |b: &BufferBinding| self.get(b.key).filter(|m| m.len() == b.len && !renewed(b.key));
        let block = |b: &BufferBinding| match kept(b) {
            Some(memory) => Ok((b.key, memory.clone())),
            None => Ok((b.key, device.alloc(b.kind, b.width, b.len)?)),
        };
        let mut blocks = layout.buffers.iter().map(block).collect::<Result<Vec<_>, DeviceError>>()?;
        // A later kernel may need a buffer again that this one does not have.
        blocks.extend(self.0.iter().filter(|(key, _)| layout.buffers.iter().all(|b| b.key != *key)).cloned());
        Ok(BufferMemories(blocks))
    }

    /// Allocates a block for every buffer of a layout, for a caller that owns all of them alike. Blocks that are lent are used
    /// as they are.
    pub(crate) fn allocate_around(
        device: &Arc<dyn Device>,
        layout: &Layout,
        lent: impl Fn(BufferKey) -> Option<Memory>,
    ) -> Result<Self, Error> {
        let block = |b: &BufferBinding| match lent(b.key).filter(|memory| memory.len() == b.len) {
            Some(memory) => Ok((b.key, memory)),
            None => Ok((b.key, device.alloc(b.kind, b.width, b.len)?)),
        };
        layout.buffers.iter().map(block).collect()
    }

    /// Returns the memory of one of the kernel's own buffers. If there is no such buffer, the error says that this is a
    /// defect of Pelton.
    pub(crate) fn need(&self, id: BufferId) -> Result<&Memory, Error> {
        self.get(BufferKey::Kernel(id)).ok_or(Error::Internal(id.row().names[0]))
    }

    /// Returns all words of one of the kernel's own buffers, which has 64-bit words.
    pub(super) fn download_words(&self, id: BufferId) -> Result<Vec<u64>, Error> {
        let memory = self.need(id)?;
        let mut words = vec![0u64; memory.len()];
        memory.download(0, &mut words)?;
        Ok(words)
    }

    /// Returns the memory of a buffer, if there is one.
    pub(crate) fn get(&self, wanted: BufferKey) -> Option<&Memory> {
        self.0.iter().find(|(key, _)| *key == wanted).map(|(_, memory)| memory)
    }

    /// Uses another block for a buffer that there is.
    pub(super) fn replace(&mut self, wanted: BufferKey, memory: Memory) {
        self.0.iter_mut().filter(|(key, _)| *key == wanted).for_each(|(_, block)| *block = memory.clone());
    }

    /// Iterates over all blocks, in the order of the layout.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BufferKey, &Memory)> {
        self.0.iter().map(|(key, memory)| (*key, memory))
    }
}

/// The owner of the memory that rings lie in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MemoryOwner {
    /// This process owns the memory. Blocks that the kernel reaches are allocated through the device, which may have to
    /// register them, and blocks that only the host uses come from the heap. All of them outlive the runs over them,
    /// and are freed when the session and its last producer and ticket are dropped.
    Process,
}

impl MemoryOwner {
    /// Allocates the blocks that the kernel of a layout shares with the host.
    fn shared_blocks(self, device: &Arc<dyn Device>, layout: &Layout) -> Result<BufferMemories, DeviceError> {
        match self {
            MemoryOwner::Process => BufferMemories::allocate(device, layout, |kind| kind == MemoryKind::Host),
        }
    }

    /// Allocates zeroed words that no kernel reaches.
    fn host_words(self, len: usize) -> Result<View64, Error> {
        match self {
            MemoryOwner::Process => {
                let memory = self.host_block(len)?;
                memory.view64().ok_or(Error::Internal("words of the host"))
            }
        }
    }

    /// Allocates a block of zeroed words that no kernel reaches yet.
    fn host_block(self, len: usize) -> Result<Memory, DeviceError> {
        match self {
            MemoryOwner::Process => Memory::mapped(MemoryKind::Host, WordWidth::W64, len),
        }
    }
}

/// The memory that rings lie in: far slots, records, tails, the host's control words and the kernel's answers to them,
/// the slots that tickets have given up, and the host's copies of near slots. Regions of the workspace that lie in host
/// memory belong to it too.
///
/// No run owns any of this memory, so it stays when a run ends.
#[derive(Debug)]
pub(crate) struct RingMemory {
    owner: MemoryOwner,
    /// The blocks that the kernel reaches.
    pub shared: BufferMemories,
    /// The host's copy of near slots, if the host cannot read them where they are polled.
    near_copy: Option<Memory>,
}

impl RingMemory {
    /// Allocates the memory of the rings of a layout.
    pub(crate) fn allocate(
        owner: MemoryOwner,
        device: &Arc<dyn Device>,
        layout: &Layout,
    ) -> Result<Self, DeviceError> {
        Ok(RingMemory { owner, shared: owner.shared_blocks(device, layout)?, near_copy: None })
    }

    /// Returns the words of a block with 64-bit words.
    pub(crate) fn words(&self, id: BufferId) -> Result<View64, Error> {
        self.shared.need(id)?.view64().ok_or(Error::Internal(id.row().names[0]))
    }

    /// Allocates one word per slot of a placement, in which tickets note that they have given the slot up.
    pub(crate) fn taken_words(&self, bank: &SlotBank) -> Result<View64, Error> {
        self.owner.host_words(bank.slot_count() as usize)
    }

    /// Allocates zeroed words that no kernel reaches.
    pub(crate) fn host_words(&self, len: usize) -> Result<View64, Error> {
        self.owner.host_words(len)
    }

    /// Allocates the host's copy of near slots, which lie at the device and which the host cannot read there.
    pub(crate) fn near_copy(&mut self, slots: &Memory) -> Result<View64, Error> {
        let copy = self.owner.host_block(slots.len())?;
        let words = copy.view64().ok_or(Error::Internal("words of the host"))?;
        self.near_copy = Some(copy);
        Ok(words)
    }

    /// Returns the near slots in memory that the host reaches: those of a kernel, or the host's copy of them.
    pub(super) fn near_slots<'m>(&'m self, memories: &'m BufferMemories) -> Result<&'m Memory, Error> {
        match &self.near_copy {
            Some(copy) => Ok(copy),
            None => self.shared.need(BufferId::NearSlots).or_else(|_| memories.need(BufferId::NearSlots)),
        }
    }
}

/// The memory of a session that lies at its device: near slots, claims, frontiers, counters, the log and the rest of the workspace.
///
/// This memory stays while one run on the device follows another, and is lost with the device.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    pub blocks: BufferMemories,
}

impl DeviceMemory {
    /// Allocates all buffers of a layout that are not part of the memory of its rings.
    pub(crate) fn allocate(device: &Arc<dyn Device>, layout: &Layout) -> Result<Self, DeviceError> {
        Ok(DeviceMemory {
            blocks: BufferMemories::allocate(device, layout, |kind| kind != MemoryKind::Host)?,
        })
    }
}

impl FromIterator<(BufferKey, Memory)> for BufferMemories {
    fn from_iter<I: IntoIterator<Item = (BufferKey, Memory)>>(blocks: I) -> Self {
        BufferMemories(blocks.into_iter().collect())
    }
}

/// Returns all memory that a kernel over these rings on this device is bound to.
pub(super) fn kernel_memory(rings: &RingMemory, device: &DeviceMemory) -> BufferMemories {
    BufferMemories(rings.shared.0.iter().chain(&device.blocks.0).cloned().collect())
}
