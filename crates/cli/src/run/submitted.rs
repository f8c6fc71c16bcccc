//! Tasks under way, from submission until their results are written.

use std::collections::VecDeque;
use std::mem::take;

use pelton::{Deadline, Span, TaskError};

use super::output::ResultOutput;
use super::results::{ResultWriter, TaskMark};
use crate::error::CliError;

/// The order in which results are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum ResultOrder {
    /// Write results in the order of the input
    Input,
    /// Write results in the order in which tasks end
    Done,
}

/// Tasks that were submitted together.
struct SubmittedSpan {
    span: Span,
    marks: Vec<TaskMark>,
    left: usize,
}

/// All tasks under way, and the writer of their results.
pub(super) struct SubmittedSpans<'n, O> {
    order: ResultOrder,
    pub results: ResultWriter<'n, O>,
    waiting: VecDeque<SubmittedSpan>,
    /// Room for the longest reply.
    reply: Vec<u8>,
    /// Empty lists of marks, kept for reuse.
    spare: Vec<Vec<TaskMark>>,
}

impl<'n, O: ResultOutput> SubmittedSpans<'n, O> {
    /// Starts without tasks. `reply` is the most bytes that a reply has.
    pub(super) fn new(order: ResultOrder, results: ResultWriter<'n, O>, reply: u32) -> Self {
        let reply = vec![0; reply as usize];
        SubmittedSpans { order, results, waiting: VecDeque::new(), reply, spare: Vec::new() }
    }

    /// Adds submitted tasks, and leaves an empty list of marks to the caller.
    pub(super) fn add(&mut self, span: Span, marks: &mut Vec<TaskMark>) {
        let next = self.spare.pop().unwrap_or_default();
        let marks = std::mem::replace(marks, next);
        self.waiting.push_back(SubmittedSpan { span, left: marks.len(), marks });
    }

    /// Whether no task is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Writes the results of tasks that have ended, and returns whether there were any.
    pub(super) fn collect(&mut self) -> Result<bool, CliError> {
        let before = self.results.ends.total();
        match self.order {
            ResultOrder::Input => {
                while self.waiting.front_mut().is_some_and(|flight| flight.span.has_ended()) {
                    self.write(0)?;
                    self.remove(0);
                }
            }
            ResultOrder::Done => {
                let mut at = 0;
                while at < self.waiting.len() {
                    self.waiting[at].span.has_ended();
                    self.write(at)?;
                    if self.waiting[at].left == 0 { self.remove(at) } else { at += 1 }
                }
            }
        }
        Ok(self.results.ends.total() > before)
    }

    /// Waits for a moment, or until the oldest tasks have ended.
    pub(super) fn wait(&mut self) {
        if let Some(flight) = self.waiting.front_mut() {
            // Being late is expected here.
            let _ = flight.span.wait(Deadline::after_ms(1));
        }
    }

    /// The tasks that have not ended.
    pub(super) fn unfinished(&self) -> Vec<TaskMark> {
        let tasks = self.waiting.iter().flat_map(|flight| flight.marks.iter().zip(flight.span.results()));
        let late = tasks.filter(|(mark, result)| mark.line > 0 && *result == Err(TaskError::Late));
        late.map(|(mark, _)| *mark).collect()
    }

    /// Asks the kernel to end all tasks that have not ended.
    pub(super) fn cancel(&mut self) {
        self.waiting.iter_mut().for_each(|flight| flight.span.cancel());
    }

    fn remove(&mut self, at: usize) {
        if let Some(mut flight) = self.waiting.remove(at) {
            flight.marks.clear();
            self.spare.push(take(&mut flight.marks));
        }
    }

    /// Writes those results of one span that are there and have not been written yet.
    fn write(&mut self, at: usize) -> Result<(), CliError> {
        let SubmittedSpan { span, marks, left } = &mut self.waiting[at];
        for (at, (mark, result)) in marks.iter_mut().zip(span.results()).enumerate() {
            if mark.line > 0 && result != Err(TaskError::Late) {
                let ended = *mark;
                // The task counts as finished even if its result cannot be written.
                mark.line = 0;
                *left -= 1;
                let len = span.reply_bytes(at, &mut self.reply).map_or(0, |reply| reply.unwrap_or(0));
                self.results.write(ended, result, &self.reply[..len])?;
            }
        }
        Ok(())
    }
}
