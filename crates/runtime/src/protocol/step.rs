//! The steps of the protocol: who accesses which word, in what sequence, and with what memory order and scope.
//!
//! Tests use this table as their model of rings. It has a row for every atomic access of the host's rings, and for
//! every one of an assembled kernel outside of its handlers. Rows with an order other than relaxed stand in the
//! sequence of the kernel's text, one row per access. A row with a relaxed order stands for all accesses like it. The
//! exploration of interleavings takes its orders from these rows, and every assembled kernel is compared with them, so
//! neither side can be weakened alone.

use pelton_ir::op::Op;
use pelton_ir::types::{Order, Scope};

use super::control;

/// Who takes a step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StepActor {
    /// A thread of the host: a producer, or the holder of a ticket.
    Host,
    /// The group that polls far rings, or the group that keeps the control words for the others.
    Router,
    /// A group that runs tasks.
    Group,
}

/// The step exists in kernels with near rings.
pub const NEAR: u16 = 1;
/// The step exists in kernels with far rings.
pub const FAR: u16 = 2;
/// The step exists in kernels that run drained batches.
pub const DRAIN: u16 = 4;
/// The step exists only where there can be fences, which is everywhere but in kernels with a single handler.
pub const FENCES: u16 = 8;
/// The step exists only where a group is one lane and all rings are near, so that the lane runs tasks where they lie.
pub const LANE: u16 = 16;
/// The step exists only where a group has several lanes, or where there are far rings too, so that groups copy lines.
pub const LANES: u16 = 32;
/// The step exists only where a group is at least one subgroup, which then watches its rings.
pub const WATCH: u16 = 64;
/// The step exists only where the device works in the host's memory.
pub const LOCAL: u16 = 128;
/// The step exists only where near groups read the host's control words themselves.
pub const OWN: u16 = 256;
/// The step exists only where another group keeps the host's control words for near groups, because the device has
/// memory of its own or because there is a router.
pub const KEPT: u16 = 512;
/// The step exists only where the group that keeps the control words does nothing else, because there is no router.
pub const KEEPER: u16 = 1024;

/// The step exists only where pollers are told about changed control words. On a device with memory of its own, these
/// are the watches of near groups and the subgroups of a router that polls in teams.
pub const TOLD: u16 = 2048;
/// The step exists only where the keeper of the control words tells pollers about a change.
pub const TELLS: u16 = 4096;

/// The step exists only where the device has memory of its own.
pub const REMOTE: u16 = 8192;

/// The step exists only where tasks have payloads.
pub const PAYLOAD: u16 = 16384;
/// The step exists only where tasks have replies.
pub const REPLY: u16 = 32768;

const KINDS: u16 = NEAR | FAR | DRAIN;
const LIVE: u16 = NEAR | FAR;

/// One access of the protocol: who makes it, to what, and how it is ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtocolStep {
    /// The name of the step. Relaxed accesses with the same purpose share a name.
    pub name: &'static str,
    /// Who takes the step.
    pub actor: StepActor,
    /// The operation of the access.
    pub op: Op,
    /// The name of the buffer, which is empty for a fence.
    pub buffer: &'static str,
    /// The number of the word, if it is always the same.
    pub word: Option<u32>,
    /// The memory order of the access.
    pub order: Order,
    /// The scope of the access.
    pub scope: Scope,
    /// The kernels in which the step exists: a set of kinds, and everything that such a kernel must have.
    pub shapes: u16,
    /// What the step is for. This is empty if the access is relaxed.
    pub doc: &'static str,
}

impl ProtocolStep {
    /// Returns whether the step orders other accesses, so whether it is not relaxed.
    pub fn orders(&self) -> bool {
        self.order != Order::Relaxed
    }

    /// Returns whether the step exists in kernels of this shape, which is one kind and everything that the kernel has.
    pub const fn exists_in(&self, shape: u16) -> bool {
        self.shapes & shape & KINDS != 0 && self.shapes & !KINDS & !shape == 0
    }
}

/// Returns the first step with this name that orders other accesses.
pub fn ordering_step(name: &str) -> Option<&'static ProtocolStep> {
    TABLE.iter().find(|step| step.name == name && step.orders())
}

/// Returns the steps of a kernel of this shape.
pub fn kernel_steps(shape: u16) -> impl Iterator<Item = &'static ProtocolStep> {
    TABLE.iter().filter(move |step| step.actor != StepActor::Host && step.exists_in(shape))
}

macro_rules! fixed_word {
    () => {
        None
    };
    ($word:expr) => {
        Some($word)
    };
}

macro_rules! steps {
    ($($name:literal $who:ident $op:ident $buffer:literal $([$word:expr])? $order:ident $scope:ident ($shapes:expr) $doc:literal;)*) => {
        /// Every step: first those of the host in the life of a task, then those of the kernel in the sequence of its
        /// text.
        pub const TABLE: &[ProtocolStep] = &[$(ProtocolStep {
            name: $name,
            actor: StepActor::$who,
            op: Op::$op,
            buffer: $buffer,
            word: fixed_word!($($word)?),
            order: Order::$order,
            scope: Scope::$scope,
            shapes: $shapes,
            doc: $doc,
        },)*];
    };
}

/// The word of the kernel's flags that tells its groups to halt.
pub(crate) const HALT: u32 = 1;

/// The names of words that only the host sees and that steps refer to.
pub(crate) const HOST_WORDS: &[&str] = &["taken", "state"];

#[rustfmt::skip]
mod rows {
use super::*;
steps! {
    "write"    Host   AtomicStore "slots"   Relaxed System (LIVE) "";
    "bring"    Host   AtomicStore "payload" Relaxed System (LIVE | PAYLOAD) "";
    "bring"    Host   AtomicStore "payload_bytes" Relaxed System (LIVE | PAYLOAD) "";
    "publish"  Host   AtomicStore "slots"   Release System (LIVE) "Stores words 0-1, after the rest of the line and everything that the task points to.";
    "commit"   Host   AtomicStore "tails"   Release System (FAR)  "Stores the tail, after the lines of a batch.";
    "see"      Host   AtomicLoad  "done"    Acquire System (LIVE) "Loads the record, and then sees what the task wrote.";
    "fetch"    Host   AtomicLoad  "reply_said" Relaxed System (LIVE | REPLY) "";
    "fetch"    Host   AtomicLoad  "reply"   Relaxed System (LIVE | REPLY) "";
    "give up"  Host   AtomicStore "taken"   Release System (LIVE) "A ticket gives up its slots after it has read their records.";
    "reclaim"  Host   AtomicLoad  "taken"   Acquire System (LIVE) "The producer finds that slots were given up and may write them again.";
    "clear"    Host   AtomicStore "taken"   Relaxed System (LIVE) "";
    "read"     Host   AtomicLoad  "slots"   Relaxed System (LIVE) "";
    "cancel"   Host   AtomicStore "slots"   Release System (LIVE) "Stores words 0-1 with the opcode CANCEL, after the new check.";
    "set"      Host   AtomicStore "host"    Relaxed System (LIVE) "";
    "change"   Host   AtomicStore "host" [control::CHANGED] Release System (LIVE) "Stores CHANGED, after the word that it names.";
    "heard"    Host   AtomicLoad  "acks"    Acquire System (LIVE) "Loads the keeper's answer. Every task that is submitted from here on meets the change.";
    "stop"     Host   AtomicStore "host" [control::SHUTDOWN] Release System (LIVE) "Stores SHUTDOWN, after everything that the host did before.";
    "succeed"  Host   AtomicAdd   "state"   Relaxed System (LIVE) "";
    "serving"  Host   AtomicLoad  "state"   Relaxed System (LIVE) "";
    "end"      Host   AtomicOr    "state"   Release System (LIVE) "Marks the session as ended, after the kernel's last record.";
    "ended"    Host   AtomicLoad  "state"   Acquire System (LIVE) "Sees that the session has ended, so that a task without a record will never have one.";

    "arrive"   Group  AtomicAdd   "flags"   Relaxed Device (LIVE) "";
    "hear"     Router AtomicLoad  "flags"   Relaxed Device (LIVE) "";
    "mirror"   Router AtomicLoad  "host"    Relaxed System (LIVE) "";
    "mirror"   Router AtomicStore "mirror"  Relaxed Device (LIVE) "";
    "notice"   Group  AtomicLoad  "notices" Relaxed Device (LIVE) "";
    "away"     Group  AtomicOr    "notices" Relaxed Device (NEAR) "";
    "back"     Group  AtomicAnd   "notices" Relaxed Device (NEAR) "";
    "open"     Group  AtomicLoad  "mirror"  Relaxed Device (LIVE) "";
    "look"     Group  AtomicLoad  "slots"   Relaxed System (LIVE) "";
    "line"     Group  LoadWide    "slots"   Relaxed System (KINDS) "";
    "line"     Group  StoreWide   "window"  Relaxed Group  (KINDS) "";
    "limit"    Group  AtomicMin   "state"   Relaxed Group  (NEAR) "";
    "claimed"  Group  AtomicLoad  "route"   Relaxed Device (FAR) "";
    "claimed"  Router AtomicStore "route"   Relaxed Device (FAR) "";
    "claim"    Group  AtomicCas   "route"   Relaxed Device (FAR) "";
    "credit"   Group  AtomicLoad  "control" Relaxed Device (LIVE) "";
    "credit"   Group  AtomicAdd   "control" Relaxed Device (KINDS) "";
    "credit"   Group  AtomicSub   "control" Relaxed Device (KINDS) "";
    "next"     Group  AtomicAdd   "front"   Relaxed Device (DRAIN) "";
    "frontier" Group  AtomicLoad  "front"   Relaxed Device (FAR | DRAIN) "";
    "frontier" Group  AtomicStore "front"   Relaxed Device (FAR) "";
    "count"    Group  AtomicAdd   "tally"   Relaxed Group  (KINDS) "";
    "count"    Group  AtomicAdd   "rows"    Relaxed Device (KINDS) "";
    "count"    Group  AtomicLoad  "rows"    Relaxed System (LIVE) "";
    "count"    Group  AtomicStore "rows"    Relaxed System (LIVE) "";
    "record"   Group  AtomicStore "done"    Relaxed System (KINDS) "";
    "length"   Group  AtomicLoad  "payload_bytes" Relaxed System (KINDS | PAYLOAD) "";
    "payload"  Group  LoadWide    "payload" Relaxed System (KINDS | PAYLOAD | REMOTE) "";
    "payload"  Group  StoreWide   "payload_copy" Relaxed Group (KINDS | PAYLOAD | REMOTE) "";
    "empty"    Group  StoreWide   "reply"   Relaxed Group  (KINDS | REPLY | LOCAL) "";
    "empty"    Group  StoreWide   "reply_copy" Relaxed Group (KINDS | REPLY | REMOTE) "";
    "said"     Group  AtomicStore "reply_said" Relaxed System (KINDS | REPLY) "";
    "reply"    Group  LoadWide    "reply_copy" Relaxed Group (KINDS | REPLY | REMOTE) "";
    "reply"    Group  StoreWide   "reply"   Relaxed System (KINDS | REPLY | REMOTE) "";
    "wanted"   Group  LoadWide    "pass"    Relaxed System (DRAIN) "";
    "total"    Group  AtomicLoad  "rows"    Relaxed Device (DRAIN) "";
    "total"    Group  AtomicLoad  "control" Relaxed Device (DRAIN) "";
    "report"   Group  AtomicStore "report"  Relaxed System (DRAIN) "";
    "tag"      Group  AtomicStore "observables" Relaxed System (KINDS) "";

    "changed"  Router AtomicLoad  "host" [control::CHANGED] Acquire System (FAR) "Loads CHANGED, and then sees the word that it names.";
    "changed"  Router AtomicLoad  "host" [control::CHANGED] Acquire System (NEAR | KEEPER) "The same, by the group that keeps the control words.";
    "tell"     Router AtomicOr    "notices" Release Device (FAR | TELLS) "Tells a poller about a change, after changing the copy.";
    "tell"     Router AtomicOr    "notices" Release Device (NEAR | KEEPER | TELLS) "The same, by the group that keeps the control words.";
    "told"     Router AtomicLoad  "notices" Acquire Device (FAR | TELLS) "Sees that a poller knows of the change or is away, so that it no longer uses what it read from the copy before.";
    "told"     Router AtomicLoad  "notices" Acquire Device (NEAR | KEEPER | TELLS) "The same, by the group that keeps the control words.";
    "answer"   Router AtomicStore "acks"    Release System (FAR)  "Answers that the change has taken effect, after the copy was changed and all pollers know.";
    "answer"   Router AtomicStore "acks"    Release System (NEAR | KEEPER) "The same, by the group that keeps the control words.";
    "stopped"  Router AtomicLoad  "host" [control::SHUTDOWN] Acquire System (FAR) "Loads SHUTDOWN, and then sees what the host did before.";
    "stopped"  Router AtomicLoad  "host" [control::SHUTDOWN] Acquire System (NEAR | KEEPER) "The same, by the group that keeps the control words.";
    "halt"     Router AtomicStore "flags" [HALT] Release Device (FAR) "Tells the groups to halt, after the host has told the router.";
    "halt"     Router AtomicStore "flags" [HALT] Release Device (NEAR | KEEPER) "The same, by the group that keeps the control words.";
    "route"    Router AtomicLoad  "tails"   Acquire System (FAR)  "Loads the tail, and then sees the lines before it.";
    "taken"    Router Fence       ""        Acquire System (FAR | LOCAL) "Follows a line that the router read at once and found complete, and then sees what the task points to.";
    "taken"    Group  Fence       ""        Acquire System (NEAR | WATCH | LOCAL) "The same, for a line that a watch has read.";
    "post"     Router AtomicStore "done"    Release System (FAR)  "Stores the record of a task that the router ran, after the effects of the task.";
    "post"     Group  AtomicStore "done"    Release System (NEAR | WATCH) "The same, for a task that a watch ran.";
    "pass"     Router Fence       ""        AcqRel  Device (FAR | FENCES) "Stands between the router's load of the frontier and its store to it.";
    "pass on"  Router AtomicStore "route"   Release Device (FAR)  "Stores the tail after a task that the router ran, after the claim.";
    "pass on"  Router AtomicStore "route"   Release Device (FAR)  "Stores the tail in device memory, by the lane that acquired it.";
    "heed"     Router Fence       ""        Acquire Device (FAR | TOLD) "Follows a poller's discovery that it was told, and then sees the copy as it is now.";
    "heed"     Group  Fence       ""        Acquire Device (NEAR | TOLD) "The same, for the watch of a near group.";
    "know"     Router AtomicAnd   "notices" Release Device (FAR | TOLD) "Says that a poller of the router knows of the change, after its last use of what it had read.";
    "know"     Group  AtomicAnd   "notices" Release Device (NEAR | TOLD) "The same, for the watch of a near group.";
    "stopped"  Group  AtomicLoad  "host" [control::SHUTDOWN] Acquire System (NEAR | OWN) "Loads SHUTDOWN, starts no new windows, and sees what the host did before.";
    "halted"   Group  AtomicLoad  "flags" [HALT] Acquire Device (FAR) "Loads the order to halt, starts no new windows, and sees what the host did before.";
    "halted"   Group  AtomicLoad  "flags" [HALT] Acquire Device (NEAR | KEPT) "The same, where a group keeps the control words.";
    "take"     Group  AtomicLoad  "slots"   Acquire System (NEAR | LANE) "Loads words 0-1 of a line, and then sees the rest of it and what the task points to.";
    "taken"    Group  Fence       ""        Acquire System (NEAR | LANES | LOCAL) "Follows a line that was read at once and found complete, and then sees what the task points to.";
    "lines"    Group  Fence       ""        AcqRel  Device (NEAR | LANES | REMOTE) "Follows the lines of a window. It makes visible what a copy brought to the device's memory before, whatever the nearest cache holds, and who finds the group away knows that the lines were read.";
    "brought"  Group  Fence       ""        Acquire System (NEAR | LANES | REMOTE | PAYLOAD) "Follows the lines of a window that lay in the device's memory, and then sees the payloads that the host wrote to its own memory before it wrote the lines.";
    "tail"     Group  AtomicLoad  "route"   Acquire Device (FAR)  "Loads the tail in device memory, and then sees the lines before it. The tail may be older than the claim.";
    "room"     Group  AtomicLoad  "front"   Acquire Device (FAR | FENCES) "Loads the frontier. The marks below it have been read and may be written again one lap later.";
    "complete" Group  Fence       ""        AcqRel  System (LIVE) "One fence per window, between the effects of its tasks and their records.";
    "mark"     Group  AtomicStore "marks"   Release Device (FAR | DRAIN | FENCES) "Marks where the tasks before a fence end, after their records.";
    "mark"     Group  AtomicStore "marks"   Release Device (FAR | DRAIN | FENCES) "Marks where a fence is.";
    "mark"     Group  AtomicStore "marks"   Release Device (FAR | DRAIN | FENCES) "Marks where a window ends, after its records.";
    "news"     Group  AtomicAdd   "front"   AcqRel  Device (FAR | DRAIN | FENCES) "Counts one more mark. The group that finds zero follows the marks, and has seen all marks that were counted off before.";
    "follow"   Group  AtomicLoad  "marks"   Acquire Device (FAR | DRAIN | FENCES) "Loads a mark. The tasks that it covers have ended, even if the mark has not been counted yet.";
    "settle"   Group  Fence       ""        AcqRel  System (KINDS | FENCES) "Stands between the ends of the tasks before a fence and the epoch.";
    "show"     Group  Fence       ""        AcqRel  System (KINDS | FENCES) "Stands between the epoch and the fence's own record.";
    "front"    Group  AtomicStore "front"   Release Device (FAR | DRAIN | FENCES) "Stores the frontier, after the marks below it were read.";
    "quiet"    Group  AtomicSub   "front"   AcqRel  Device (FAR | DRAIN | FENCES) "Counts off the marks that were seen. The next group that follows the marks sees the frontier.";
    "leave"    Group  AtomicAdd   "front"   AcqRel  Device (DRAIN) "Says that a group has counted its last task. The last group to leave has seen all counts and reports them to the host.";
}
}

pub use rows::TABLE;
