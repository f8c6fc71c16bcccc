//! What can go wrong between a `Spec` and a result.

use std::sync::Arc;
use std::time::Duration;

use pelton_device::{DeviceError, LaunchOutcome};

use crate::kernel::{AssembleError, Tenant, TenantId, UnknownOpcode};
use crate::protocol::{Malformed, Opcode, Priority, TaskFault};

/// Why a session or a drain could not be launched, used or stopped.
#[allow(missing_docs)]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The `Spec` cannot be assembled.
    #[error(transparent)]
    Refused(#[from] AssembleError),
    /// The device did not do what was asked.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// No handler and no built-in operation has that name.
    #[error(transparent)]
    UnknownOpcode(#[from] UnknownOpcode),
    /// Words that are not of the protocol.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// No such tenant.
    #[error("there is no tenant {0} in this session")]
    UnknownTenant(TenantId),
    /// All producers of a tenant are in use.
    #[error("every producer of tenant {tenant} is in use; it has {count}")]
    NoIdleProducer { tenant: TenantId, count: u32 },
    /// More credit than a tenant can have.
    #[error("tenant {tenant} would have credit for {credit} tasks; it can have at most {most}", most = Tenant::MAX_QUOTA)]
    TooMuchCredit { tenant: TenantId, credit: u64 },
    /// No such region.
    #[error("there is no region {0:?}")]
    UnknownRegion(String),
    /// A region of another type.
    #[error("region {name:?} holds elements of {holds}, and another type was asked for")]
    RegionType { name: String, holds: pelton_ir::types::Type },
    /// Beyond the end of a tenant's region.
    #[error("{count} elements from element {at} on do not lie in region {name:?}, which has {len}")]
    RegionRange { name: String, at: usize, count: usize, len: usize },
    /// The host cannot reach the words of that region.
    #[error("region {0:?} is not mapped: copy it in and out")]
    NotMapped(String),
    /// A start position beyond [`Session::LAST_START`](crate::Session::LAST_START).
    #[error("a session cannot start at position {start:#x}; the last possible start is {last:#x}")]
    StartPosition { start: u64, last: u64 },
    /// A list of start positions that does not have one per stripe.
    #[error("{found} start positions for a session of {stripes} stripes")]
    StartCount { found: usize, stripes: usize },
    /// Not everything ended in time.
    #[error("{left} tasks had not ended by the deadline")]
    Late { left: u64 },
    /// The session has ended.
    #[error("the session has ended: {0}")]
    Ended(SessionEnd),
    /// The session lacks a buffer of its own: a defect of Pelton.
    #[error("the session has no buffer {0:?}; this is a defect of Pelton")]
    Internal(&'static str),
    /// A pass over a batch was cut short.
    #[error("the pass was cut short: {0}")]
    CutShort(LaunchOutcome),
    /// A thread could not be started.
    #[error("no thread could be started: {0}")]
    Thread(std::io::Error),
}

/// How a session ended, with the device's error if there was one. [`EndReason`] is the same without the error, and can be copied and
/// compared.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionEnd {
    /// It was stopped, or dropped.
    #[error("it was stopped")]
    Stopped,
    /// Nobody renewed the lease of its kernel for so long. The session does so by itself while its process runs.
    #[error("the host did not renew the lease of its kernel for {0:?}")]
    Lease(Duration),
    /// The device did not go on: its kernel trapped, or the device failed.
    #[error("{0}")]
    Device(Arc<DeviceError>),
    /// Its kernel returned without being asked to.
    #[error("its kernel returned without being asked to")]
    Returned,
}

impl SessionEnd {
    /// The same without the device's error.
    pub fn reason(&self) -> EndReason {
        EndReason::Lost(match self {
            SessionEnd::Stopped => return EndReason::Stopped,
            SessionEnd::Lease(_) => LossReason::Lease,
            SessionEnd::Device(error) if matches!(**error, DeviceError::Fault { .. }) => LossReason::Trap,
            SessionEnd::Device(_) => LossReason::Device,
            SessionEnd::Returned => LossReason::Returned,
        })
    }
}

/// Why a session has ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndReason {
    /// It was stopped, or dropped.
    #[error("it was stopped")]
    Stopped,
    /// It ended by itself.
    #[error("{0}")]
    Lost(LossReason),
}

/// Why a session ended by itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LossReason {
    /// Nobody renewed the lease of its kernel.
    #[error("the lease of its kernel ran out")]
    Lease,
    /// Its kernel trapped.
    #[error("its kernel trapped")]
    Trap,
    /// The device failed.
    #[error("the device failed")]
    Device,
    /// Its kernel returned without being asked to.
    #[error("its kernel returned without being asked to")]
    Returned,
    /// Its kernel posted a record that is not of the protocol. The session itself may still run.
    #[error("its kernel posted a record that is not of the protocol")]
    Record,
}

/// Why a task was not taken. Nothing of it is visible to the kernel.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// There is no room: results wait to be taken, or the kernel is behind.
    #[error("the ring is full: {room} of {wanted} slots are free")]
    Full { room: u64, wanted: u64 },
    /// More tasks at once than the ring can ever hold, near or far.
    #[error("{wanted} tasks at once, and a ring has {slots} slots")]
    TooLarge { wanted: u64, slots: u64 },
    /// More tasks at once than one stripe holds. There is a fence among them, so they cannot be spread over several stripes.
    #[error("{wanted} tasks at once with a fence among them, and a stripe has {slots} slots")]
    TooLargeFenced { wanted: u64, slots: u64 },
    /// An opcode that is not for producers.
    #[error("{0} cannot be submitted")]
    NotSubmittable(Opcode),
    /// An opcode that does not run yet.
    #[error("{0} does not run yet")]
    NotImplemented(Opcode),
    /// A number that no tenant has.
    #[error("tenant {0}: tenants are numbered below {most}", most = Tenant::MAX_TENANTS)]
    UnknownTenant(TenantId),
    /// A priority in a session without priorities.
    #[error("priority {0}: the session serves its rings in turn; ask for claim = priority")]
    NoPriorities(Priority),
    /// Tasks of several priorities at once.
    #[error("tasks that are submitted at once have one priority, not {0} and {1}")]
    MixedPriorities(Priority, Priority),
    /// A fence that would have to reach beyond its own stripe.
    #[error(
        "a fence over {count} tasks, of which only the last {within} are in one stripe: submit them at once"
    )]
    FenceReach { count: u32, within: u64 },
    /// The session has ended. [`Producer::session_end`](crate::Producer::session_end) has the details.
    #[error("the session has ended: {0}")]
    Ended(EndReason),
}

/// Why a task has no result.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// It ended with a fault.
    #[error("{0}")]
    Fault(TaskFault),
    /// It was cancelled, and never ran.
    #[error("it was cancelled")]
    Cancelled,
    /// The session was stopped before it ran.
    #[error("the session was stopped before it ran")]
    Stopped,
    /// The pass over its batch left it as it was: its tenant is disabled or has no credit, or the pass ended before.
    #[error("it was left as it was: its tenant is disabled or has no credit, or the pass ended before it")]
    Left,
    /// The session was lost before it ended. [`Session::session_end`](crate::Session::session_end) has the details.
    #[error("the session was lost: {0}")]
    Lost(LossReason),
    /// It has not ended yet; it may be waited for again.
    #[error("it has not ended yet")]
    Late,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_range_can_be_said() {
        let range = Error::RegionRange { name: "data".into(), at: usize::MAX, count: 2, len: 1 };
        assert_eq!(
            range.to_string(),
            format!("2 elements from element {} on do not lie in region \"data\", which has 1", usize::MAX)
        );
    }

    #[test]
    fn a_thread_that_does_not_start_says_why() {
        let cause = std::io::Error::other("too many of them");
        assert_eq!(Error::Thread(cause).to_string(), "no thread could be started: too many of them");
    }

    #[test]
    fn a_pass_that_was_cut_short_says_why() {
        assert_eq!(
            Error::CutShort(LaunchOutcome::Deadline).to_string(),
            "the pass was cut short: its deadline passed"
        );
    }
}
