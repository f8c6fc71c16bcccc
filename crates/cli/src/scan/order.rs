//! Puts the output of several threads into the order of the inputs, in bounded memory.
//!
//! The inputs are cut into jobs, which threads take in ascending order. A thread delivers the output of its job piece by
//! piece. The first job that has not ended is the *head*: its output is taken at once, so it may always go on. The
//! output of other jobs is held, and whoever would exceed the limit waits until the head has moved. So the output of
//! all jobs together never takes more than twice the limit and one piece per thread.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A piece of the output of a job.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct OutputPiece {
    /// Bytes for standard output.
    pub out: Vec<u8>,
    /// Messages about what went wrong.
    pub problems: Vec<String>,
}

impl OutputPiece {
    /// Returns whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.problems.is_empty()
    }

    /// Returns the memory that it takes.
    fn size(&self) -> usize {
        self.out.len() + self.problems.iter().map(String::len).sum::<usize>()
    }

    fn append(&mut self, mut other: OutputPiece) {
        self.out.append(&mut other.out);
        self.problems.append(&mut other.problems);
    }
}

/// Output of jobs on its way from many threads to one.
pub(super) struct OrderedOutput {
    state: Mutex<OrderState>,
    /// Notified when output was delivered or a job has ended.
    news: Condvar,
    /// Notified when output was taken.
    room: Condvar,
    /// The largest number of bytes that are held for jobs other than the head, and for the head.
    limit: usize,
}

#[derive(Default)]
struct OrderState {
    /// The first job that has not been taken whole.
    head: usize,
    jobs: BTreeMap<usize, JobOutput>,
    /// The number of bytes that are held for jobs other than the head.
    held: usize,
    /// Whether no more output will be taken.
    closed: bool,
}

#[derive(Default)]
struct JobOutput {
    piece: OutputPiece,
    ended: bool,
}

impl OrderedOutput {
    /// Makes room for output.
    pub(super) fn new(limit: usize) -> OrderedOutput {
        OrderedOutput { state: Mutex::default(), news: Condvar::new(), room: Condvar::new(), limit }
    }

    fn lock(&self) -> MutexGuard<'_, OrderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds output of a job. Waits while there is too much output that cannot be taken yet.
    pub(super) fn deliver(&self, job: usize, piece: OutputPiece) {
        if piece.is_empty() {
            return;
        }
        let size = piece.size();
        let mut state = self.lock();
        while !state.closed && state.used(job) > 0 && state.used(job) + size > self.limit {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return;
        }
        if job != state.head {
            state.held += size;
        }
        state.jobs.entry(job).or_default().piece.append(piece);
        self.news.notify_one();
    }

    /// Declares that all output of a job was delivered.
    pub(super) fn end(&self, job: usize) {
        self.lock().jobs.entry(job).or_default().ended = true;
        self.news.notify_one();
    }

    /// Takes output of the head, and returns it with the number of jobs that were taken whole. Waits at most for the
    /// given time if there is none.
    pub(super) fn take(&self, wait: Duration) -> (OutputPiece, usize) {
        let mut state = self.lock();
        let mut piece = state.take_ready(self.limit);
        if piece.is_empty() {
            state = self.news.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
            piece = state.take_ready(self.limit);
        }
        self.room.notify_all();
        (piece, state.head)
    }

    /// Takes all that there is, whether or not the jobs before have ended, and lets no thread wait any more.
    pub(super) fn close(&self) -> OutputPiece {
        let mut state = self.lock();
        state.closed = true;
        self.room.notify_all();
        let mut all = OutputPiece::default();
        for (_, job) in std::mem::take(&mut state.jobs) {
            all.append(job.piece);
        }
        all
    }
}

impl OrderState {
    /// Returns the number of bytes that count when a job wants to deliver.
    fn used(&self, job: usize) -> usize {
        if job == self.head { self.jobs.get(&job).map_or(0, |job| job.piece.size()) } else { self.held }
    }

    /// Takes the output of the head, and of the jobs after it while all before have ended and `limit` is not exceeded.
    fn take_ready(&mut self, limit: usize) -> OutputPiece {
        let mut taken = OutputPiece::default();
        while let Some(job) = self.jobs.get_mut(&self.head) {
            taken.append(std::mem::take(&mut job.piece));
            if !job.ended {
                break;
            }
            self.jobs.remove(&self.head);
            self.head += 1;
            self.held -= self.jobs.get(&self.head).map_or(0, |job| job.piece.size());
            if taken.size() > limit {
                break;
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    fn piece(text: &str) -> OutputPiece {
        OutputPiece { out: text.into(), problems: Vec::new() }
    }

    #[test]
    fn output_comes_in_the_order_of_jobs() {
        let output = OrderedOutput::new(100);
        output.deliver(1, piece("b"));
        output.end(1);
        assert_eq!(output.take(SOON), (piece(""), 0));
        output.deliver(0, piece("a"));
        assert_eq!(output.take(SOON), (piece("a"), 0));
        output.deliver(0, piece("A"));
        output.end(0);
        assert_eq!(output.take(SOON), (piece("Ab"), 2));
    }

    #[test]
    fn much_output_is_taken_in_parts() {
        let output = OrderedOutput::new(4);
        output.deliver(1, piece("b"));
        output.end(1);
        output.deliver(0, piece("aaaaaa"));
        output.end(0);
        assert_eq!(output.take(SOON), (piece("aaaaaa"), 1));
        assert_eq!(output.take(SOON), (piece("b"), 2));
    }

    #[test]
    fn what_is_there_is_taken_at_the_end() {
        let output = OrderedOutput::new(100);
        output.deliver(2, piece("c"));
        output.deliver(1, piece("b"));
        assert_eq!(output.close(), piece("bc"));
        // Nobody waits any more.
        output.deliver(3, piece(&"d".repeat(1000)));
    }

    #[test]
    fn threads_wait_and_none_waits_for_ever() {
        let (output, next, jobs) = (OrderedOutput::new(64), AtomicUsize::new(0), 200);
        let mut all = Vec::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let job = next.fetch_add(1, Ordering::Relaxed);
                        if job >= jobs {
                            return;
                        }
                        for part in 0..job % 7 {
                            output.deliver(job, piece(&format!("{job}.{part} {}", "x".repeat(40))));
                        }
                        output.end(job);
                    }
                });
            }
            loop {
                let (piece, head) = output.take(SOON);
                assert!(output.lock().held <= 128);
                all.extend(piece.out);
                if head == jobs {
                    break;
                }
            }
        });
        let parts = (0..jobs).flat_map(|job| (0..job % 7).map(move |part| (job, part)));
        let expected: String = parts.map(|(job, part)| format!("{job}.{part} {}", "x".repeat(40))).collect();
        assert_eq!(String::from_utf8(all).expect("it is UTF-8"), expected);
    }
}
