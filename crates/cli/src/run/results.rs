//! Results as lines of JSON.

use std::io::Write;

use pelton::{Opcode, TaskError};

use super::task::Names;
use crate::error::Error;

/// The line that a task stood on, and its opcode.
#[derive(Clone, Copy)]
pub struct Mark {
    /// Counted from 1; 0 once its result is written.
    pub line: u64,
    pub op: Opcode,
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

/// Where results go, and how many there were.
pub struct Results<'n, W> {
    names: &'n Names,
    out: W,
    pub ends: Ends,
}

impl<'n, W: Write> Results<'n, W> {
    pub fn new(names: &'n Names, out: W) -> Self {
        Results { names, out, ends: Ends::default() }
    }

    /// Shows what was written so far.
    pub fn flush(&mut self) -> Result<(), Error> {
        Ok(self.out.flush()?)
    }

    /// Writes how a task ended.
    pub fn write(&mut self, mark: Mark, result: Result<u32, TaskError>) -> Result<(), Error> {
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
                    TaskError::Left => "left",
                    _ => "lost",
                };
                writeln!(out, ", \"status\": \"{status}\"}}")?;
            }
        }
        Ok(())
    }
}
