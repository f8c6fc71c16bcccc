//! Notices that a run stands still: every task that is left waits for an event, and nothing is left that could signal it.
//!
//! Events are signalled by tasks alone, because nothing else of `pelton run` signals any. So a run stands still if its
//! input has ended or waits for tasks to end, and if no task runs, is ready to run, or is in a ring. A snapshot shows this,
//! but while the kernel runs, not everything in a snapshot is read at the same moment: a task may be seen waiting just
//! before another one wakes it, and the other one just after it has ended. Each wake needs a signal, and the counts of
//! signals never go back. So a run counts as standing still only if several snapshots in a row show the same counts.

use std::fmt::Write;
use std::time::{Duration, Instant};

use pelton::telemetry::{CellSnapshot, EventCount, StepCounts};
use pelton::{EventCondition, Opcode, Session};

use super::passing::unless_passing;
use super::results::TaskMark;
use super::task::TaskNames;
use crate::error::CliError;

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// How long nothing may change before the run counts as standing still.
const STILL: Duration = Duration::from_millis(200);

/// The most lines that a message names one by one.
const NAMED_LINES: usize = 8;

/// Why the feed waits for tasks to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FeedWait {
    /// The input has ended.
    InputEnd,
    /// The task of this line is submitted when all tasks before it have ended.
    AllBefore(u64),
    /// The ring has no room for the task of this line.
    Slots(u64),
    /// There is no cell for the task of this line.
    Cells(u64),
}

/// What stays the same while nothing happens.
#[derive(PartialEq, Eq)]
struct Progress {
    unfinished: usize,
    children: u64,
    events: Vec<EventCount>,
    steps: StepCounts,
}

/// Looks from time to time whether the run stands still. A new one is needed whenever the feed begins to wait.
pub(super) struct StandstillWatch {
    next_look: Instant,
    /// What was seen at the last look, and since when it has been the same.
    last: Option<(Progress, Instant)>,
}

impl StandstillWatch {
    pub(super) fn new() -> Self {
        StandstillWatch { next_look: Instant::now() + LOOK, last: None }
    }

    /// Looks whether the run stands still, unless it has looked a moment ago. Returns what is wrong if it does.
    pub(super) fn look(
        &mut self,
        session: &Session,
        names: &TaskNames,
        unfinished: impl FnOnce() -> Vec<TaskMark>,
        wait: FeedWait,
    ) -> Result<Option<String>, CliError> {
        let now = Instant::now();
        if !names.has_events || now < self.next_look {
            return Ok(None);
        }
        self.next_look = now + LOOK;
        let unfinished = unfinished();
        let Some(snapshot) = unless_passing(session, session.snapshot())? else {
            self.last = None;
            return Ok(None);
        };
        let Some(cells) = snapshot.cells else { return Ok(None) };
        let left = WaitingTasks { names, cells: &cells, unfinished: &unfinished };
        if !left.are_all_waiting(snapshot.occupancy.published) {
            self.last = None;
            return Ok(None);
        }
        let progress = Progress {
            unfinished: unfinished.len(),
            children: cells.spawned_now,
            events: left.events().to_vec(),
            // A launch that finds no free instance takes one step after the other, and each of them yields.
            steps: StepCounts { begun: 0, yields: 0, ..cells.steps },
        };
        match &self.last {
            Some((last, since)) if *last == progress => {
                Ok((now - *since >= STILL).then(|| left.describe(wait)))
            }
            _ => {
                self.last = Some((progress, now));
                Ok(None)
            }
        }
    }
}

/// The tasks that have not ended, and what the kernel says of them.
struct WaitingTasks<'a> {
    names: &'a TaskNames,
    cells: &'a CellSnapshot,
    unfinished: &'a [TaskMark],
}

impl<'a> WaitingTasks<'a> {
    fn events(&self) -> &'a [EventCount] {
        self.cells.trees.as_ref().map_or(&[], |trees| &trees.events)
    }

    /// Whether all tasks wait: for events, for tasks that do, or for an instance of a graph that such tasks hold.
    /// `published` is the number of slots whose tasks have not ended.
    fn are_all_waiting(&self, published: u64) -> bool {
        let CellSnapshot { used, runnable, joining, awaiting_events, spawned_now, ref trees, .. } =
            *self.cells;
        // Fences wait in their slots.
        let fences = self.unfinished.iter().filter(|mark| mark.op == Opcode::BATCH_FENCE).count() as u64;
        // A launch that has begun and has no instance tries again and again.
        let begun = |mark: &&TaskMark| mark.graph.is_some() && self.unmet_condition(mark).is_none();
        let launches = self.unfinished.iter().filter(begun).count() as u64;
        let under_way = trees.as_ref().and_then(|trees| trees.graphs).unwrap_or(0);
        awaiting_events > 0
            && published == fences
            && launches.checked_sub(under_way) == Some(runnable)
            && used + spawned_now == runnable + joining + awaiting_events
    }

    /// How often an event was signalled.
    fn signals(&self, tenant: &str, event: u32) -> u64 {
        let of = |known: &&EventCount| known.tenant == tenant && known.event == event;
        self.events().iter().find(of).map_or(0, |known| known.count)
    }

    /// What a task waits for before it begins, if the event has not come yet.
    fn unmet_condition(&self, mark: &TaskMark) -> Option<EventCondition> {
        let signals = |event| self.signals(self.names.tenant_name(mark.tenant), event);
        mark.after.filter(|after| signals(after.event) < u64::from(after.count))
    }

    /// Says which lines wait for what.
    fn describe(&self, wait: FeedWait) -> String {
        let mut text =
            String::from("the tasks that are left wait for events that nothing can signal any more");
        // Lines with the same condition are named together.
        let mut conditions: Vec<((u32, EventCondition), Vec<u64>)> = Vec::new();
        let mut others = Vec::new();
        for mark in self.unfinished {
            match self.unmet_condition(mark) {
                Some(condition) => {
                    let key = (mark.tenant, condition);
                    match conditions.iter_mut().find(|(known, _)| *known == key) {
                        Some((_, lines)) => lines.push(mark.line),
                        None => conditions.push((key, vec![mark.line])),
                    }
                }
                None => others.push(mark.line),
            }
        }
        for ((tenant, EventCondition { event, count }), lines) in &conditions {
            let tenant = self.names.tenant_name(*tenant);
            let (lines, waits) = (line_list(lines), if lines.len() == 1 { "waits" } else { "wait" });
            let (wanted, found) = (signalled((*count).into()), signalled(self.signals(tenant, *event)));
            let _ = write!(
                text,
                "\n  {lines} {waits} until event {event} of tenant `{tenant}` {wanted}; it {found}"
            );
        }
        if !others.is_empty() {
            let (lines, has) = (line_list(&others), if others.len() == 1 { "has" } else { "have" });
            let _ = write!(text, "\n  {lines} {has} begun and not ended");
        }
        for EventCount { tenant, event, count, waiters, awaited } in self.events() {
            let before = |((of, condition), _): &&((u32, EventCondition), _)| {
                self.names.tenant_name(*of) == tenant && condition.event == *event
            };
            let known: usize = conditions.iter().filter(before).map(|(_, lines)| lines.len()).sum();
            if let (Some(awaited), true) = (awaited, *waiters > known as u64) {
                let (found, wanted) = (signalled(*count), signalled((*awaited).into()));
                let _ = write!(
                    text,
                    "\n  event {event} of tenant `{tenant}` {found}; a task that has begun waits until it {wanted}"
                );
            }
        }
        text + &not_submitted(wait)
    }
}

/// Says which lines were not submitted, and why.
fn not_submitted(wait: FeedWait) -> String {
    let (line, why) = match wait {
        FeedWait::InputEnd => return String::new(),
        FeedWait::AllBefore(line) => (line, "it is submitted when all tasks before it have ended"),
        FeedWait::Slots(line) => (
            line,
            "the results of the tasks before it fill the ring; `--order done` frees their slots as soon as they end",
        ),
        FeedWait::Cells(line) => {
            (line, "tasks that wait have all cells of its producer; a larger `cells` in the spec gives more")
        }
    };
    format!("\n  line {line} and those after it were not run: {why}")
}

/// A count of signals in words.
fn signalled(count: u64) -> String {
    match count {
        0 => "was never signalled".into(),
        1 => "was signalled once".into(),
        count => format!("was signalled {count} times"),
    }
}

/// Lines in words, such as `lines 1, 2 and 5`.
fn line_list(lines: &[u64]) -> String {
    let (named, more) = lines.split_at(lines.len().min(NAMED_LINES));
    let named: Vec<String> = named.iter().map(u64::to_string).collect();
    match (&*named, more.len()) {
        ([only], 0) => format!("line {only}"),
        ([most @ .., last], 0) => format!("lines {} and {last}", most.join(", ")),
        (named, more) => format!("lines {} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_listed_in_words() {
        for (lines, text) in [
            (vec![3], "line 3"),
            (vec![3, 4], "lines 3 and 4"),
            (vec![1, 2, 9], "lines 1, 2 and 9"),
            ((1..=8).collect(), "lines 1, 2, 3, 4, 5, 6, 7 and 8"),
            ((1..=10).collect(), "lines 1, 2, 3, 4, 5, 6, 7, 8 and 2 more"),
        ] {
            assert_eq!(line_list(&lines), text);
        }
    }
}
