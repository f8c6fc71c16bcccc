//! The executor of a device, seen from the host: its process, and what was asked of it.
//!
//! A thread of the host reads what the executor says. When the executor has closed its socket or has ended, that thread makes
//! sure that the process ends, waits until it is *gone*, and only then says that it is. Everything that a process had on a GPU
//! ends before the system reports its end. So whoever is told that an executor is gone knows that none of its kernels can write
//! another word. While somebody waits for the executor, or a run is under way, the thread also asks it now and then to say
//! something, and kills it if it does not.

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

use rustix::event::{PollFd, PollFlags, Timespec};
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
}

/// What the thread that listens shares with those who ask.
struct Conversation {
    channel: Channel,
    process: OwnedFd,
    pid: u32,
    board: Mutex<Board>,
    changed: Condvar,
    /// How long an executor may leave a question unanswered while somebody waits for it.
    patience: Duration,
    /// The memory of the host that the executor has mapped, by the numbers of its files.
    mapped: Mutex<HashMap<Number, Weak<dyn MemoryStore>>>,
}

/// What is known of the executor.
#[derive(Default)]
struct Board {
    /// The answers to requests, which are `None` until they come.
    answers: HashMap<Number, Option<Result<Given, RemoteError>>>,
    /// How runs have ended.
    ended: HashMap<Number, Result<RemoteEnd, RemoteError>>,
    /// How many runs are under way.
    runs: usize,
    /// Why the process is gone, if it is.
    gone: Option<String>,
    /// Why the device is lost, although its process may still be there.
    lost: Option<String>,
    /// Whether the driver has reported a fault after which no kernel of the process can write another word.
    is_stopped: bool,
    /// Why the process was killed, if this host has killed it.
    killed: Option<String>,
    /// Since when a question is not answered that was asked only to get an answer, and how often that was looked at.
    silent: Option<(Instant, u32)>,
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
        let shared = start_listener(child, ours, config.patience).map_err(failed)?;
        let mut connection =
            Connection { shared, place: Mutex::new(place), wake_words, gate: None, number: next_number() };
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
        let wish = Wish::Open { version: VERSION.into(), device, losable, host: std::process::id() };
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
            board = self.shared.wait(board, None);
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
            board = self.shared.wait(board, until);
        }
    }

    /// Notes that a run is about to be launched.
    pub(super) fn expect_run(&self) {
        self.shared.lock().runs += 1;
    }

    /// Forgets how a run has ended.
    pub(super) fn forget_run(&self, run: Number) {
        self.tell(Wish::DropRun { run });
        let mut board = self.shared.lock();
        board.ended.remove(&run);
        board.runs -= 1;
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
        board.gone.is_some() || board.is_stopped
    }

    /// Returns why the executor cannot be used any more, if that is so.
    pub(super) fn why_lost(&self) -> Option<String> {
        let board = self.shared.lock();
        board.gone.clone().or_else(|| board.lost.clone())
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
        self.shared.unmap_dropped();
        // The lock is held until the answer is there, so that no other thread takes the memory for mapped before it is.
        let mut mapped = self.shared.mapped();
        if mapped.get(&file.number()).is_none_or(|store| store.strong_count() == 0) {
            let (wide, len) = (is_wide(memory.width()), memory.len());
            self.ask_with_files(Wish::Map { memory: file.number(), wide, len }, &[file.as_fd()])?;
            mapped.insert(file.number(), Arc::downgrade(memory.store()));
        }
        Ok(file.number())
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

/// Starts the thread that listens to an executor. If it cannot be started, the process is ended.
fn start_listener(child: Child, socket: UnixStream, patience: Duration) -> io::Result<Arc<Conversation>> {
    let child = Arc::new(Mutex::new(Some(child)));
    let take = |child: &Mutex<Option<Child>>| child.lock().unwrap_or_else(PoisonError::into_inner).take();
    let started = || {
        let guard = child.lock().unwrap_or_else(PoisonError::into_inner);
        let shared =
            Arc::new(Conversation::new(socket, guard.as_ref().ok_or(io::ErrorKind::NotFound)?, patience)?);
        drop(guard);
        let (listener, own) = (shared.clone(), child.clone());
        let thread = std::thread::Builder::new().name("pelton-listener".into());
        thread.spawn(move || {
            if let Some(child) = take(&own) {
                listener.listen(child);
            }
        })?;
        Ok(shared)
    };
    started().inspect_err(|_| {
        if let Some(mut child) = take(&child) {
            let _ = child.kill();
            let _ = child.wait();
        }
    })
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
        Ok(Conversation {
            channel: Channel::new(socket),
            process,
            pid,
            board: Mutex::default(),
            changed: Condvar::new(),
            patience,
            mapped: Mutex::default(),
        })
    }

    fn mapped(&self) -> MutexGuard<'_, HashMap<Number, Weak<dyn MemoryStore>>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the executor unmap memory that the host has dropped.
    fn unmap_dropped(&self) {
        // Whoever holds the lock maps memory, and does this too.
        let Ok(mut mapped) = self.mapped.try_lock() else { return };
        mapped.retain(|number, store| {
            let wish = Wish::Free { memory: *number };
            // What cannot be said now is said later.
            store.strong_count() > 0 || !self.channel.send_now(&Request { answer: None, wish })
        });
    }

    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what the executor says until it closes its socket or ends, and then waits until its process is gone.
    fn listen(&self, mut child: Child) {
        loop {
            match self.wait_for_message() {
                Ok(true) => {}
                Ok(false) => {
                    self.check_patience();
                    self.unmap_dropped();
                    continue;
                }
                Err(_) => break,
            }
            match self.channel.receive::<Reply>() {
                Ok((reply, _)) => self.note_reply(reply),
                Err(_) => break,
            }
            self.changed.notify_all();
        }
        // This ends the waiting of threads that still send.
        self.channel.close();
        self.kill();
        let ended = child.wait();
        let mut board = self.lock();
        let how = board.killed.clone().unwrap_or_else(|| describe(ended));
        let why =
            board.lost.as_ref().map_or(String::new(), |why| format!(", after it had lost its device: {why}"));
        board.gone = Some(format!("its executor (process {}) {how}{why}", self.pid));
        drop(board);
        self.changed.notify_all();
    }

    /// Waits until the executor has said something, for at most a part of the patience. Returns whether it has. The error says
    /// that its process has ended.
    fn wait_for_message(&self) -> io::Result<bool> {
        let mut ready =
            [PollFd::new(&self.channel, PollFlags::IN), PollFd::new(&self.process, PollFlags::IN)];
        let step = Timespec::try_from(self.patience / 4).ok();
        match rustix::event::poll(&mut ready, step.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(false),
            ended => ended?,
        };
        let [said, gone] = ready.map(|ready| !ready.revents().is_empty());
        // What the executor has said before it ended counts.
        if gone && !said { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(said) }
    }

    /// Notes what the executor has said.
    fn note_reply(&self, reply: Reply) {
        let mut board = self.lock();
        let (result_lost, stopped) = match &reply {
            Reply::Answer { result: Err(RemoteError::Lost(why)), .. } => (Some(why.clone()), false),
            Reply::Ended { result: Err(RemoteError::Lost(why)), stopped, .. } => {
                (Some(why.clone()), *stopped)
            }
            _ => (None, false),
        };
        if let Some(why) = result_lost {
            board.lost.get_or_insert(why);
            board.is_stopped |= stopped;
            if !board.is_stopped {
                // Kernels of the process may still run. So nobody is told that a run has ended before the process is gone.
                self.kill();
                return;
            }
        }
        match reply {
            // This is the answer to a question that was asked only to get one.
            Reply::Answer { answer: 0, .. } => board.silent = None,
            Reply::Answer { answer, result } => {
                // Nobody waits for an answer whose number is not there.
                if let Some(place) = board.answers.get_mut(&answer) {
                    *place = Some(result);
                    board.silent = None;
                }
            }
            Reply::Ended { run, result, .. } => {
                board.ended.insert(run, result);
                board.silent = None;
            }
        }
    }

    /// Asks an executor that says nothing, although somebody waits for it, to say something, and kills it if it does not: it
    /// hangs, or somebody has stopped it. A host that was stopped itself finds the answer before it looks often enough.
    fn check_patience(&self) {
        let mut board = self.lock();
        if board.runs == 0 && board.answers.is_empty() {
            board.silent = None;
            return;
        }
        match &mut board.silent {
            None => {
                board.silent = Some((Instant::now(), 0));
                drop(board);
                // If the socket is full, the executor does not read, which is no answer either.
                self.channel.send_now(&Request { answer: Some(0), wish: Wish::Ping });
            }
            Some((since, looks)) => {
                *looks += 1;
                if *looks >= 3 && since.elapsed() >= self.patience {
                    let why = format!("was killed, because it did not answer for {:?}", self.patience);
                    board.killed = Some(why);
                    self.kill();
                }
            }
        }
    }

    /// Kills the process, if it is still there. The number of the process cannot mean another one, because the descriptor
    /// stands for this one.
    fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.process, Signal::KILL);
    }

    /// Waits until something changes, or until a moment has come.
    fn wait<'b>(&self, board: MutexGuard<'b, Board>, until: Option<Instant>) -> MutexGuard<'b, Board> {
        match until {
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                self.changed.wait_timeout(board, left).unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.changed.wait(board).unwrap_or_else(PoisonError::into_inner),
        }
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
