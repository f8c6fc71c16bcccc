//! A device with memory of its own that the host cannot map, and which has to do something to reach the host's: like a GPU,
//! but the interpreter runs its kernels.

use std::sync::{Arc, Mutex};

use pelton::device::mapped::Mapped;
use pelton::device::memory::{Line, MemoryStore, WordSlice, WordSliceMut};
use pelton::device::{Caps, Device, DeviceError, Kernel, Launch, Memory, MemoryKind, Run, WordWidth, open};
use pelton::ir::valid::Valid;

/// All memory of a device, by the numbers that stand for addresses.
type Blocks = Arc<Mutex<Vec<Memory>>>;

#[derive(Debug)]
struct IslandDevice {
    inner: Arc<dyn Device>,
    caps: Caps,
    blocks: Blocks,
}

/// Opens a new device of this kind.
pub(crate) fn open_island() -> Arc<dyn Device> {
    let inner = open("reference").unwrap();
    let caps = Caps {
        name: "island".into(),
        lanes: 32,
        groups: 4,
        memory_bytes: Some(1 << 34),
        ..inner.caps().clone()
    };
    Arc::new(IslandDevice { inner, caps, blocks: Blocks::default() })
}

/// The number of the device that asks for addresses.
const ISLAND: u64 = u64::MAX;

/// Memory that only the device reaches, or memory of the host that the device has made reachable for itself.
#[derive(Debug)]
struct IslandStore {
    memory: Memory,
    number: u64,
    is_mapped: bool,
}

impl MemoryStore for IslandStore {
    fn mapped(&self) -> Option<&Mapped> {
        self.memory.store().mapped().filter(|_| self.is_mapped)
    }

    fn address(&self, device: u64) -> Option<u64> {
        (device == ISLAND).then_some(self.number)
    }

    fn upload(&self, at: usize, words: WordSlice<'_>) -> Result<(), DeviceError> {
        self.memory.store().upload(at, words)
    }

    fn download(&self, at: usize, words: WordSliceMut<'_>) -> Result<(), DeviceError> {
        self.memory.store().download(at, words)
    }

    fn put(&self, at: usize, lines: &[Line]) -> Result<(), DeviceError> {
        self.memory.store().put(at, lines)
    }

    fn flush(&self) {
        self.memory.store().flush();
    }
}

impl IslandDevice {
    /// Numbers a block, and hides it from the host unless it is mapped.
    fn number(&self, memory: Memory, is_mapped: bool) -> Memory {
        let mut blocks = self.blocks.lock().unwrap();
        let (number, kind) = (blocks.len() as u64, memory.kind());
        blocks.push(memory.clone());
        let (width, len) = (memory.width(), memory.len());
        Memory::new(kind, width, len, Arc::new(IslandStore { memory, number, is_mapped }))
    }
}

impl Device for IslandDevice {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn alloc(&self, kind: MemoryKind, width: WordWidth, len: usize) -> Result<Memory, DeviceError> {
        Ok(self.number(self.inner.alloc(kind, width, len)?, kind == MemoryKind::Host))
    }

    fn adopt(&self, memory: &Memory) -> Result<Memory, DeviceError> {
        assert!(memory.store().mapped().is_some(), "a session lets devices adopt only what the host reaches");
        Ok(self.number(memory.clone(), true))
    }

    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError> {
        Ok(Arc::new(IslandKernel(self.inner.load(module, kernel, lanes)?, self.blocks.clone())))
    }
}

#[derive(Debug)]
struct IslandKernel(Arc<dyn Kernel>, Blocks);

impl Kernel for IslandKernel {
    fn resident(&self) -> u32 {
        self.0.resident()
    }

    /// Memory that this device has neither allocated nor adopted is refused.
    fn launch(&self, launch: &Launch) -> Result<Box<dyn Run>, DeviceError> {
        let mut launch = launch.clone();
        let blocks = self.1.lock().unwrap();
        for memory in launch.buffers.iter_mut().flatten() {
            let foreign =
                || DeviceError::Memory { device: "island".into(), what: "use for foreign memory".into() };
            let number = memory.store().address(ISLAND).ok_or_else(foreign)?;
            *memory = blocks.get(number as usize).ok_or_else(foreign)?.clone();
        }
        drop(blocks);
        self.0.launch(&launch)
    }
}
