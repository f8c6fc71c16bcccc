//! The executor of a device, seen from the host: its process, and what was asked of it.
//!
//! A thread of the host reads what the executor says. When the executor has closed its socket, that thread makes sure that
//! the process ends, waits until it is *gone*, and only then says that it is. Everything that a process had on a GPU ends
//! before the system reports its end. So whoever is told that an executor is gone knows that none of its kernels can write
//! another word.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

use super::channel::Channel;
use super::copy_place::CopyPlace;
use super::message::{
    Given, Number, RemoteCaps, RemoteEnd, RemoteError, Reply, Request, VERSION, Wish, is_wide,
};
use super::program::ExecutorProgram;
use super::wake_words::WakeWords;
use super::{EXECUTOR_VARIABLE, ProcessConfig};
use crate::error::DeviceError;
use crate::gate::Gate;
use crate::launch::LaunchEnd;
use crate::mapped::Mapped;
use crate::memory::{Memory, MemoryStore};

/// An executor, for as long as anything of it is in use. When the last reference is dropped, the socket is closed, and the
/// process ends.
pub(super) struct Connection {
    shared: Arc<Conversation>,
    /// Only one thread at a time copies through this.
    pub place: Mutex<CopyPlace>,
    pub wake_words: WakeWords,
    /// Who may load and launch, if the device loads code only between kernels.
    pub gate: Option<Arc<Gate>>,
    /// The number of this executor among all of this process.
    pub number: u64,
    /// The memory of the host that the executor has mapped, by the numbers of its files.
    mapped: Mutex<HashMap<Number, Weak<dyn MemoryStore>>>,
}

/// What the thread that listens shares with those who ask.
struct Conversation {
    channel: Channel,
    process: OwnedFd,
    pid: u32,
    board: Mutex<Board>,
    changed: Condvar,
    /// How long an executor may say nothing although it was asked something.
    patience: Duration,
}

/// What is known of the executor.
struct Board {
    /// The answers to requests, which are `None` until they come.
    answers: HashMap<Number, Option<Result<Given, RemoteError>>>,
    /// How runs have ended.
    ended: HashMap<Number, Result<RemoteEnd, RemoteError>>,
    /// Why the process is gone, if it is.
    gone: Option<String>,
    /// Why the device is lost, although its process may still be there.
    lost: Option<String>,
    /// When the executor has said something last.
    heard: Instant,
}

/// Gives every thing at any executor of this process a number of its own.
pub(super) fn next_number() -> Number {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection(process {})", self.shared.pid)
    }
}

impl Connection {
    /// Starts a program as an executor, and lets it open a device. Returns what the device can do as well.
    pub(super) fn start(
        program: &ExecutorProgram,
        config: &ProcessConfig,
    ) -> Result<(Self, RemoteCaps), DeviceError> {
        let device = &config.device;
        let (place, wake_words) = (CopyPlace::new()?, WakeWords::new()?);
        let failed = |error: io::Error| program.cannot_start(&error.to_string());
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let child = spawn(program, theirs).map_err(failed)?;
        let shared = Arc::new(Conversation::new(ours, &child, config.patience).map_err(failed)?);
        let listener = shared.clone();
        let thread = std::thread::Builder::new().name("pelton-listener".into());
        thread.spawn(move || listener.listen(child)).map_err(DeviceError::Thread)?;
        let mut connection = Connection {
            shared,
            place: Mutex::new(place),
            wake_words,
            gate: None,
            number: next_number(),
            mapped: Mutex::default(),
        };
        let caps = connection.open(config).map_err(|error| match error {
            DeviceError::Lost(why) => program.cannot_start(&why),
            DeviceError::Absent { why, .. } => DeviceError::Absent { name: format!("process:{device}"), why },
            other => other,
        })?;
        connection.gate = caps.loads_between_kernels.then(Arc::default);
        Ok((connection, caps))
    }

    /// Lets the executor open its device.
    fn open(&self, config: &ProcessConfig) -> Result<RemoteCaps, DeviceError> {
        let ProcessConfig { device, losable, .. } = config.clone();
        let wish = Wish::Open { version: VERSION.into(), device, losable };
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let files = place.file().zip(self.wake_words.file());
        let (place, words) = files.ok_or_else(|| DeviceError::Executor("nothing can be shared".into()))?;
        match self.ask_with_files(wish, &[place.as_fd(), words.as_fd()])? {
            Given::Opened(caps) => Ok(caps),
            _ => Err(unexpected()),
        }
    }

    /// Asks the executor for something, and waits for the answer.
    pub(super) fn ask(&self, wish: Wish) -> Result<Given, DeviceError> {
        self.ask_with_files(wish, &[])
    }

    fn ask_with_files(&self, wish: Wish, files: &[BorrowedFd<'_>]) -> Result<Given, DeviceError> {
        let answer = next_number();
        self.shared.lock().answers.insert(answer, None);
        // If the executor does not read any more, it ends, and the listener says so.
        let _ = self.shared.channel.send(&Request { answer: Some(answer), wish }, files);
        let mut board = self.shared.lock();
        loop {
            if board.answers.get(&answer).is_some_and(Option::is_some) {
                let result = board.answers.remove(&answer).flatten();
                return result
                    .unwrap_or(Err(RemoteError::Lost("no answer".into())))
                    .map_err(|error| error.into_error(None));
            }
            if let Some(why) = &board.gone {
                return Err(DeviceError::Lost(why.clone()));
            }
            board = self.shared.wait_patiently(board, None);
        }
    }

    /// Tells the executor something that needs no answer.
    pub(super) fn tell(&self, wish: Wish) {
        // As above.
        let _ = self.shared.channel.send(&Request { answer: None, wish }, &[]);
    }

    /// Waits for the end of a run, for at most `timeout`. Returns `None` if it is still under way.
    pub(super) fn wait_for_end(
        &self,
        run: Number,
        timeout: Option<Duration>,
    ) -> Option<Result<LaunchEnd, RemoteError>> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut board = self.shared.lock();
        loop {
            if let Some(end) = board.ended.get(&run) {
                return Some(end.clone().map(LaunchEnd::from));
            }
            if let Some(why) = &board.gone {
                return Some(Err(RemoteError::Lost(why.clone())));
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return None;
            }
            board = self.shared.wait_patiently(board, until);
        }
    }

    /// Forgets how a run has ended.
    pub(super) fn forget_run(&self, run: Number) {
        self.tell(Wish::DropRun { run });
        self.shared.lock().ended.remove(&run);
        self.unmap_dropped();
    }

    /// Returns whether the executor's device can be used, as far as is known.
    pub(super) fn is_usable(&self) -> bool {
        let board = self.shared.lock();
        board.gone.is_none() && board.lost.is_none()
    }

    /// Kills the process, and does not wait.
    pub(super) fn kill(&self) {
        self.shared.kill();
    }

    /// Returns whether no kernel of the executor can write another word: its process is gone, or the driver has reported that
    /// the device is lost for all of it.
    pub(super) fn is_harmless(&self) -> bool {
        let board = self.shared.lock();
        board.gone.is_some() || board.lost.is_some()
    }

    /// Ends the process, whatever it is doing, and waits until it is gone.
    pub(super) fn end(&self) {
        self.shared.kill();
        let mut board = self.shared.lock();
        while board.gone.is_none() {
            board = self.shared.changed.wait(board).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The number of the executor's process.
    pub(super) fn process_id(&self) -> u32 {
        self.shared.pid
    }

    /// Lets the executor map memory of the host, unless it has done so, and returns the number of that memory.
    pub(super) fn map(&self, memory: &Memory) -> Result<Number, DeviceError> {
        let foreign = || DeviceError::Memory {
            device: "a device in another process".into(),
            what: "use for memory that only this process can map".into(),
        };
        let file = memory.store().mapped().and_then(Mapped::file).ok_or_else(foreign)?;
        // The lock is held until the answer is there, so that no other thread takes the memory for mapped before it is.
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        if mapped.get(&file.number()).is_none_or(|store| store.strong_count() == 0) {
            let (wide, len) = (is_wide(memory.width()), memory.len());
            self.ask_with_files(Wish::Map { memory: file.number(), wide, len }, &[file.as_fd()])?;
            mapped.insert(file.number(), Arc::downgrade(memory.store()));
        }
        Ok(file.number())
    }

    /// Lets the executor unmap memory that the host has dropped.
    fn unmap_dropped(&self) {
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        mapped.retain(|number, store| {
            let used = store.strong_count() > 0;
            if !used {
                self.tell(Wish::Free { memory: *number });
            }
            used
        });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.channel.close();
    }
}

/// The error of an answer that does not fit the question.
pub(super) fn unexpected() -> DeviceError {
    DeviceError::Executor("the answer does not fit the question".into())
}

/// Starts the process. It gets the socket as its standard input. It is in a process group of its own, so that Ctrl-C reaches
/// only the host, which then ends in order.
fn spawn(program: &ExecutorProgram, socket: UnixStream) -> io::Result<Child> {
    Command::new(program.path())
        .arg0("pelton-executor")
        .env(EXECUTOR_VARIABLE, VERSION)
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
}

impl Conversation {
    fn new(socket: UnixStream, child: &Child, patience: Duration) -> io::Result<Self> {
        let pid = child.id();
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        let process = rustix::process::pidfd_open(raw, PidfdFlags::empty())?;
        let board = Mutex::new(Board {
            answers: HashMap::new(),
            ended: HashMap::new(),
            gone: None,
            lost: None,
            heard: Instant::now(),
        });
        Ok(Conversation {
            channel: Channel::new(socket),
            process,
            pid,
            board,
            changed: Condvar::new(),
            patience,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what the executor says until it closes its socket, and then waits until its process is gone.
    fn listen(&self, mut child: Child) {
        while let Ok((reply, _)) = self.channel.receive::<Reply>() {
            let mut board = self.lock();
            board.heard = Instant::now();
            if let Reply::Answer { result: Err(RemoteError::Lost(why)), .. }
            | Reply::Ended { result: Err(RemoteError::Lost(why)), .. } = &reply
            {
                board.lost.get_or_insert_with(|| why.clone());
            }
            match reply {
                Reply::Answer { answer, result } => {
                    // Nobody waits for an answer whose number is not there.
                    if let Some(place) = board.answers.get_mut(&answer) {
                        *place = Some(result);
                    }
                }
                Reply::Ended { run, result } => {
                    board.ended.insert(run, result);
                }
            }
            drop(board);
            self.changed.notify_all();
        }
        self.channel.close();
        self.kill();
        let ended = child.wait();
        self.lock().gone = Some(format!("its executor (process {}) {}", self.pid, describe(ended)));
        self.changed.notify_all();
    }

    /// Kills the process, if it is still there. The number of the process cannot mean another one, because the descriptor
    /// stands for this one.
    fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.process, Signal::KILL);
    }

    /// Waits until something changes, or until a while has passed. An executor that has said nothing for long is asked to say
    /// something, and killed if it does not: it hangs, or somebody has stopped it.
    fn wait_patiently<'b>(
        &self,
        board: MutexGuard<'b, Board>,
        until: Option<Instant>,
    ) -> MutexGuard<'b, Board> {
        let step = self.patience / 4;
        let left = until.map_or(step, |until| until.saturating_duration_since(Instant::now()).min(step));
        let waited = self.changed.wait_timeout(board, left);
        let (board, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() && board.gone.is_none() {
            let silent = board.heard.elapsed();
            if silent >= self.patience {
                self.kill();
            } else if silent >= step {
                // The answer has no number that anybody waits for.
                let _ = self.channel.send(&Request { answer: Some(0), wish: Wish::Ping }, &[]);
            }
        }
        board
    }
}

/// Says how a process has ended, as a clause whose subject is the process.
fn describe(ended: io::Result<ExitStatus>) -> String {
    match ended {
        Ok(status) => match (status.signal(), status.code()) {
            (Some(signal), _) => format!("was killed by signal {signal}"),
            (None, Some(code)) => format!("has ended with exit status {code}"),
            (None, None) => "has ended".into(),
        },
        Err(error) => format!("has ended, and the system does not say how: {error}"),
    }
}
