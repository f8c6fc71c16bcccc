//! What can be seen of a session from outside: counters, queues, latencies, and what it prints.

mod latency;
mod print;
mod snapshot;

pub(crate) use latency::LatencyMeter;
pub use latency::{LatencyCounts, Quantiles};
pub(crate) use print::{LogPrinter, read_log};
pub use snapshot::{NamedCount, Occupancy, Snapshot};
pub(crate) use snapshot::{opcode_counts, take_snapshot, tenant_counts};
