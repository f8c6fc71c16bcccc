//! A device that is lost when a test says so, and works again afterwards, for tests of what goes on after a loss.
//!
//! Another device compiles and runs the kernels. A loss cuts every run that is under way, whatever it is doing. When the last
//! one has ended, they are reported as lost, and so is everything else that was made before: kernels, and memory of the
//! device. Memory of the host stays.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pelton_ir::valid::Valid;

use crate::caps::Caps;
use crate::error::DeviceError;
use crate::launch::{Launch, LaunchEnd};
use crate::mapped::{Mapped, WordWidth};
use crate::memory::{Line, Memory, MemoryKind, MemoryStore, WordSlice, WordSliceMut};
use crate::{Device, Kernel, Run};

/// A device that can be lost any number of times.
#[derive(Debug)]
pub struct Losable {
    inner: Arc<dyn Device>,
    caps: Caps,
    lives: Arc<Lives>,
}

/// What all that a device has made shares: which life it is in, and what belongs to that.
#[derive(Debug)]
struct Lives {
    /// What tells the memory of one device from that of another.
    number: u64,
    /// How many times the device was lost.
    life: AtomicU64,
    /// Whether the device stays lost.
    gone: AtomicBool,
    /// How many of the next launches find that the device is lost.
    lost_launches: AtomicU32,
    /// How many of the next launches find that the device is busy.
    refused_launches: AtomicU32,
    /// How many of the next loads fail.
    failed_loads: AtomicU32,
    /// One more than the number of uses after which the device is lost, or 0 if it is not.
    uses_left: AtomicU32,
    state: Mutex<LifeState>,
}

#[derive(Debug, Default)]
struct LifeState {
    /// The blocks of this life, by the numbers that stand for addresses.
    blocks: HashMap<u64, Memory>,
    next_block: u64,
    runs: Vec<Weak<CutRun>>,
    /// The blocks of all earlier lives, each with the number of its life.
    remains: Vec<(u64, Memory)>,
}

impl Lives {
    fn lock(&self) -> MutexGuard<'_, LifeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of this life, or an error if the device is gone.
    fn check(&self) -> Result<u64, DeviceError> {
        match self.gone.load(Ordering::SeqCst) {
            true => Err(lost()),
            false => Ok(self.life.load(Ordering::SeqCst)),
        }
    }

    /// Ends this life.
    fn lose(&self) {
        let mut state = self.lock();
        // What is made from here on belongs to the next life.
        let life = self.life.fetch_add(1, Ordering::SeqCst);
        let blocks: Vec<_> = state.blocks.drain().map(|(_, memory)| (life, memory)).collect();
        state.remains.extend(blocks);
        let runs = std::mem::take(&mut state.runs);
        drop(state);
        let runs: Vec<_> = runs.iter().filter_map(Weak::upgrade).collect();
        runs.iter().for_each(|run| run.0.stop());
        // Whoever waits for one of these runs is told of the loss only when it has ended.
        runs.iter().for_each(|run| drop(run.0.wait(None)));
    }

    /// Counts a use of the device, and loses it if it was the last one. The caller holds no lock.
    fn note_use(&self) {
        if count_down(&self.uses_left) == Some(1) {
            self.lose();
        }
    }

    /// Fails if a life is over.
    fn check_life(&self, life: u64) -> Result<(), DeviceError> {
        if self.check()? == life { Ok(()) } else { Err(lost()) }
    }
}

/// Takes one off a number that is not zero, and returns what it was.
fn count_down(counter: &AtomicU32) -> Option<u32> {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1)).ok()
}

fn lost() -> DeviceError {
    DeviceError::Lost("a test has lost it".into())
}

impl Losable {
    /// Makes a device that runs its kernels on `inner`.
    pub fn new(inner: Arc<dyn Device>) -> Self {
        let caps = Caps { name: format!("losable {}", inner.caps().name), ..inner.caps().clone() };
        Losable::with_caps(inner, caps)
    }

    /// Makes a device that runs its kernels on `inner`, and says of itself what `caps` says.
    pub fn with_caps(inner: Arc<dyn Device>, caps: Caps) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1 << 32);
        let lives = Arc::new(Lives {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            life: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            lost_launches: AtomicU32::new(0),
            refused_launches: AtomicU32::new(0),
            failed_loads: AtomicU32::new(0),
            uses_left: AtomicU32::new(0),
            state: Mutex::default(),
        });
        Losable { inner, caps, lives }
    }

    /// Loses the device. When this returns, nothing runs on it, and it can be used again.
    pub fn lose(&self) {
        self.lives.lose();
    }

    /// Loses the device as soon as it was used so many times more. Each allocation, load, launch and copy is a use, and so
    /// is each look whether a run has ended.
    pub fn lose_after_uses(&self, uses: u32) {
        self.lives.uses_left.store(uses + 1, Ordering::SeqCst);
    }

    /// Loses the device for good.
    pub fn lose_for_good(&self) {
        self.lives.gone.store(true, Ordering::SeqCst);
        self.lose();
    }

    /// Lets so many of the next launches find that the device is lost.
    pub fn lose_launches(&self, count: u32) {
        self.lives.lost_launches.store(count, Ordering::SeqCst);
    }

    /// Lets so many of the next loads fail.
    pub fn fail_loads(&self, count: u32) {
        self.lives.failed_loads.store(count, Ordering::SeqCst);
    }

    /// Lets so many of the next launches find that the device is busy.
    pub fn refuse_launches(&self, count: u32) {
        self.lives.refused_launches.store(count, Ordering::SeqCst);
    }

    /// Returns how many times the device was lost.
    pub fn losses(&self) -> u64 {
        self.lives.life.load(Ordering::SeqCst)
    }

    /// Returns the memory of the device from before each loss, as the kernels have left it, with the number of losses until
    /// then.
    pub fn remains(&self) -> Vec<(u64, Memory)> {
        self.lives.lock().remains.clone()
    }
}

impl Device for Losable {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn alloc(&self, kind: MemoryKind, width: WordWidth, len: usize) -> Result<Memory, DeviceError> {
        self.lives.note_use();
        let memory = self.inner.alloc(kind, width, len)?;
        if kind == MemoryKind::Host {
            self.lives.check()?;
            return Ok(memory);
        }
        let mut state = self.lives.lock();
        let (life, block) = (self.lives.check()?, state.next_block);
        state.next_block += 1;
        state.blocks.insert(block, memory.clone());
        let store = LosableStore { memory, life, block, lives: self.lives.clone() };
        Ok(Memory::new(kind, width, len, Arc::new(store)))
    }

    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError> {
        self.lives.note_use();
        let life = self.lives.check()?;
        if count_down(&self.lives.failed_loads).is_some() {
            return Err(DeviceError::Codegen("a test says so".into()));
        }
        let inner = self.inner.load(module, kernel, lanes)?;
        Ok(Arc::new(LosableKernel { inner, life, lives: self.lives.clone() }))
    }
}

/// Memory of the device in one of its lives. The host cannot map it.
#[derive(Debug)]
struct LosableStore {
    memory: Memory,
    life: u64,
    block: u64,
    lives: Arc<Lives>,
}

impl MemoryStore for LosableStore {
    fn mapped(&self) -> Option<&Mapped> {
        None
    }

    fn address(&self, device: u64) -> Option<u64> {
        (device == self.lives.number).then_some(self.block)
    }

    fn upload(&self, at: usize, words: WordSlice<'_>) -> Result<(), DeviceError> {
        self.lives.note_use();
        self.lives.check_life(self.life)?;
        self.memory.store().upload(at, words)
    }

    fn download(&self, at: usize, words: WordSliceMut<'_>) -> Result<(), DeviceError> {
        self.lives.note_use();
        self.lives.check_life(self.life)?;
        self.memory.store().download(at, words)
    }

    fn put(&self, at: usize, lines: &[Line]) -> Result<(), DeviceError> {
        self.lives.note_use();
        self.lives.check_life(self.life)?;
        self.memory.store().put(at, lines)
    }

    fn flush(&self) {
        self.memory.store().flush();
    }
}

impl Drop for LosableStore {
    fn drop(&mut self) {
        self.lives.lock().blocks.remove(&self.block);
    }
}

#[derive(Debug)]
struct LosableKernel {
    inner: Arc<dyn Kernel>,
    life: u64,
    lives: Arc<Lives>,
}

impl Kernel for LosableKernel {
    fn resident(&self) -> u32 {
        self.inner.resident()
    }

    fn launch(&self, launch: &Launch) -> Result<Box<dyn Run>, DeviceError> {
        let mut launch = launch.clone();
        self.lives.note_use();
        // A loss waits until the run is among those that it cuts.
        let mut state = self.lives.lock();
        self.lives.check_life(self.life)?;
        if count_down(&self.lives.lost_launches).is_some() {
            return Err(lost());
        }
        if count_down(&self.lives.refused_launches).is_some() {
            return Err(DeviceError::Busy { what: "a test says so".into() });
        }
        for memory in launch.buffers.iter_mut().flatten() {
            if let Some(block) = memory.store().address(self.lives.number) {
                *memory = state.blocks.get(&block).ok_or_else(lost)?.clone();
            }
        }
        let inner = Arc::new(CutRun(self.inner.launch(&launch)?));
        state.runs.retain(|run| run.strong_count() > 0);
        state.runs.push(Arc::downgrade(&inner));
        Ok(Box::new(LosableRun { inner, life: self.life, lives: self.lives.clone() }))
    }
}

/// A run of the inner device, which a loss cuts.
#[derive(Debug)]
struct CutRun(Box<dyn Run>);

#[derive(Debug)]
struct LosableRun {
    inner: Arc<CutRun>,
    life: u64,
    lives: Arc<Lives>,
}

impl Run for LosableRun {
    fn stop(&self) {
        self.inner.0.stop();
    }

    fn wake(&self) {
        self.inner.0.wake();
    }

    fn renew(&self) {
        self.inner.0.renew();
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<Option<LaunchEnd>, DeviceError> {
        self.lives.note_use();
        // The run was perhaps cut, and then its own end says nothing. This is looked at after the end.
        match self.inner.0.wait(timeout) {
            Ok(None) => Ok(None),
            ended => self.lives.check_life(self.life).and(ended),
        }
    }
}
