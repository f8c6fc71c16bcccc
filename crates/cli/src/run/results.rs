//! Writes results as lines of JSON.

use std::io::{self, Write};

use pelton::kernel::TenantId;
use pelton::{EventCondition, Opcode, TaskError};
use serde_json::json;

use super::output::ResultOutput;
use super::payload::{ByteForm, write_reply};
use super::task::TaskNames;
use crate::error::CliError;
use crate::recording::TaskEnd;

/// The line of a task, and what it asked for.
#[derive(Clone, Copy)]
pub(super) struct TaskMark {
    /// The number of the line, from 1; 0 once the result is written.
    pub line: u64,
    pub op: Opcode,
    /// The tenant that the task belongs to.
    pub tenant: TenantId,
    /// The graph that the task launches, by its number in the spec.
    pub graph: Option<usize>,
    /// What the task waits for before it begins.
    pub after: Option<EventCondition>,
    /// The form in which its reply is written.
    pub reply_form: ByteForm,
}

/// The number of tasks by how they ended.
#[derive(Clone, Copy, Default, serde::Serialize)]
pub(super) struct EndCounts {
    pub done: u64,
    pub faults: u64,
    /// The number of tasks that were cancelled, stopped or lost.
    pub unrun: u64,
    /// How many of these were lost.
    #[serde(skip)]
    pub lost: u64,
}

impl EndCounts {
    pub(super) fn total(&self) -> u64 {
        self.done + self.faults + self.unrun
    }

    /// Counts a task that has ended.
    pub(super) fn add(&mut self, end: TaskEnd) {
        match end {
            TaskEnd::Done => self.done += 1,
            TaskEnd::Fault => self.faults += 1,
        }
    }
}

/// Writes results, and counts them.
pub(super) struct ResultWriter<'n, O> {
    names: &'n TaskNames,
    out: O,
    /// The line of the current result.
    text: Vec<u8>,
    /// Whether writing has failed. From then on results are only counted.
    broken: bool,
    pub ends: EndCounts,
}

impl<'n, O: ResultOutput> ResultWriter<'n, O> {
    pub(super) fn new(names: &'n TaskNames, out: O) -> Self {
        ResultWriter { names, out, text: Vec::new(), broken: false, ends: EndCounts::default() }
    }

    /// Flushes what was written so far.
    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        self.attempt(|results| results.out.flush())
    }

    /// Counts how a task ended, and writes its result and its reply.
    pub(super) fn write(
        &mut self,
        mark: TaskMark,
        result: Result<u32, TaskError>,
        reply: &[u8],
    ) -> Result<(), CliError> {
        let end = match result {
            Ok(_) => Some(TaskEnd::Done),
            Err(TaskError::Fault(_)) => Some(TaskEnd::Fault),
            Err(_) => None,
        };
        match end {
            Some(end) => self.ends.add(end),
            None => self.ends.unrun += 1,
        }
        if matches!(result, Err(TaskError::Lost { .. })) {
            self.ends.lost += 1;
        }
        self.attempt(|results| {
            results.text.clear();
            results.line(mark, result, reply)?;
            results.out.put(mark.line, end, &results.text)
        })
    }

    /// Writes something unless writing has failed before. A failure is therefore reported once, and tasks under way
    /// can still end.
    fn attempt(&mut self, write: impl FnOnce(&mut Self) -> Result<(), CliError>) -> Result<(), CliError> {
        if self.broken {
            return Ok(());
        }
        let written = write(self);
        self.broken = written.is_err();
        written
    }

    fn line(&mut self, mark: TaskMark, result: Result<u32, TaskError>, reply: &[u8]) -> Result<(), CliError> {
        let out = &mut self.text;
        write!(out, "{{\"line\": {}, ", mark.line)?;
        match (mark.graph, self.names.quoted(mark.op)) {
            (Some(graph), _) => write!(out, "\"graph\": {}", json!(self.names.graph(graph).name))?,
            (None, Ok(name)) => write!(out, "\"op\": {name}")?,
            (None, Err(code)) => write!(out, "\"op\": {code}")?,
        }
        match result {
            Ok(result) => {
                write!(out, ", \"status\": \"done\", \"result\": {result}")?;
                write_reply(out, reply, mark.reply_form)?;
                out.write_all(b"}\n")?;
            }
            Err(why) => write_no_result(out, why, Some(mark.op))?,
        }
        Ok(())
    }
}

/// Writes the end of the line of a task that has no result.
pub(super) fn write_no_result(out: &mut Vec<u8>, why: TaskError, op: Option<Opcode>) -> io::Result<()> {
    match why {
        TaskError::Fault(fault) => {
            write!(out, ", \"status\": \"fault\", \"fault\": {{\"code\": {}, ", fault.code.code())?;
            // The name of a fault has no characters that JSON would escape.
            write!(out, "\"name\": \"{}\"", fault.code)?;
            if op == Some(Opcode::PACKED_SLOT) {
                write!(out, ", \"inner\": {}", fault.inner)?;
            }
            out.write_all(b"}}\n")
        }
        TaskError::Lost { reason, may_have_run } => {
            write!(out, ", \"status\": \"lost\", \"reason\": \"{}\", ", reason.name())?;
            writeln!(out, "\"may_have_run\": {may_have_run}}}")
        }
        why => {
            let status = match why {
                TaskError::Cancelled { .. } => "cancelled",
                TaskError::Stopped { .. } => "stopped",
                TaskError::Left => "left",
                _ => "lost",
            };
            writeln!(out, ", \"status\": \"{status}\"}}")
        }
    }
}
