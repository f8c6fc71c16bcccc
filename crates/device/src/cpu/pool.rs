//! The threads that run groups, which are kept between launches.
//!
//! Every job gets a thread at once, an idle one or a new one, so jobs may wait for each other. Dropping the pool waits for
//! its threads, so it must not be dropped on one of them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use crate::error::DeviceError;

type PoolJob = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct PoolState {
    jobs: VecDeque<PoolJob>,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    closed: bool,
}

#[derive(Default)]
struct PoolShared {
    state: Mutex<PoolState>,
    handed: Condvar,
}

/// The threads of a CPU device.
#[derive(Default)]
pub(super) struct ThreadPool(Arc<PoolShared>);

impl std::fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ThreadPool({} threads)", self.0.lock().threads.len())
    }
}

impl ThreadPool {
    /// Runs a job on a thread of its own.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), DeviceError> {
        let mut state = self.0.lock();
        if state.idle <= state.jobs.len() {
            let shared = self.0.clone();
            let thread = std::thread::Builder::new().name("pelton-cpu".into()).spawn(move || shared.work());
            state.threads.push(thread.map_err(DeviceError::Thread)?);
            state.idle += 1;
        }
        state.jobs.push_back(Box::new(job));
        drop(state);
        self.0.handed.notify_one();
        Ok(())
    }
}

impl PoolShared {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.idle -= 1;
                drop(state);
                job();
                state = self.lock();
                state.idle += 1;
            } else if state.closed {
                return;
            } else {
                state = self.handed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.0.handed.notify_all();
        for thread in threads {
            let _ = thread.join();
        }
    }
}
