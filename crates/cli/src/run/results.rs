//! Writes results as lines of JSON.

use std::io::Write;

use pelton::{Opcode, TaskError};

use super::task::TaskNames;
use crate::error::CliError;

/// The line that a task stood on, and its opcode.
#[derive(Clone, Copy)]
pub struct TaskMark {
    /// Counted from 1; 0 once its result is written.
    pub line: u64,
    pub op: Opcode,
}

/// How many tasks ended how.
#[derive(Clone, Copy, Default, serde::Serialize)]
pub struct EndCounts {
    pub done: u64,
    pub faults: u64,
    /// Cancelled, stopped or lost.
    pub unrun: u64,
}

impl EndCounts {
    pub fn total(&self) -> u64 {
        self.done + self.faults + self.unrun
    }
}

/// Where results go, and how many there were.
pub struct ResultWriter<'n, W> {
    names: &'n TaskNames,
    out: W,
    /// Whether writing has failed. From then on results are only counted.
    broken: bool,
    pub ends: EndCounts,
}

impl<'n, W: Write> ResultWriter<'n, W> {
    pub fn new(names: &'n TaskNames, out: W) -> Self {
        ResultWriter { names, out, broken: false, ends: EndCounts::default() }
    }

    /// Shows what was written so far.
    pub fn flush(&mut self) -> Result<(), CliError> {
        self.attempt(|results| Ok(results.out.flush()?))
    }

    /// Counts how a task ended, and writes it.
    pub fn write(&mut self, mark: TaskMark, result: Result<u32, TaskError>) -> Result<(), CliError> {
        match result {
            Ok(_) => self.ends.done += 1,
            Err(TaskError::Fault(_)) => self.ends.faults += 1,
            Err(_) => self.ends.unrun += 1,
        }
        self.attempt(|results| results.line(mark, result))
    }

    /// Writes something unless that has failed before. So a failure is reported once, and what has begun can end.
    fn attempt(&mut self, write: impl FnOnce(&mut Self) -> Result<(), CliError>) -> Result<(), CliError> {
        if self.broken {
            return Ok(());
        }
        let written = write(self);
        self.broken = written.is_err();
        written
    }

    fn line(&mut self, mark: TaskMark, result: Result<u32, TaskError>) -> Result<(), CliError> {
        let out = &mut self.out;
        write!(out, "{{\"line\": {}, \"op\": ", mark.line)?;
        match self.names.quoted(mark.op) {
            Ok(name) => out.write_all(name.as_bytes())?,
            Err(code) => write!(out, "{code}")?,
        }
        match result {
            Ok(result) => {
                writeln!(out, ", \"status\": \"done\", \"result\": {result}}}")?;
            }
            Err(TaskError::Fault(fault)) => {
                write!(out, ", \"status\": \"fault\", \"fault\": {{\"code\": {}, ", fault.code.code())?;
                // A name has nothing that JSON would escape.
                write!(out, "\"name\": \"{}\"", fault.code)?;
                if mark.op == Opcode::PACKED_SLOT {
                    write!(out, ", \"inner\": {}", fault.inner)?;
                }
                out.write_all(b"}}\n")?;
            }
            Err(why) => {
                let status = match why {
                    TaskError::Cancelled => "cancelled",
                    TaskError::Stopped => "stopped",
                    TaskError::Left => "left",
                    _ => "lost",
                };
                writeln!(out, ", \"status\": \"{status}\"}}")?;
            }
        }
        Ok(())
    }
}
