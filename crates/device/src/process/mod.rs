//! Devices in a process of their own.
//!
//! After a hardware error, or after a kernel that Pelton has not made has accessed wrong memory, the driver of a GPU refuses
//! every further call of the process that used it, for as long as that process lives. So whoever wants to go on after that must not use the GPU in the same
//! process. A device with a name such as `process:cuda` starts another process, its *executor*, which opens the device and
//! does what it is asked to: it allocates memory, compiles, loads and launches kernels. If the executor dies, or its device is
//! lost, every run there ends with [`DeviceError::Lost`], and the next call starts another executor. The host never loads the
//! GPU's driver.
//!
//! **Which program is the executor.** A program that calls [`serve_if_asked`] at the top of its `main` is started once more
//! as its own executor. Any other program uses Pelton's command-line program `pelton`, which it looks for beside itself and on
//! the path. [`ProcessConfig::program`] names another one.
//!
//! ```no_run
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     pelton_device::process::serve_if_asked();
//!     let device = pelton_device::open("process:cuda")?;
//!     // Use it like any other device.
//! #   drop(device);
//!     Ok(())
//! }
//! ```
//!
//! **Memory.** Memory of the kind [`Host`](MemoryKind::Host) is a file in memory that both processes map, so both see every
//! word at once. It outlives the executor, and the next executor maps it again. Memory of the kind
//! [`Device`](MemoryKind::Device) lies in the executor, or on its GPU, and is reached by copies. It is lost with the executor:
//! every access to it ends with [`DeviceError::Lost`] from then on. There is no near memory.
//!
//! **A spare.** With [`ProcessConfig::warm`], or a name such as `process:warm:cuda`, a second executor has opened the
//! device, mapped the memory of the host and loaded the kernels that were compiled last. It runs nothing until it takes over,
//! and the next spare is started a second after that.
//!
//! **No two at once.** An executor is started only when the one before it is gone: the system has reported the end of its
//! process, so its kernels have ended and cannot write another word to memory that both share. The same holds if the driver
//! of a GPU has reported that the device is lost for the whole process, so a spare takes over then. An executor that does not
//! answer is not taken for gone. It is killed, and the host waits until the system says so.
//!
//! **The end of the host.** The executor ends when its host has ended or has closed the socket between them. If it is suspended
//! at that moment, it ends when it is resumed; until then, kernels on a GPU end when their lease runs out.
//!
//! **Costs.** Words that host and kernel exchange through host memory cross no socket, so far rings are as fast as in one process. A wake is
//! a fence and a load unless a group is parked, as for a device in the same process, and a message otherwise. A copy of device
//! memory takes two messages and one more copy in host memory.

mod channel;
mod connection;
mod copy_place;
mod executor;
mod kernel;
mod memory;
mod message;
mod program;
mod spare;
mod wake_words;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pelton_ir::valid::Valid;

use crate::caps::Caps;
use crate::error::DeviceError;
use crate::mapped::{Mapped, WordWidth};
use crate::memory::{Memory, MemoryKind};
use crate::{CompiledKernel, Device, Kernel};

use connection::Connection;
use message::{RemoteCaps, Wish};
use program::ExecutorProgram;
use spare::SpareKeeper;

/// The environment variable that tells a program that it is started as an executor.
const EXECUTOR_VARIABLE: &str = "PELTON_EXECUTOR";

/// Turns this process into an executor if it was started as one, and otherwise returns at once.
///
/// Call this at the top of `main`, before anything else. A program that has called it can be its own executor, so devices
/// such as `process:cpu` need no other program. In a process that was started as an executor, this function does not return.
pub fn serve_if_asked() {
    program::note_that_this_program_serves();
    if std::env::var_os(EXECUTOR_VARIABLE).is_none() {
        return;
    }
    match executor::socket_to_host() {
        Ok(socket) => executor::serve(socket),
        Err(error) => {
            eprintln!("pelton: {EXECUTOR_VARIABLE} is set, but there is no host to serve: {error}");
            std::process::exit(1);
        }
    }
}

/// How a device in a process of its own is started.
#[derive(Clone, Debug)]
pub struct ProcessConfig {
    /// The name of the device that the executor opens, for example `cuda:1`.
    pub device: String,
    /// The program to start as the executor. Without it, the program is found as the [module](self) says.
    pub program: Option<PathBuf>,
    /// For how long an executor may say nothing although somebody waits for it. After that it is killed.
    pub patience: Duration,
    /// Whether a second executor is kept ready to take over.
    pub warm: bool,
    /// Whether the device is opened in such a way that [`ProcessDevice::lose`] can lose it.
    pub losable: bool,
}

impl ProcessConfig {
    /// Describes an executor for the device of this name.
    pub fn new(device: impl Into<String>) -> Self {
        let patience = Duration::from_secs(20);
        ProcessConfig { device: device.into(), program: None, patience, warm: false, losable: false }
    }

    /// Keeps a second executor ready to take over.
    pub fn warm(mut self) -> Self {
        self.warm = true;
        self
    }

    /// Opens the device in such a way that [`ProcessDevice::lose`] can lose it.
    pub fn losable(mut self) -> Self {
        self.losable = true;
        self
    }

    /// Sets the program to start as the executor.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Sets for how long an executor may say nothing although somebody waits for it.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }
}

/// A device in a process of its own. See the [module](self).
#[derive(Debug)]
pub struct ProcessDevice {
    config: ProcessConfig,
    caps: Caps,
    /// The executor, or the last one if it is gone.
    current: Mutex<Arc<Connection>>,
    /// Keeps a second executor, if one is wanted.
    spare: Option<SpareKeeper>,
}

impl ProcessDevice {
    /// Starts an executor and lets it open its device.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Absent`] if there is no program to start or no such device, and [`DeviceError::Executor`] if the program
    /// does not become an executor.
    pub fn new(config: ProcessConfig) -> Result<Self, DeviceError> {
        if config.device == "process" || config.device.starts_with("process:") {
            let (name, why) =
                (format!("process:{}", config.device), "an executor has no executor of its own");
            return Err(DeviceError::Absent { name, why: why.into() });
        }
        let (connection, caps) = start_executor(&config)?;
        let caps = caps.caps(format!("process:{}{}", if config.warm { "warm:" } else { "" }, config.device));
        let spare_config = config.clone();
        let start = move || start_executor(&spare_config).map(|(connection, _)| connection);
        let spare = config.warm.then(|| SpareKeeper::new(Box::new(start))).transpose()?;
        Ok(ProcessDevice { config, caps, current: Mutex::new(Arc::new(connection)), spare })
    }

    /// Returns the process ID of the executor, which may have ended already.
    pub fn process_id(&self) -> u32 {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).process_id()
    }

    /// Kills the executor's process, to see what becomes of those who use its device. This returns before anybody notices.
    pub fn kill(&self) {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }

    /// Returns whether a second executor is ready to take over.
    pub fn has_spare(&self) -> bool {
        self.spare.as_ref().is_some_and(SpareKeeper::is_ready)
    }

    /// Loses the device on purpose, to see what becomes of those who use it: a GPU by a kernel that traps, for which there has
    /// to be room beside other kernels, and any other device by the end of its executor. This returns before anybody notices.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Executor`] if the device was not opened to be [lost](ProcessConfig::losable).
    pub fn lose(&self) -> Result<(), DeviceError> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !self.config.losable {
            return Err(DeviceError::Executor("the device was not opened to be lost".into()));
        }
        current.tell(Wish::Lose);
        Ok(())
    }

    /// Returns the executor. If it or its device is lost, the spare takes over, or another executor is started once the process
    /// is gone.
    fn executor(&self) -> Result<Arc<Connection>, DeviceError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if !current.is_usable() {
            // What a spare takes over from need not be gone, if nothing of it can write any more.
            let spare = self.spare.as_ref().filter(|_| current.is_harmless()).and_then(SpareKeeper::take);
            *current = match spare {
                Some(spare) => {
                    current.kill();
                    spare
                }
                None => {
                    current.end();
                    let started = start_executor(&self.config).map_err(|error| match error {
                        // The program has served before, so this is another loss.
                        DeviceError::Executor(why) => DeviceError::Lost(why),
                        error => error,
                    });
                    Arc::new(started?.0)
                }
            };
        }
        Ok(current.clone())
    }
}

/// Starts an executor and lets it open its device.
fn start_executor(config: &ProcessConfig) -> Result<(Connection, RemoteCaps), DeviceError> {
    let program = ExecutorProgram::find(config.program.as_deref(), &config.device)?;
    Connection::start(&program, config)
}

impl Device for ProcessDevice {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn alloc(&self, kind: MemoryKind, width: WordWidth, len: usize) -> Result<Memory, DeviceError> {
        match kind {
            MemoryKind::Host => {
                let memory = Memory::new(kind, width, len, Arc::new(Mapped::shared(width, len)?));
                self.adopt(&memory)
            }
            MemoryKind::Device => memory::alloc(&self.executor()?, width, len),
            MemoryKind::Near => {
                let why = self.caps.near_memory.clone().err().unwrap_or_default();
                Err(DeviceError::Near { device: self.caps.name.clone(), why })
            }
        }
    }

    fn adopt(&self, memory: &Memory) -> Result<Memory, DeviceError> {
        self.executor()?.map(memory)?;
        if let Some(spare) = &self.spare {
            spare.add_memory(memory);
        }
        Ok(memory.clone())
    }

    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError> {
        self.compile(module, kernel, lanes)?.load()
    }

    fn compile(
        &self,
        module: &Valid,
        kernel: Option<&str>,
        lanes: u32,
    ) -> Result<CompiledKernel, DeviceError> {
        let compiled = kernel::compile(self.executor()?, module, kernel, lanes)?;
        if let Some(spare) = &self.spare {
            spare.add_kernel(module, kernel, lanes);
        }
        Ok(compiled)
    }
}
