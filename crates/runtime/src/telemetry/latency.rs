//! Latencies, counted without a lock.
//!
//! There are 16 buckets between each power of two and the next, so a latency is known to about 6 %. Counting is one
//! atomic addition. Percentiles are computed by an HDR histogram on demand.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::kernel::Telemetry;

/// The number of bits below the highest bit of a latency that select its bucket.
const BITS: u32 = 4;
/// The number of buckets for all latencies of 64 bits.
const BUCKETS: usize = ((64 - BITS as usize) + 1) << BITS;

/// The longest latency that a histogram distinguishes, which is one hour.
const MAX_NS: u64 = 3_600_000_000_000;

/// The latencies of tasks that were waited for, in nanoseconds. A latency is the time from publishing a task to seeing
/// its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Quantiles {
    /// The number of latencies that were measured.
    pub samples: u64,
    /// The latency below which half of the tasks ended.
    pub p50_ns: u64,
    /// The latency below which 99 % of the tasks ended.
    pub p99_ns: u64,
    /// The latency below which 99.9 % of the tasks ended.
    pub p999_ns: u64,
    /// The greatest latency.
    pub max_ns: u64,
}

/// How many tasks had which latency, in nanoseconds.
#[derive(Debug)]
pub struct LatencyCounts(Box<[AtomicU64]>);

impl Default for LatencyCounts {
    fn default() -> Self {
        LatencyCounts((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

fn bucket_of(ns: u64) -> usize {
    if ns < 1 << BITS {
        return ns as usize;
    }
    let shift = ns.ilog2() - BITS;
    (((shift as usize) + 1) << BITS) + ((ns >> shift) as usize & ((1 << BITS) - 1))
}

/// Returns the latency in the middle of a bucket.
fn bucket_middle(bucket: usize) -> u64 {
    let (row, at) = (bucket >> BITS, (bucket & ((1 << BITS) - 1)) as u64);
    if row == 0 {
        return at;
    }
    let shift = row as u32 - 1;
    let low = ((1 << BITS) + at) << shift;
    low + (1u64 << shift) / 2
}

impl LatencyCounts {
    /// Counts one latency.
    #[inline]
    pub fn record(&self, ns: u64) {
        self.0[bucket_of(ns)].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts as a histogram.
    pub fn histogram(&self) -> Histogram<u64> {
        let mut all =
            Histogram::new_with_bounds(1, MAX_NS, 2).expect("the bounds and two digits are allowed");
        for (at, count) in self.0.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                all.saturating_record_n(bucket_middle(at).max(1), count);
            }
        }
        all
    }

    /// Returns the quantiles of the latencies counted so far.
    pub fn quantiles(&self) -> Quantiles {
        let all = self.histogram();
        Quantiles {
            samples: all.len(),
            p50_ns: all.value_at_quantile(0.5),
            p99_ns: all.value_at_quantile(0.99),
            p999_ns: all.value_at_quantile(0.999),
            max_ns: all.max(),
        }
    }
}

/// Measures how long tasks take, as the telemetry of a session asks for.
#[derive(Debug)]
pub(crate) struct LatencyMeter {
    born: Instant,
    telemetry: Telemetry,
    latency: LatencyCounts,
}

impl LatencyMeter {
    /// Starts a clock.
    pub(crate) fn new(telemetry: Telemetry) -> Self {
        LatencyMeter { born: Instant::now(), telemetry, latency: LatencyCounts::default() }
    }

    /// Returns how long the clock has run.
    pub(crate) fn uptime(&self) -> Duration {
        self.born.elapsed()
    }

    /// Returns nanoseconds since the clock started, never 0.
    fn now(&self) -> u64 {
        self.born.elapsed().as_nanos() as u64 + 1
    }

    /// Returns when tasks at these positions of a stripe are published, which is now, or 0 if they are not to be measured.
    #[inline]
    pub(crate) fn stamp(&self, first: u64, end: u64) -> u64 {
        let measured = match self.telemetry {
            Telemetry::Off => false,
            Telemetry::Full => true,
            Telemetry::Sampled => first >> 10 != end >> 10 || first & 1023 == 0,
        };
        if measured { self.now() } else { 0 }
    }

    /// Counts tasks that have ended now and were published at this stamp.
    pub(crate) fn record_since(&self, stamp: u64) {
        self.latency.record(self.now() - stamp);
    }

    /// Returns the quantiles of what was measured so far.
    pub(crate) fn quantiles(&self) -> Quantiles {
        self.latency.quantiles()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_narrow() {
        let mut last = 0;
        for shift in 0..63 {
            for step in 0..8u64 {
                let ns = (1u64 << shift) + ((u128::from(step) << shift) >> 3) as u64;
                let at = bucket_of(ns);
                assert!(at >= last && at < BUCKETS, "{ns}");
                last = at;
                let middle = bucket_middle(at);
                assert!(middle.abs_diff(ns) <= ns / 16 + 1, "{ns} counted as {middle}");
            }
        }
        assert!(bucket_of(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_are_what_was_counted() {
        let latency = LatencyCounts::default();
        for ns in 1..=1000 {
            latency.record(ns * 1000);
        }
        latency.record(u64::MAX);
        let found = latency.quantiles();
        assert_eq!(found.samples, 1001);
        for (ns, expect) in [(found.p50_ns, 500_000), (found.p99_ns, 990_000), (found.p999_ns, 1_000_000)] {
            assert!(ns.abs_diff(expect) <= expect / 12, "{ns} instead of {expect}");
        }
        assert!(found.max_ns >= MAX_NS / 100 * 99, "{}", found.max_ns);
    }
}
