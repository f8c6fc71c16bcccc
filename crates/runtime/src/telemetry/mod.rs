//! What can be seen of a session from outside: counters, queues, latencies, and what it prints.

mod latency;
mod print;
mod snapshot;

pub(crate) use latency::LatencyMeter;
pub use latency::{Latency, Quantiles};
pub(crate) use print::{Printer, read};
pub use snapshot::{Count, Occupancy, Snapshot};
pub(crate) use snapshot::{opcodes, snapshot, tenants};
