//! Tasks that were submitted, until their results are written.

use std::collections::VecDeque;
use std::io::Write;
use std::mem::take;

use pelton::{Deadline, Opcode, Span, TaskError};

use super::task::Names;
use crate::error::Error;

/// In which order results are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Order {
    /// As the tasks came
    Input,
    /// As the tasks end
    Done,
}

/// The line that a task stood on, and its opcode.
#[derive(Clone, Copy)]
pub struct Mark {
    /// Counted from 1; 0 once its result is written.
    pub line: u64,
    pub op: Opcode,
}

/// Tasks that were submitted at once.
struct Flight {
    span: Span,
    marks: Vec<Mark>,
    left: usize,
}

/// How many tasks ended how.
#[derive(Clone, Copy, Default, serde::Serialize)]
pub struct Ends {
    pub done: u64,
    pub faults: u64,
    /// Cancelled, stopped or lost.
    pub unrun: u64,
}

impl Ends {
    pub fn total(&self) -> u64 {
        self.done + self.faults + self.unrun
    }
}

/// Tasks under way, and where their results go.
pub struct Flights<'n, W> {
    names: &'n Names,
    order: Order,
    out: W,
    waiting: VecDeque<Flight>,
    /// Lists of marks to be used again.
    spare: Vec<Vec<Mark>>,
    pub ends: Ends,
}

impl<'n, W: Write> Flights<'n, W> {
    pub fn new(names: &'n Names, order: Order, out: W) -> Self {
        Flights { names, order, out, waiting: VecDeque::new(), spare: Vec::new(), ends: Ends::default() }
    }

    /// Takes tasks over, leaving an empty list of marks.
    pub fn add(&mut self, span: Span, marks: &mut Vec<Mark>) {
        let next = self.spare.pop().unwrap_or_default();
        let marks = std::mem::replace(marks, next);
        self.waiting.push_back(Flight { span, left: marks.len(), marks });
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Writes what has ended; whether there was something.
    pub fn collect(&mut self) -> Result<bool, Error> {
        let before = self.ends.total();
        match self.order {
            Order::Input => {
                while self.waiting.front_mut().is_some_and(|flight| flight.span.poll()) {
                    self.write(0)?;
                    self.remove(0);
                }
            }
            Order::Done => {
                let mut at = 0;
                while at < self.waiting.len() {
                    self.waiting[at].span.poll();
                    self.write(at)?;
                    if self.waiting[at].left == 0 { self.remove(at) } else { at += 1 }
                }
            }
        }
        Ok(self.ends.total() > before)
    }

    /// Waits for a moment, or until the oldest has ended.
    pub fn wait(&mut self) {
        if let Some(flight) = self.waiting.front_mut() {
            // Late is no news.
            let _ = flight.span.wait(Deadline::after_ms(1));
        }
    }

    /// Shows what was written so far.
    pub fn flush(&mut self) -> Result<(), Error> {
        Ok(self.out.flush()?)
    }

    fn remove(&mut self, at: usize) {
        if let Some(mut flight) = self.waiting.remove(at) {
            flight.marks.clear();
            self.spare.push(take(&mut flight.marks));
        }
    }

    /// Writes the results of a flight that are there and not written yet.
    fn write(&mut self, at: usize) -> Result<(), Error> {
        let Flight { span, marks, left } = &mut self.waiting[at];
        for (mark, result) in marks.iter_mut().zip(span.results()) {
            if mark.line == 0 || result == Err(TaskError::Late) {
                continue;
            }
            let out = &mut self.out;
            write!(out, "{{\"line\": {}, \"op\": ", mark.line)?;
            match self.names.quoted(mark.op) {
                Ok(name) => out.write_all(name.as_bytes())?,
                Err(code) => write!(out, "{code}")?,
            }
            match result {
                Ok(result) => {
                    self.ends.done += 1;
                    writeln!(out, ", \"status\": \"done\", \"result\": {result}}}")?;
                }
                Err(TaskError::Fault(fault)) => {
                    self.ends.faults += 1;
                    write!(out, ", \"status\": \"fault\", \"fault\": {{\"code\": {}, ", fault.code.code())?;
                    // A name has nothing that JSON would escape.
                    write!(out, "\"name\": \"{}\"", fault.code)?;
                    if mark.op == Opcode::PACKED_SLOT {
                        write!(out, ", \"inner\": {}", fault.inner)?;
                    }
                    out.write_all(b"}}\n")?;
                }
                Err(why) => {
                    self.ends.unrun += 1;
                    let status = match why {
                        TaskError::Cancelled => "cancelled",
                        TaskError::Stopped => "stopped",
                        _ => "lost",
                    };
                    writeln!(out, ", \"status\": \"{status}\"}}")?;
                }
            }
            mark.line = 0;
            *left -= 1;
        }
        Ok(())
    }
}
