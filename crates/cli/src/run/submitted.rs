//! Tasks that were submitted, until their results are written.

use std::collections::VecDeque;
use std::io::Write;
use std::mem::take;

use pelton::{Deadline, Span, TaskError};

use super::results::{ResultWriter, TaskMark};
use crate::error::CliError;

/// In which order results are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum ResultOrder {
    /// As the tasks came
    Input,
    /// As the tasks end
    Done,
}

/// Tasks that were submitted at once.
struct SubmittedSpan {
    span: Span,
    marks: Vec<TaskMark>,
    left: usize,
}

/// Tasks under way, and where their results go.
pub struct SubmittedSpans<'n, W> {
    order: ResultOrder,
    pub results: ResultWriter<'n, W>,
    waiting: VecDeque<SubmittedSpan>,
    /// Lists of marks to be used again.
    spare: Vec<Vec<TaskMark>>,
}

impl<'n, W: Write> SubmittedSpans<'n, W> {
    pub fn new(order: ResultOrder, results: ResultWriter<'n, W>) -> Self {
        SubmittedSpans { order, results, waiting: VecDeque::new(), spare: Vec::new() }
    }

    /// Takes tasks over, leaving an empty list of marks.
    pub fn add(&mut self, span: Span, marks: &mut Vec<TaskMark>) {
        let next = self.spare.pop().unwrap_or_default();
        let marks = std::mem::replace(marks, next);
        self.waiting.push_back(SubmittedSpan { span, left: marks.len(), marks });
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Writes what has ended; whether there was something.
    pub fn collect(&mut self) -> Result<bool, CliError> {
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

    /// Waits for a moment, or until the oldest has ended.
    pub fn wait(&mut self) {
        if let Some(flight) = self.waiting.front_mut() {
            // Late is no news.
            let _ = flight.span.wait(Deadline::after_ms(1));
        }
    }

    fn remove(&mut self, at: usize) {
        if let Some(mut flight) = self.waiting.remove(at) {
            flight.marks.clear();
            self.spare.push(take(&mut flight.marks));
        }
    }

    /// Writes the results of a flight that are there and not written yet.
    fn write(&mut self, at: usize) -> Result<(), CliError> {
        let SubmittedSpan { span, marks, left } = &mut self.waiting[at];
        for (mark, result) in marks.iter_mut().zip(span.results()) {
            if mark.line > 0 && result != Err(TaskError::Late) {
                let ended = *mark;
                // It is dealt with even if it cannot be written.
                mark.line = 0;
                *left -= 1;
                self.results.write(ended, result)?;
            }
        }
        Ok(())
    }
}
