//! A thread that feeds the kernel, and checks everything that comes back.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use pelton::{Aim, Deadline, Session, Span};

use super::kernel::{FEEDERS, TENANTS};
use super::tally::Tally;
use super::work::{AREA, AREAS, FeederArea, SPAN, TABLE, WordTable};
use crate::error::CliError;
use crate::stop;

/// How long a span may take before the demo gives up.
const LATE_MS: u64 = 60_000;

/// Threads that feed the kernel, in all.
pub const ALL_FEEDERS: u32 = FEEDERS * TENANTS.len() as u32;

/// What all feeders share.
pub struct SharedLoad<'a> {
    pub session: &'a Session,
    pub table: &'a WordTable,
    /// Tasks that nobody has taken on yet.
    pub left: AtomicU64,
    /// Tasks whose results were checked.
    pub done: AtomicU64,
    /// Whether somebody has failed.
    pub failed: AtomicBool,
}

/// What a feeder has done.
pub struct FeederResult {
    pub tenant: u32,
    pub areas: Vec<FeederArea>,
    pub tally: Tally,
    pub ended: Instant,
}

/// The tenant that a feeder works for.
pub fn feeder_tenant(feeder: u32) -> u32 {
    feeder / FEEDERS
}

impl SharedLoad<'_> {
    /// Whether feeders are to end early.
    fn over(&self) -> bool {
        stop::pressed() || self.failed.load(Ordering::Relaxed)
    }

    /// Takes tasks on; 0 if there are none.
    fn take(&self) -> usize {
        let most = |left: u64| Some(left.saturating_sub(SPAN as u64));
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, most).unwrap_or(0);
        if self.over() { 0 } else { left.min(SPAN as u64) as usize }
    }

    /// Feeds until nothing is left. Everything that was submitted is waited for and checked.
    pub fn feed(&self, feeder: u32) -> Result<FeederResult, CliError> {
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
