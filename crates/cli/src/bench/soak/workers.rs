//! Threads that load a session, and how they end together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::GLANCE;
use crate::error::CliError;
use crate::stop;

/// How far all threads have come together.
#[derive(Debug, Default)]
pub(super) struct SoakProgress {
    /// How much is done, in whatever the load counts.
    done: AtomicU64,
    /// Whether to end early.
    quit: AtomicBool,
}

impl SoakProgress {
    /// Adds to what is done.
    pub(super) fn add(&self, count: u64) {
        self.done.fetch_add(count, Ordering::Relaxed);
    }

    /// Sets how much is done.
    pub(super) fn set(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }

    /// How much is done.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Whether nobody has asked to end early.
    pub(super) fn goes_on(&self) -> bool {
        !self.quit.load(Ordering::Relaxed) && !stop::pressed()
    }

    /// Lets all threads end early.
    pub(super) fn quit(&self) {
        self.quit.store(true, Ordering::Relaxed);
    }
}

/// Runs threads, numbered from 0, and calls `glance` again and again until all have ended. Returns what they return. If
/// one of them or `glance` fails, all others end early.
pub(super) fn run_workers<T: Send>(
    count: u32,
    progress: &SoakProgress,
    work: impl Fn(u32) -> Result<T, CliError> + Sync,
    mut glance: impl FnMut() -> Result<(), CliError>,
) -> Result<Vec<T>, CliError> {
    let work = |worker: u32| {
        let ended = work(worker);
        if ended.is_err() {
            progress.quit();
        }
        ended
    };
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count).map(|worker| scope.spawn(move || work(worker))).collect();
        let mut looked = Ok(());
        while threads.iter().any(|thread| !thread.is_finished()) {
            thread::sleep(GLANCE);
            if looked.is_ok() {
                looked = glance().inspect_err(|_| progress.quit());
            }
        }
        let ended = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(CliError::Wrong("a thread of the load panicked".into())))
        };
        let all = threads.into_iter().map(ended).collect::<Result<Vec<T>, CliError>>()?;
        looked.map(|()| all)
    })
}
