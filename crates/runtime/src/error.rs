//! The errors of sessions, drains, submits and tasks.

use std::sync::Arc;
use std::time::Duration;

use pelton_device::{DeviceError, LaunchOutcome};

use crate::graph::GraphError;
use crate::kernel::graphs::MAX_GRAPHS;
use crate::kernel::{AssembleError, Tenant, TenantId, UnknownOpcode, why_missing};
use crate::protocol::{Malformed, Opcode, Priority, TaskFault};

/// Why a session or a drain could not be launched, used or stopped.
#[allow(missing_docs)]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The `Spec` cannot be assembled into a kernel.
    #[error(transparent)]
    Refused(#[from] AssembleError),
    /// The device did not do what it was asked to do.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// No handler and no built-in operation has the name that was looked up.
    #[error(transparent)]
    UnknownOpcode(#[from] UnknownOpcode),
    /// A batch has a task that the kernel of this drain cannot run.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// A value does not follow the protocol between host and kernel.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The `Spec` has no tenant with this number.
    #[error("there is no tenant {0} in this session")]
    UnknownTenant(TenantId),
    /// All producers of a tenant are in use. A producer that is dropped can be taken again.
    #[error(
        "all {count} producers of tenant {tenant} are in use: drop one, or launch with more (`Spec::producers`)"
    )]
    NoIdleProducer { tenant: TenantId, count: u32 },
    /// A tenant would have more credit than can be counted.
    #[error("tenant {tenant} would have credit for {credit} tasks; it can have at most {most}", most = Tenant::MAX_QUOTA)]
    TooMuchCredit { tenant: TenantId, credit: u64 },
    /// The workspace has no region of this name.
    #[error("there is no region {0:?} in this workspace")]
    UnknownRegion(String),
    /// A region was viewed as elements of a type that it does not hold.
    #[error("region {name:?} holds elements of type {holds}; view it as that type")]
    RegionType { name: String, holds: pelton_ir::types::Type },
    /// An access reaches beyond the end of a tenant's piece of a region.
    #[error("{count} elements from element {at} on do not lie in region {name:?}, which has {len}")]
    RegionRange { name: String, at: usize, count: usize, len: usize },
    /// The host cannot reach the words of a region in place, because they lie in the device's own memory.
    #[error(
        "the host cannot reach region {0:?} in place on this device: copy its elements with `read` and `write`"
    )]
    NotMapped(String),
    /// A region is [kept](crate::Retention), and was to be reached in a way that nothing could restore.
    #[error(
        "region {0:?} is kept, so the host reaches it only through `read` and `write` of a view that the session gives"
    )]
    KeptRegion(String),
    /// The session has no region that is [kept](crate::Retention), so there is nothing to take a checkpoint of.
    #[error("no region of this session is kept, so there is nothing to take a checkpoint of")]
    NothingKept,
    /// What the user has set to be done [before a recovery](crate::Session::on_recovery) has panicked.
    #[error("the hook that runs when a session recovers has panicked")]
    RecoveryHook,
    /// A start position lies beyond [`Session::LAST_START`](crate::Session::LAST_START).
    #[error("a session cannot start at position {start:#x}; the last possible start is {last:#x}")]
    StartPosition { start: u64, last: u64 },
    /// A list of start positions does not have one position per stripe.
    #[error("{found} start positions were given for a session of {stripes} stripes; give one per stripe")]
    StartCount { found: usize, stripes: usize },
    /// Something is wrong with a graph.
    #[error("graph {name:?}: {source}")]
    Graph {
        /// The name of the graph.
        name: String,
        /// What is wrong with it.
        source: GraphError,
    },
    /// A graph has more nodes than the session allows, or the session has no room for graphs at all.
    #[error("{}", too_large_graph(name, *found, *most))]
    GraphSize {
        /// The name of the graph.
        name: String,
        /// How many nodes it has.
        found: usize,
        /// How many nodes a graph may have, or 0 if the session has no room for graphs.
        most: u32,
    },
    /// The session has as many graphs as it can have.
    #[error(
        "graph {name:?} cannot be added, because the session has {most} graphs already, which is the most that it can have; \
         remove one first (`Session::remove_graph`)",
        most = MAX_GRAPHS
    )]
    TooManyGraphs {
        /// The name of the graph.
        name: String,
    },
    /// The session's memory for graphs has no room for another graph.
    #[error(
        "there is no room for graph {name:?}, which needs {words} words of memory in one piece, and the largest free piece has {free}; \
         remove other graphs first (`Session::remove_graph`), or launch with a larger `Spec::graph_nodes`"
    )]
    GraphRoom {
        /// The name of the graph.
        name: String,
        /// How many words it has.
        words: u32,
        /// How many words the largest free piece of the memory for graphs has.
        free: u32,
    },
    /// A launch gives too many or too few parameters.
    #[error("graph {name:?} has {}, and {found} {} given", parameter_count(*wanted), if *found == 1 { "was" } else { "were" })]
    GraphParameters {
        /// The name of the graph.
        name: String,
        /// How many parameters were given.
        found: usize,
        /// How many parameters the graph has.
        wanted: u32,
    },
    /// A tenant has no event of this number.
    #[error("{}", no_event(*event, *events))]
    UnknownEvent {
        /// The number that was asked for.
        event: u32,
        /// How many events each tenant has.
        events: u32,
    },
    /// A ticket or a graph was given to a session that it does not belong to.
    #[error("the ticket or graph belongs to another session, and only that session can answer for it")]
    OtherSession,
    /// Some tasks had not ended when the deadline passed. They may be waited for again.
    #[error("{left} tasks had not ended by the deadline")]
    Late { left: u64 },
    /// The session has ended. The value says why.
    #[error("the session has ended: {0}")]
    Ended(SessionEnd),
    /// The session keeps the kernel that it has. The value says why.
    #[error(transparent)]
    HandOver(#[from] HandOverError),
    /// The session lacks a buffer of its own, which is a defect of Pelton.
    #[error("the session has no buffer {0:?}; this is a defect of Pelton")]
    Internal(&'static str),
    /// A pass over a batch ended before the kernel was done.
    #[error("the pass was cut short: {0}")]
    CutShort(LaunchOutcome),
    /// A thread of the session could not be started.
    #[error("no thread could be started: {0}")]
    Thread(std::io::Error),
}

/// Why a session keeps the kernel that it has, although it was asked to change it.
#[allow(missing_docs)]
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandOverError {
    /// The `Spec` differs from that of the session in something that a session cannot change.
    #[error(
        "`{axis}` cannot change while a session runs: only handlers, libraries, fuel, share and the number of groups can"
    )]
    Axis { axis: &'static str },
    /// The rings of the session cannot be served by so many groups: they need from `least` to `most`.
    #[error("{}", impossible_groups(*.groups, *.least, *.most))]
    Groups { groups: u32, least: u32, most: u32 },
    /// The session has no handler of this name.
    #[error("this session has no handler {name:?}")]
    UnknownHandler { name: String },
    /// The session has a handler of this name already.
    #[error("this session has a handler {name:?} already: replace it, or choose another name")]
    NameTaken { name: String },
    /// Every opcode that a handler can have belongs to a handler of this session, or did so before that was removed.
    #[error("there is no opcode left for handler {name:?}: those of removed handlers are not used again")]
    NoOpcode { name: String },
    /// The handler is resumable, and the session was launched without resumable handlers.
    #[error(
        "handler {name:?} is resumable, and this session has no cells for its tasks: \
         launch the session with at least one resumable handler"
    )]
    NoCells { name: String },
    /// The handler spawns tasks, and the session was launched without handlers that do.
    #[error(
        "handler {name:?} spawns tasks, and this session has no room for them: \
         launch the session with at least one handler that spawns tasks"
    )]
    NoSpawnCells { name: String },
    /// Only one of two versions of a handler is resumable. Tasks that wait in rings would be of the wrong kind, because only
    /// resumable tasks have cells. `resumable` says whether the new version is.
    #[error("{}", resumable_differs(.name, *.resumable))]
    ResumableDiffers { name: String, resumable: bool },
    /// Tasks that have begun with the old version of a handler have not ended, and the new version does not take them over.
    #[error("{}", begun_tasks(.name, *.tasks))]
    BegunTasks { name: String, tasks: u64 },
}

/// Says why the rings of a session cannot be served by so many groups, and what helps.
fn impossible_groups(groups: u32, least: u32, most: u32) -> String {
    if groups < least {
        return format!("this session needs at least {least} groups, and {groups} were asked for");
    }
    format!(
        "this session can have at most {most} groups, because its near rings were divided among so many when it was \
         launched, and {groups} were asked for: launch it with the most groups that it will need, and resize it down"
    )
}

/// Says that only one of two versions of a handler is resumable, and what helps.
fn resumable_differs(name: &str, resumable: bool) -> String {
    let (was, is) = if resumable { ("is not", "is") } else { ("is", "is not") };
    format!(
        "handler {name:?} {was} resumable, and its new version {is}: remove the handler, and install the new version"
    )
}

/// Says that tasks of the old version of a handler are under way.
fn begun_tasks(name: &str, tasks: u64) -> String {
    let (word, have, them) = if tasks == 1 { ("task", "has", "it") } else { ("tasks", "have", "them") };
    format!(
        "{tasks} {word} of handler {name:?} {have} begun and not ended, and its new version does not take {them} over \
         (`Handler::takes_over`, or `takes_over = true` in a file)"
    )
}

/// How a session ended, in full: with the error of the device if there was one.
///
/// [`Session::session_end`](crate::Session::session_end) and [`Producer::session_end`](crate::Producer::session_end)
/// return it. [`EndReason`] is a short form of it, which can be copied and compared.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionEnd {
    /// The session was stopped or dropped.
    #[error("it was stopped")]
    Stopped,
    /// The lease of the kernel ran out after this long without a sign of life from the host. A session renews the lease
    /// by itself while its process runs, so this means that the process was suspended or got no time on any core.
    #[error(
        "the lease of its kernel ran out after {0:?} without a sign of life from the host; \
         if the process may pause for that long, launch with a longer one (`Spec::lease`)"
    )]
    Lease(Duration),
    /// The kernel trapped, or the device failed.
    #[error("{0}")]
    Device(Arc<DeviceError>),
    /// The kernel returned although nobody had asked it to.
    #[error("its kernel returned without being asked to")]
    Returned,
    /// The session could not [recover](crate::Recovery) on any device after its device was lost. This is what was wrong with
    /// the last one that was tried.
    #[error("its device was lost, and no device could go on: {0}")]
    NotRecovered(Arc<Error>),
}

impl SessionEnd {
    /// Returns the short form of this end, which lacks the error of the device.
    pub fn reason(&self) -> EndReason {
        EndReason::Lost(match self {
            SessionEnd::Stopped => return EndReason::Stopped,
            SessionEnd::Lease(_) => LossReason::Lease,
            SessionEnd::Device(error) if matches!(**error, DeviceError::Fault { .. }) => LossReason::Trap,
            SessionEnd::Device(_) | SessionEnd::NotRecovered(_) => LossReason::Device,
            SessionEnd::Returned => LossReason::Returned,
        })
    }
}

/// How a session ended, in short. [`SessionEnd`] has the details.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndReason {
    /// The session was stopped or dropped.
    #[error("it was stopped")]
    Stopped,
    /// The session ended by itself.
    #[error("{0}")]
    Lost(LossReason),
}

/// Why a session ended by itself, or why the result of one of its tasks was lost, in short. [`SessionEnd`] has the
/// details.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LossReason {
    /// The lease of the kernel ran out without a sign of life from the host.
    #[error("the lease of its kernel ran out without a sign of life from the host")]
    Lease,
    /// The kernel trapped.
    #[error("its kernel trapped")]
    Trap,
    /// The device failed.
    #[error("its device failed")]
    Device,
    /// The kernel returned although nobody had asked it to.
    #[error("its kernel returned without being asked to")]
    Returned,
    /// The kernel posted a record that does not follow the protocol, so the result of its task is lost. Only tasks end
    /// for this reason; the session itself may still run.
    #[error("its kernel posted a record that does not follow the protocol")]
    Record,
    /// The kernel trapped each time the task ran, also when the task ran alone. Only tasks end for this reason; the session
    /// goes on without them.
    #[error("its kernel trapped each time, also when the task ran alone")]
    Quarantine,
}

impl LossReason {
    /// Every reason, in the order of their codes, which begin with 1.
    pub(crate) const ALL: [LossReason; 6] = [
        LossReason::Lease,
        LossReason::Trap,
        LossReason::Device,
        LossReason::Returned,
        LossReason::Record,
        LossReason::Quarantine,
    ];

    /// Returns the code of this reason in a completion record.
    pub const fn code(self) -> u32 {
        self as u32 + 1
    }

    /// Returns the reason as one word, for programs to compare.
    pub const fn name(self) -> &'static str {
        match self {
            LossReason::Lease => "lease",
            LossReason::Trap => "trap",
            LossReason::Device => "device",
            LossReason::Returned => "returned",
            LossReason::Record => "record",
            LossReason::Quarantine => "quarantine",
        }
    }

    /// Returns the reason with this code, or `None` if there is none.
    pub const fn from_code(code: u32) -> Option<LossReason> {
        match code {
            1..=6 => Some(LossReason::ALL[code as usize - 1]),
            _ => None,
        }
    }
}

/// Why tasks were not submitted. The kernel has seen none of them.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// There is no room yet: tickets still hold their slots, or the kernel has not caught up.
    ///
    /// [`Producer::patience`](crate::Producer::patience) makes each submit wait for room, and
    /// [`Producer::submit_when_room`](crate::Producer::submit_when_room) awaits it.
    #[error(
        "the ring is full: {wanted} slots are wanted and {room} are free; drop tickets whose results were read, or wait for room"
    )]
    Full { room: u64, wanted: u64 },
    /// There are more tasks than the rings of the producer can ever hold at once, near or far.
    #[error("{wanted} tasks cannot be submitted at once: there is room for at most {slots}")]
    TooLarge { wanted: u64, slots: u64 },
    /// All cells that a producer has for tasks of resumable handlers are in use, or too few of them are free.
    ///
    /// As with [`Full`](SubmitError::Full), [`Producer::patience`](crate::Producer::patience) makes a submit wait.
    #[error(
        "{wanted} cells for resumable tasks are wanted and {free} are free; drop tickets whose results were read, wait, or launch with more (`Spec::cells`)"
    )]
    NoCells { free: u64, wanted: u64 },
    /// There are more tasks of resumable handlers than the producer has cells.
    #[error(
        "{wanted} resumable tasks cannot be under way at once: each producer has {cells} cells (`Spec::cells`)"
    )]
    TooManyResumable { wanted: u64, cells: u64 },
    /// A task is to wait for an event that its tenant does not have.
    #[error("{}", no_event(*event, *events))]
    UnknownEvent { event: u32, events: u32 },
    /// A task of this opcode cannot wait for an event.
    #[error("{0} cannot wait for an event, because it is run as soon as the kernel finds it")]
    CannotWait(Opcode),
    /// There are more tasks than one stripe, which is a part of a ring, can ever hold. A fence is among them, so they
    /// cannot be spread over several stripes.
    #[error(
        "{wanted} tasks cannot be submitted at once with a fence among them: they must fit in one stripe of {slots} slots"
    )]
    TooLargeFenced { wanted: u64, slots: u64 },
    /// The opcode is reserved, and producers may not use it.
    #[error("{0} cannot be submitted: its opcode is reserved")]
    NotSubmittable(Opcode),
    /// The opcode belongs to an operation that this kernel does not have. Some operations of the protocol need a kernel
    /// whose `Spec` gives a handler for them (see [`PROVIDED_OPS`](crate::kernel::PROVIDED_OPS)), and others are in no
    /// kernel yet.
    #[error("{0} cannot be submitted: {why}", why = why_missing(*.0))]
    NotImplemented(Opcode),
    /// No tenant can have this number.
    #[error("there is no tenant {0}: tenants are numbered below {most}", most = Tenant::MAX_TENANTS)]
    UnknownTenant(TenantId),
    /// A task has a priority other than normal, but the session was launched without priorities.
    #[error(
        "priority {0} has no effect, because the session serves its rings in turn; launch with claim = priority"
    )]
    NoPriorities(Priority),
    /// Tasks that were submitted at once do not all have the same priority.
    #[error("tasks that are submitted at once have one priority, not both {0} and {1}")]
    MixedPriorities(Priority, Priority),
    /// A fence would have to wait for tasks in other stripes than its own.
    #[error(
        "a fence cannot wait for {count} tasks, because only the last {within} of them are in one stripe; \
         submit them at once, with the fence"
    )]
    FenceReach { count: u32, within: u64 },
    /// The payload of a task is longer than the `Spec` allows.
    #[error("a payload of {bytes} bytes cannot be submitted: it may have at most {most} (`Spec::payload`)")]
    PayloadTooLong { bytes: u64, most: u32 },
    /// A task has a payload, but the `Spec` gives tasks none.
    #[error("a payload of {bytes} bytes cannot be submitted: tasks have no payloads here (`Spec::payload`)")]
    NoPayloads { bytes: u64 },
    /// The session has ended. [`Producer::session_end`](crate::Producer::session_end) has the details.
    #[error("the session has ended: {0}")]
    Ended(EndReason),
}

/// Why a task has no result.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The task ended with a fault.
    #[error("{0}")]
    Fault(TaskFault),
    /// The task was cancelled, after this many of its steps had begun. Unless its handler is resumable, it never ran.
    #[error("the task was cancelled{}", after_steps(*steps))]
    Cancelled { steps: u32 },
    /// The session was stopped before the task ended, after this many of its steps had begun. Unless its handler is
    /// resumable, it never ran.
    #[error("the session was stopped before the task {}", if *steps == 0 { "ran".into() } else { format!("ended{}", after_steps(*steps)) })]
    Stopped { steps: u32 },
    /// The pass over the batch did not run the task: its tenant is disabled or has no credit, or the pass ended first.
    #[error(
        "the pass did not run the task: its tenant is disabled or has no credit, or the pass ended before"
    )]
    Left,
    /// The device was lost before the task ended. Either the session ended with it, and
    /// [`Session::session_end`](crate::Session::session_end) has the details, or the session has
    /// [recovered](crate::Recovery), and the task must not begin twice or made the kernel trap each time. `may_have_run` is false only if it is certain that
    /// the task had not begun.
    #[error("the task was lost before it {}: {reason}", if *may_have_run { "ended" } else { "began" })]
    Lost { reason: LossReason, may_have_run: bool },
    /// The task has not ended yet. It may be waited for again.
    #[error("the task has not ended yet")]
    Late,
}

/// Says that an event does not exist, and what gives a session events.
fn no_event(event: u32, events: u32) -> String {
    match events {
        0 => format!(
            "there is no event {event}, because there are no events here: a session has as many per tenant as `Spec::events` \
             says, and a drained batch has none"
        ),
        1 => format!("there is no event {event}: each tenant has only event 0 (`Spec::events`)"),
        events => {
            format!(
                "there is no event {event}: each tenant has the events 0 to {} (`Spec::events`)",
                events - 1
            )
        }
    }
}

/// Says that a graph is larger than those that a session takes.
fn too_large_graph(name: &str, found: usize, most: u32) -> String {
    match most {
        0 => format!(
            "graph {name:?} cannot be added, because this session has no room for graphs; launch with `Spec::graph_nodes` of at \
             least {found}, which is how many nodes the graph has"
        ),
        most => format!(
            "graph {name:?} has {found} nodes, and this session takes graphs of up to {most}; launch with a larger \
             `Spec::graph_nodes`"
        ),
    }
}

/// A number of parameters in words.
fn parameter_count(count: u32) -> String {
    match count {
        0 => "no parameters".into(),
        1 => "1 parameter".into(),
        count => format!("{count} parameters"),
    }
}

/// Says how many steps had begun, if any had.
fn after_steps(steps: u32) -> String {
    match steps {
        0 => String::new(),
        1 => " after one step had begun".into(),
        steps => format!(" after {steps} steps had begun"),
    }
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
