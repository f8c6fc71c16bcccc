//! The observable state of a session: counters, queues, latencies, and the lines that tasks print.

mod cells;
mod latency;
mod print;
mod snapshot;
mod trees;

pub use cells::{CellSnapshot, ReadyCount, StepCounts, TaskState};
pub(crate) use latency::LatencyMeter;
pub use latency::{LatencyCounts, Quantiles};
pub(crate) use print::{LogPosition, LogPrinter, read_log};
pub use snapshot::{
    KeptSnapshot, LastRecovery, NamedCount, Occupancy, RecoverySnapshot, RerunDifference, Snapshot,
};
pub(crate) use snapshot::{opcode_counts, take_snapshot, tenant_counts};
pub use trees::{EventCount, TreeSize, TreeSnapshot};
