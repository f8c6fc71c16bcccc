//! A thread that feeds the kernel and checks every result.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use pelton::{Aim, Deadline, Session, Span};

use super::kernel::{FEEDERS, TENANTS};
use super::tally::Tally;
use super::work::{AREA, AREAS, FeederArea, SPAN, TABLE, WordTable};
use crate::error::CliError;
use crate::stop;

/// The time in milliseconds after which the demo gives up on a span.
const LATE_MS: u64 = 60_000;

/// The total number of threads that feed the kernel.
pub(super) const ALL_FEEDERS: u32 = FEEDERS * TENANTS.len() as u32;

/// The state that all feeders share.
pub(super) struct SharedLoad<'a> {
    pub session: &'a Session,
    pub table: &'a WordTable,
    /// The number of tasks that no feeder has taken yet.
    pub left: AtomicU64,
    /// The number of tasks whose results have been checked.
    pub done: AtomicU64,
    /// Whether a feeder has failed.
    pub failed: AtomicBool,
}

/// The result of a feeder.
pub(super) struct FeederResult {
    pub tenant: u32,
    pub areas: Vec<FeederArea>,
    pub tally: Tally,
    pub ended: Instant,
}

/// The tenant that a feeder works for.
pub(super) fn feeder_tenant(feeder: u32) -> u32 {
    feeder / FEEDERS
}

impl SharedLoad<'_> {
    /// Whether feeders must end early.
    fn over(&self) -> bool {
        stop::pressed() || self.failed.load(Ordering::Relaxed)
    }

    /// Takes the next tasks, and returns their number; 0 if there are none left.
    fn take(&self) -> usize {
        let most = |left: u64| Some(left.saturating_sub(SPAN as u64));
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, most).unwrap_or(0);
        if self.over() { 0 } else { left.min(SPAN as u64) as usize }
    }

    /// Feeds the kernel until no task is left. Every submitted task is waited for and checked.
    pub(super) fn feed(&self, feeder: u32) -> Result<FeederResult, CliError> {
        let fed = self.spans(feeder);
        if fed.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        fed
    }

    fn spans(&self, feeder: u32) -> Result<FeederResult, CliError> {
        let producer = self.session.producer(feeder_tenant(feeder))?;
        let mut producer = producer.patience(Deadline::Never).aim(Aim::Throughput);
        let mut areas: Vec<FeederArea> = (0..AREAS as u32)
            .map(|k| {
                let number = feeder % FEEDERS * AREAS as u32 + k;
                FeederArea::new(TABLE + number * AREA, 1 + number * SPAN as u32)
            })
            .collect();
        let mut tally = Tally::default();
        let mut flight: VecDeque<(usize, Span)> = VecDeque::with_capacity(AREAS);
        for number in 0u64.. {
            let len = self.take();
            if len == 0 {
                break;
            }
            if flight.len() == AREAS {
                self.land(flight.pop_front(), &mut areas, &mut tally)?;
            }
            let at = (number % AREAS as u64) as usize;
            areas[at].fill(len, (feeder, number), self.table, &mut tally);
            flight.push_back((at, producer.submit_all(areas[at].tasks.iter().copied())?));
        }
        while !flight.is_empty() {
            self.land(flight.pop_front(), &mut areas, &mut tally)?;
        }
        Ok(FeederResult { tenant: feeder_tenant(feeder), areas, tally, ended: Instant::now() })
    }

    /// Waits for the oldest span, and checks its results.
    fn land(
        &self,
        oldest: Option<(usize, Span)>,
        areas: &mut [FeederArea],
        tally: &mut Tally,
    ) -> Result<(), CliError> {
        let Some((at, mut span)) = oldest else { return Ok(()) };
        span.wait(Deadline::after_ms(LATE_MS))?;
        for (k, result) in span.results().enumerate() {
            areas[at].check(k, result, tally);
        }
        self.done.fetch_add(span.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}
