//! The executor: the process in which a device lives, seen from inside.
//!
//! One thread reads what the host wants. What may take long is done by a thread of its own, so that a run can be stopped and
//! its lease renewed while code is compiled. When the host closes the socket, which it does also by dying, the executor ends
//! at once, and all of its kernels with it.

use std::collections::HashMap;
use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pelton_ir::text;
use pelton_ir::valid::validate;

use rustix::event::{PollFd, PollFlags};
use rustix::process::PidfdFlags;

use super::channel::Channel;
use super::copy_place::CopyPlace;
use super::message::{
    Given, LaunchWish, Number, RemoteCaps, RemoteError, Reply, Request, VERSION, Wish, width_of,
};
use super::wake_words::WakeWords;
use crate::error::DeviceError;
use crate::launch::Launch;
use crate::mapped::{Mapped, WordWidth};
use crate::memory::{Memory, MemoryKind};
use crate::shared_file::SharedFile;
use crate::{CompiledKernel, Device, Kernel, Run};

/// The things of one kind, by the numbers that the host has given them.
type Numbered<T> = Mutex<HashMap<Number, T>>;

fn lock<T>(things: &Mutex<T>) -> MutexGuard<'_, T> {
    things.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The device and everything that the host has asked for.
struct Executor {
    channel: Arc<Channel>,
    device: Arc<dyn Device>,
    place: Mutex<CopyPlace>,
    wake_words: WakeWords,
    memories: Numbered<Memory>,
    codes: Numbered<Arc<CompiledKernel>>,
    kernels: Numbered<Arc<dyn Kernel>>,
    runs: Numbered<Arc<dyn Run>>,
    /// What loses the device, if it was opened for that.
    trap: Option<LoseDevice>,
}

/// Loses a device.
type LoseDevice = Box<dyn Fn() -> Result<(), DeviceError> + Send + Sync>;

/// Serves the host at the other end of a socket, and ends the process when the host has closed it.
pub(super) fn serve(socket: UnixStream) -> ! {
    let channel = Arc::new(Channel::new(socket));
    // A thread that panics would leave its question unanswered, and the host would wait for ever.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        // SAFETY: nothing has to be cleaned up.
        unsafe { libc::_exit(101) }
    }));
    // Whatever ends the conversation ends the process, without waiting for kernels that still run.
    let status = match converse(&channel) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            eprintln!("pelton: the executor ends, because its host cannot be understood: {error}");
            1
        }
        _ => 0,
    };
    // SAFETY: nothing has to be cleaned up. Handlers that run at an ordinary exit might wait for kernels that never end.
    unsafe { libc::_exit(status) }
}

/// Ends this process when its host has ended, even if somebody else still has the host's end of the socket: a process that the
/// host has forked, for example. If the host is not the parent of this process, the socket alone tells.
fn end_with_host(host: u32) {
    let Some(parent) = rustix::process::getppid().filter(|parent| parent.as_raw_pid().unsigned_abs() == host)
    else {
        return;
    };
    let Ok(parent) = rustix::process::pidfd_open(parent, PidfdFlags::empty()) else { return };
    // If the thread cannot be started, the socket alone tells.
    let _ = std::thread::Builder::new().name("pelton-host".into()).spawn(move || {
        let mut ended = [PollFd::new(&parent, PollFlags::IN)];
        while !matches!(rustix::event::poll(&mut ended, None), Ok(1..)) {}
        // SAFETY: as in `serve`.
        unsafe { libc::_exit(0) }
    });
}

/// Whether the driver of a GPU has reported a fault that has ended all kernels of this process.
fn kernels_have_stopped() -> bool {
    #[cfg(feature = "cuda")]
    let stopped = crate::cuda::kernels_have_stopped();
    #[cfg(not(feature = "cuda"))]
    let stopped = false;
    stopped
}

fn converse(channel: &Arc<Channel>) -> io::Result<()> {
    let (request, files) = channel.receive::<Request>()?;
    let answer = request.answer.unwrap_or_default();
    let executor = match open(channel, request.wish, files) {
        Ok((executor, caps)) => {
            channel.send(&Reply::Answer { answer, result: Ok(Given::Opened(caps)) }, &[])?;
            Arc::new(executor)
        }
        Err(error) => {
            channel.send(&Reply::Answer { answer, result: Err(error.into()) }, &[])?;
            // The host reads why, and closes the socket.
            return channel.receive::<Request>().map(|_| ());
        }
    };
    loop {
        let (Request { answer, wish }, files) = channel.receive::<Request>()?;
        if !wish.may_take_long() {
            executor.answer(answer, wish, files)?;
            continue;
        }
        let this = executor.clone();
        let thread = std::thread::Builder::new().name("pelton-executor".into());
        let started = thread.spawn(move || {
            if this.answer(answer, wish, files).is_err() {
                this.channel.close();
            }
        });
        if let (Err(error), Some(answer)) = (started, answer) {
            let result = Err(DeviceError::Thread(error).into());
            channel.send(&Reply::Answer { answer, result }, &[])?;
        }
    }
}

/// Opens the device that the host asks for in its first message.
fn open(
    channel: &Arc<Channel>,
    wish: Wish,
    files: Vec<OwnedFd>,
) -> Result<(Executor, RemoteCaps), DeviceError> {
    let Wish::Open { version, device, losable, host } = wish else {
        return Err(DeviceError::Executor("the first message does not name a device".into()));
    };
    if version != VERSION {
        return Err(DeviceError::Executor(format!(
            "the executor has version {VERSION}, and the program that started it has {version}"
        )));
    }
    end_with_host(host);
    let [place, words] = <[OwnedFd; 2]>::try_from(files)
        .map_err(|_| DeviceError::Executor("the first message brings other files".into()))?;
    let (device, trap) = open_device(&device, losable)?;
    let executor = Executor {
        channel: channel.clone(),
        trap,
        place: Mutex::new(CopyPlace::of_file(received(place, CopyPlace::bytes())?)?),
        wake_words: WakeWords::of_file(received(words, WakeWords::bytes())?)?,
        memories: Mutex::default(),
        codes: Mutex::default(),
        kernels: Mutex::default(),
        runs: Mutex::default(),
        device,
    };
    let caps = RemoteCaps::new(executor.device.caps(), system_memory());
    Ok((executor, caps))
}

/// Opens a device by its name. A GPU is opened without near memory, which only the host could use, and with what loses it if
/// that is wanted.
fn open_device(name: &str, losable: bool) -> Result<(Arc<dyn Device>, Option<LoseDevice>), DeviceError> {
    #[cfg(feature = "cuda")]
    {
        let (kind, number) = crate::parse_name(name)?;
        if kind == "cuda" || kind == "auto" {
            use crate::cuda::{Cuda, CudaConfig};
            let config = CudaConfig { ordinal: number.unwrap_or(0), near: false, ..CudaConfig::default() };
            match Cuda::new(config) {
                Ok(gpu) => {
                    let trap = losable.then(|| gpu.load_trap()).transpose()?;
                    let trap = trap.map(|trap| Box::new(move || trap.launch()) as LoseDevice);
                    return Ok((Arc::new(gpu), trap));
                }
                Err(_) if kind == "auto" => {}
                Err(error) => return Err(error),
            }
        }
    }
    // Any other device is lost with its process.
    let lose: LoseDevice = Box::new(|| {
        // SAFETY: nothing has to be cleaned up, and nothing is meant to be.
        unsafe { libc::_exit(1) }
    });
    Ok((crate::open(name)?, losable.then_some(lose)))
}

/// Takes a file that the host has sent.
fn received(file: OwnedFd, bytes: usize) -> Result<SharedFile, DeviceError> {
    SharedFile::received(file, bytes).map_err(|error| unusable("a file of the host", error))
}

fn unusable(what: &str, why: impl Display) -> DeviceError {
    DeviceError::Executor(format!("{what} cannot be used: {why}"))
}

/// How many bytes of memory the machine has, for devices that work in it.
fn system_memory() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}

impl Wish {
    /// Whether other messages should not wait for this one.
    fn may_take_long(&self) -> bool {
        use Wish::{Alloc, Compile, Launch, Load, Map};
        matches!(self, Alloc { .. } | Map { .. } | Compile { .. } | Load { .. } | Launch(_))
    }
}

impl Executor {
    /// Does what the host wants, and answers if it wants an answer.
    fn answer(self: &Arc<Self>, answer: Option<Number>, wish: Wish, files: Vec<OwnedFd>) -> io::Result<()> {
        let result = self.fulfil(wish, files).map_err(RemoteError::from);
        match answer {
            Some(answer) => self.channel.send(&Reply::Answer { answer, result }, &[]),
            None => Ok(()),
        }
    }

    fn fulfil(self: &Arc<Self>, wish: Wish, files: Vec<OwnedFd>) -> Result<Given, DeviceError> {
        match wish {
            Wish::Open { .. } => return Err(DeviceError::Executor("the device is open already".into())),
            Wish::Alloc { memory, wide, len } => {
                let block = self.device.alloc(MemoryKind::Device, width_of(wide), len)?;
                lock(&self.memories).insert(memory, block);
            }
            Wish::Map { memory, wide, len } => {
                let block = self.map(width_of(wide), len, files)?;
                lock(&self.memories).insert(memory, block);
            }
            Wish::Free { memory } => drop(take(&self.memories, memory)),
            Wish::Upload { memory, at, count } => self.upload(memory, at, count)?,
            Wish::Download { memory, at, count } => self.download(memory, at, count)?,
            Wish::Compile { code, module, kernel, lanes } => {
                let compiled = self.compile(&module, kernel.as_deref(), lanes)?;
                lock(&self.codes).insert(code, Arc::new(compiled));
            }
            Wish::Load { code, kernel } => {
                let loaded = find(&self.codes, code, "code")?.load()?;
                let resident = loaded.resident();
                lock(&self.kernels).insert(kernel, loaded);
                return Ok(Given::Loaded { resident });
            }
            Wish::DropCode { code } => drop(take(&self.codes, code)),
            Wish::DropKernel { kernel } => drop(take(&self.kernels, kernel)),
            Wish::Launch(wish) => self.launch(wish)?,
            Wish::Stop { run } => self.with_run(run, |run| run.stop()),
            Wish::Notify { run } => self.with_run(run, |run| run.notify()),
            Wish::Renew { run } => self.with_run(run, |run| run.renew()),
            Wish::DropRun { run } => drop(take(&self.runs, run)),
            Wish::Lose => match &self.trap {
                Some(trap) => trap()?,
                None => return Err(DeviceError::Executor("the device was not opened to be lost".into())),
            },
            Wish::Ping => {}
        }
        Ok(Given::Nothing)
    }

    /// Maps memory of the host, and makes it usable for the device.
    fn map(&self, width: WordWidth, len: usize, files: Vec<OwnedFd>) -> Result<Memory, DeviceError> {
        let [file] = <[OwnedFd; 1]>::try_from(files)
            .map_err(|_| DeviceError::Executor("memory of the host comes with one file".into()))?;
        let block = Mapped::of_file(received(file, Mapped::bytes_for(width, len)?)?, width, len)?;
        // Mapped pages stay without their file, and there may be many of them.
        let block = block.without_file();
        self.device.adopt(&Memory::new(MemoryKind::Host, width, len, Arc::new(block)))
    }

    fn upload(&self, memory: Number, at: usize, count: usize) -> Result<(), DeviceError> {
        let memory = find(&self.memories, memory, "memory")?;
        let mut place = lock(&self.place);
        match memory.width() {
            WordWidth::W32 => memory.upload(at, place.words_mut::<u32>(count)),
            WordWidth::W64 => memory.upload(at, place.words_mut::<u64>(count)),
        }
    }

    fn download(&self, memory: Number, at: usize, count: usize) -> Result<(), DeviceError> {
        let memory = find(&self.memories, memory, "memory")?;
        let mut place = lock(&self.place);
        match memory.width() {
            WordWidth::W32 => memory.download(at, place.words_mut::<u32>(count)),
            WordWidth::W64 => memory.download(at, place.words_mut::<u64>(count)),
        }
    }

    /// Compiles a kernel of a module. The host has validated the module, and it is validated again here, because only the
    /// validator makes a value that a device takes.
    fn compile(&self, module: &str, kernel: Option<&str>, lanes: u32) -> Result<CompiledKernel, DeviceError> {
        let module = text::parse(module).map_err(|_| unusable("a module", "it cannot be parsed"))?;
        let module = validate(module).map_err(|_| unusable("a module", "it is not valid"))?;
        self.device.compile(&module, kernel, lanes)
    }

    fn launch(self: &Arc<Self>, wish: LaunchWish) -> Result<(), DeviceError> {
        let kernel = find(&self.kernels, wish.kernel, "kernel")?;
        let memory = |number: Option<Number>| number.map(|n| find(&self.memories, n, "memory")).transpose();
        let buffers = wish.buffers.into_iter().map(memory).collect::<Result<_, _>>()?;
        let launch = Launch {
            buffers,
            deadline: wish.deadline,
            lease: wish.lease,
            wake_word: Some(self.wake_words.word(wish.wake_word)?),
            ..Launch::new(wish.groups)
        };
        let run: Arc<dyn Run> = Arc::from(kernel.launch(&launch)?);
        lock(&self.runs).insert(wish.run, run.clone());
        let (this, number) = (self.clone(), wish.run);
        let thread = std::thread::Builder::new().name("pelton-run".into());
        let started = thread.spawn(move || {
            let end = loop {
                match run.wait(None) {
                    Ok(Some(end)) => break Ok(end.into()),
                    Ok(None) => {}
                    Err(error) => break Err(error.into()),
                }
            };
            drop(run);
            let stopped = kernels_have_stopped();
            if this.channel.send(&Reply::Ended { run: number, result: end, stopped }, &[]).is_err() {
                this.channel.close();
            }
        });
        if let Err(error) = started {
            drop(take(&self.runs, number));
            return Err(DeviceError::Thread(error));
        }
        Ok(())
    }

    /// Does something to a run, if it is still there.
    fn with_run(&self, run: Number, act: impl FnOnce(&dyn Run)) {
        let found = lock(&self.runs).get(&run).cloned();
        if let Some(run) = found {
            act(&*run);
        }
    }
}

/// Finds a thing by its number.
fn find<T: Clone>(things: &Numbered<T>, number: Number, what: &str) -> Result<T, DeviceError> {
    let found = lock(things).get(&number).cloned();
    found.ok_or_else(|| DeviceError::Executor(format!("there is no {what} with number {number}")))
}

/// Takes a thing away, so that it is dropped when nobody holds the lock.
fn take<T>(things: &Numbered<T>, number: Number) -> Option<T> {
    lock(things).remove(&number)
}

/// The socket to the host, which is the standard input of an executor.
pub(super) fn socket_to_host() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::net::sockopt::socket_type(&socket)?;
    Ok(UnixStream::from(socket))
}
