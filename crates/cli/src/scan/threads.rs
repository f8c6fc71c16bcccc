//! The threads of a scan.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::error::CliError;
use crate::scan::work::ScanWork;
use crate::scan::worker::ScanWorker;

/// The time that threads have to end when the scan is over. A thread that waits for a file may need longer, and then
/// ends with the program.
const GRACE: Duration = Duration::from_millis(250);

/// The time between two looks at threads that are to end.
const GLANCE: Duration = Duration::from_millis(5);

/// The threads of a scan. Dropping them ends the scan.
pub(super) struct WorkerThreads {
    work: Arc<ScanWork>,
    handles: Vec<JoinHandle<()>>,
}

impl WorkerThreads {
    /// Starts the threads.
    pub(super) fn start(work: &Arc<ScanWork>) -> Result<WorkerThreads, CliError> {
        let count = work.options.threads.min(work.job_count());
        let mut threads = WorkerThreads { work: Arc::clone(work), handles: Vec::with_capacity(count) };
        for number in 0..count {
            let batch = ScanWorker::make_batch(work)
                .map_err(|error| CliError::Wrong(format!("cannot start the scan: {error}")))?;
            let work = Arc::clone(work);
            let thread = Builder::new().name(format!("pelton-scan-{number}"));
            let thread = thread.spawn(move || ScanWorker::new(&work, batch).run());
            threads
                .handles
                .push(thread.map_err(|error| CliError::Wrong(format!("cannot start a thread: {error}")))?);
        }
        Ok(threads)
    }

    /// Returns whether all threads have ended.
    pub(super) fn have_ended(&self) -> bool {
        self.handles.iter().all(JoinHandle::is_finished)
    }
}

impl Drop for WorkerThreads {
    fn drop(&mut self) {
        self.work.end_early();
        let until = Instant::now() + GRACE;
        while !self.have_ended() && Instant::now() < until {
            sleep(GLANCE);
        }
        for handle in self.handles.drain(..).filter(JoinHandle::is_finished) {
            // A thread that has panicked has said so itself.
            let _ = handle.join();
        }
    }
}
