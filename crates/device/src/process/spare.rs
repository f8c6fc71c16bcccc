//! A second executor that is ready to take over.
//!
//! Starting a process, opening a GPU in it, registering memory and loading code take a few hundred milliseconds. A *spare* has
//! done all of that beforehand: a thread of the host keeps one executor more than is needed, and lets it map the same memory of
//! the host and load the same code as the one in use. The spare runs nothing until it takes over.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use pelton_ir::valid::Valid;

use super::connection::Connection;
use super::kernel;
use crate::Kernel;
use crate::error::DeviceError;
use crate::mapped::WordWidth;
use crate::memory::{Memory, MemoryKind, MemoryStore};

/// How many kernels a spare has ready: those that were compiled last.
const KERNELS: usize = 4;

/// How long after a spare has taken over the next one is started, so that it does not compete with work that goes on.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts an executor.
pub(super) type StartExecutor = dyn Fn() -> Result<Connection, DeviceError> + Send + Sync;

/// Keeps a spare, for as long as it lives.
pub(super) struct SpareKeeper {
    shared: Arc<SpareShared>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for SpareKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SpareKeeper")
    }
}

struct SpareShared {
    board: Mutex<SpareBoard>,
    changed: Condvar,
    start: Box<StartExecutor>,
}

#[derive(Default)]
struct SpareBoard {
    spare: Option<Arc<Connection>>,
    /// Whether the next spare is to be started only after a pause.
    pauses: bool,
    memories: Vec<KnownMemory>,
    kernels: Vec<KnownKernel>,
    /// What is known and the spare does not have yet.
    news: Vec<News>,
    /// The kernels that the spare has loaded. They are kept for a while after it has taken over, so that they need not be
    /// compiled again.
    loaded: Vec<Arc<dyn Kernel>>,
    closing: bool,
}

impl SpareBoard {
    /// Notes something that the spare does not have yet. The next spare gets everything that is known anyway.
    fn add_news(&mut self, news: News) {
        if self.spare.is_some() {
            self.news.push(news);
        }
    }
}

/// Memory of the host that is in use.
#[derive(Clone)]
struct KnownMemory {
    store: Weak<dyn MemoryStore>,
    width: WordWidth,
    len: usize,
}

/// A kernel that was compiled.
#[derive(Clone)]
struct KnownKernel {
    module: Valid,
    kernel: Option<String>,
    lanes: u32,
}

/// Something that a spare should have.
#[derive(Clone)]
enum News {
    Memory(KnownMemory),
    Kernel(KnownKernel),
}

impl SpareKeeper {
    /// Starts the thread, which starts the first spare.
    pub(super) fn new(start: Box<StartExecutor>) -> Result<Self, DeviceError> {
        let shared = Arc::new(SpareShared { board: Mutex::default(), changed: Condvar::new(), start });
        let keeper = shared.clone();
        let thread = std::thread::Builder::new().name("pelton-spare".into());
        let thread = thread.spawn(move || keeper.run()).map_err(DeviceError::Thread)?;
        Ok(SpareKeeper { shared, thread: Some(thread) })
    }

    /// Lets the spare map memory of the host too.
    pub(super) fn add_memory(&self, memory: &Memory) {
        let known =
            KnownMemory { store: Arc::downgrade(memory.store()), width: memory.width(), len: memory.len() };
        let mut board = self.shared.lock();
        board.memories.retain(|known| known.store.strong_count() > 0);
        board.memories.push(known.clone());
        board.add_news(News::Memory(known));
        self.shared.changed.notify_all();
    }

    /// Lets the spare compile and load a kernel too.
    pub(super) fn add_kernel(&self, module: &Valid, kernel: Option<&str>, lanes: u32) {
        let known = KnownKernel { module: module.clone(), kernel: kernel.map(String::from), lanes };
        let mut board = self.shared.lock();
        if board.kernels.len() == KERNELS {
            board.kernels.remove(0);
        }
        board.kernels.push(known.clone());
        board.add_news(News::Kernel(known));
        self.shared.changed.notify_all();
    }

    /// Takes the spare, if there is one. The next one is started after a pause.
    pub(super) fn take(&self) -> Option<Arc<Connection>> {
        let mut board = self.shared.lock();
        board.pauses = true;
        let spare = board.spare.take().filter(|spare| spare.is_usable());
        self.shared.changed.notify_all();
        spare
    }

    /// Returns whether a spare is there and has everything that it should have.
    pub(super) fn is_ready(&self) -> bool {
        let board = self.shared.lock();
        board.news.is_empty() && board.spare.as_ref().is_some_and(|spare| spare.is_usable())
    }
}

impl Drop for SpareKeeper {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl SpareShared {
    fn lock(&self) -> MutexGuard<'_, SpareBoard> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'b>(&self, board: MutexGuard<'b, SpareBoard>) -> MutexGuard<'b, SpareBoard> {
        self.changed.wait_timeout(board, PAUSE).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Keeps a spare until the keeper is dropped.
    fn run(&self) {
        while self.pause() {
            // If no executor can be started now, the device works without a spare, and this is tried again after a pause.
            if let Ok(started) = (self.start)() {
                self.keep(Arc::new(started));
            } else {
                self.lock().pauses = true;
            }
        }
    }

    /// Waits before the next spare is started, if it should not be started at once. Returns false if there is to be none.
    fn pause(&self) -> bool {
        let mut board = self.lock();
        if board.pauses && !board.closing {
            let closing = |board: &mut SpareBoard| !board.closing;
            let waited = self.changed.wait_timeout_while(board, PAUSE, closing);
            board = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        board.pauses = false;
        !board.closing
    }

    /// Gives a spare everything that it should have, until it is taken or the keeper is dropped.
    fn keep(&self, spare: Arc<Connection>) {
        let mut board = self.lock();
        let memories = board.memories.iter().cloned().map(News::Memory);
        board.news = memories.chain(board.kernels.iter().cloned().map(News::Kernel)).collect();
        board.spare = Some(spare.clone());
        board.loaded.clear();
        while !board.closing && board.spare.is_some() {
            if !spare.is_usable() {
                // Another one is started in its place.
                board.spare = None;
                board.pauses = true;
                break;
            }
            let Some(next) = board.news.first().cloned() else {
                board = self.wait(board);
                continue;
            };
            drop(board);
            // A spare that cannot do this now may have to do it when it takes over, and whoever needs it is told why not.
            let loaded = next.give_to(&spare);
            board = self.lock();
            board.loaded.extend(loaded.ok().flatten());
            let excess = board.loaded.len().saturating_sub(KERNELS);
            board.loaded.drain(..excess);
            if !board.news.is_empty() {
                board.news.remove(0);
            }
        }
        board.news.clear();
        if board.closing {
            (board.spare, board.loaded) = (None, Vec::new());
        }
    }
}

impl News {
    /// Lets a spare have this. Returns the kernel, if it is one.
    fn give_to(&self, spare: &Arc<Connection>) -> Result<Option<Arc<dyn Kernel>>, DeviceError> {
        match self {
            News::Memory(KnownMemory { store, width, len }) => {
                if let Some(store) = store.upgrade() {
                    spare.map(&Memory::new(MemoryKind::Host, *width, *len, store))?;
                }
                Ok(None)
            }
            News::Kernel(KnownKernel { module, kernel, lanes }) => {
                let compiled = kernel::compile(spare.clone(), module, kernel.as_deref(), *lanes)?;
                compiled.load().map(Some)
            }
        }
    }
}
