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
pub const NEAR: u32 = 1;
/// The step exists in kernels with far rings.
pub const FAR: u32 = 2;
/// The step exists in kernels that run drained batches.
pub const DRAIN: u32 = 4;
/// The step exists only where there can be fences, which is everywhere but in kernels with a single handler.
pub const FENCES: u32 = 8;
/// The step exists only where a group is one lane and all rings are near, so that the lane runs tasks where they lie.
pub const LANE: u32 = 16;
/// The step exists only where a group has several lanes, or where there are far rings too, so that groups copy lines.
pub const LANES: u32 = 32;
/// The step exists only where a group is at least one subgroup, which then watches its rings.
pub const WATCH: u32 = 64;
/// The step exists only where the device works in the host's memory.
pub const LOCAL: u32 = 128;
/// The step exists only where near groups read the host's control words themselves.
pub const OWN: u32 = 256;
/// The step exists only where another group keeps the host's control words for near groups, because the device has
/// memory of its own or because there is a router.
pub const KEPT: u32 = 512;
/// The step exists only where the group that keeps the control words does nothing else, because there is no router.
pub const KEEPER: u32 = 1024;

/// The step exists only where pollers are told about changed control words. On a device with memory of its own, these
/// are the watches of near groups and the subgroups of a router that polls in teams.
pub const TOLD: u32 = 2048;
/// The step exists only where the keeper of the control words tells pollers about a change.
pub const TELLS: u32 = 4096;

/// The step exists only where the device has memory of its own.
pub const REMOTE: u32 = 8192;

/// The step exists only where tasks have payloads.
pub const PAYLOAD: u32 = 16384;
/// The step exists only where tasks have replies.
pub const REPLY: u32 = 32768;

/// The step exists only where tasks can take several steps. In a session, these tasks live in cells.
pub const STEPS: u32 = 1 << 16;
/// The step exists only where lane-wide tasks can take several steps.
pub const LANE_STEPS: u32 = 1 << 17;
/// The step exists only where group-wide tasks can take several steps.
pub const GROUP_STEPS: u32 = 1 << 18;
/// The step exists only where windows leave marks, because a fence may have to wait for something other than its own
/// window: in far rings, in drained batches, and where tasks live in cells.
pub const MARKS: u32 = 1 << 19;
/// The step exists in the function that follows the marks of a ring, where several places of the kernel call it. This is
/// so where tasks live in cells, because whoever ends one may have to follow marks.
pub const FOLLOW: u32 = 1 << 20;
/// The step exists only where marks are followed: in that function, or in a kernel of which only one place calls it.
pub const FOLLOWS: u32 = 1 << 21;
/// The step exists only where there are near and far rings.
pub const PAIR: u32 = 1 << 22;

/// The step exists only where tasks neither make nor await other tasks.
pub const ALONE: u32 = 1 << 23;
/// The step exists only where tasks make or await other tasks, because they can spawn some or there are events or graphs.
pub const TREES: u32 = 1 << 24;
/// The step exists only where tasks can spawn others.
pub const SPAWNS: u32 = 1 << 25;
/// The step exists only where there are events.
pub const EVENTS: u32 = 1 << 26;
/// The step exists only where there can be graphs.
pub const GRAPHS: u32 = 1 << 27;
/// The step exists in a task, which asks the runtime for it: with [`SPAWNS`], it reserves room for children; with
/// [`EVENTS`], it signals an event; with [`GRAPHS`], it launches a graph.
pub const VERB: u32 = 1 << 28;
/// The step exists where a list of tasks that wait for an event is looked at, which several places of the kernel do.
pub const WAKE: u32 = 1 << 29;

/// The step exists only where the session can recover after its device was lost.
pub const RECOVERY: u32 = 1 << 30;
/// The step exists only where such a session has a handler whose tasks must not begin twice.
pub const ONCE: u32 = 1 << 31;

const KINDS: u32 = NEAR | FAR | DRAIN | FOLLOW | VERB | WAKE;
const LIVE: u32 = NEAR | FAR;

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
    pub shapes: u32,
    /// What the step is for. This is empty if the access is relaxed.
    pub doc: &'static str,
}

impl ProtocolStep {
    /// Returns whether the step orders other accesses, so whether it is not relaxed.
    pub fn orders(&self) -> bool {
        self.order != Order::Relaxed
    }

    /// Returns whether the step exists in kernels of this shape, which is one kind and everything that the kernel has.
    pub const fn exists_in(&self, shape: u32) -> bool {
        self.shapes & shape & KINDS != 0 && self.shapes & !KINDS & !shape == 0
    }
}

/// Returns the first step with this name that orders other accesses.
pub fn ordering_step(name: &str) -> Option<&'static ProtocolStep> {
    TABLE.iter().find(|step| step.name == name && step.orders())
}

/// Returns the steps of a kernel of this shape, or of what a task asks of the runtime. Where tasks live in cells, several
/// places of a kernel count news and may then follow marks, so the steps that follow marks come after each of them. In the
/// same way, the steps that wake tasks come after each step that makes somebody look for tasks that wait for an event.
pub fn kernel_steps(shape: u32) -> impl Iterator<Item = &'static ProtocolStep> {
    let steps =
        |shape: u32| TABLE.iter().filter(move |step| step.actor != StepActor::Host && step.exists_in(shape));
    let has_cells = shape & STEPS != 0 && shape & DRAIN == 0;
    steps(shape).flat_map(move |step| {
        let then = match step.name {
            "news" if has_cells => FOLLOW | FOLLOWS | FENCES | STEPS,
            // A task whose session recovers notes its signal before it wakes anybody.
            "signal" if shape & VERB != 0 && shape & RECOVERY != 0 => 0,
            "signal" | "noted" | "present" | "recheck" => WAKE | STEPS | TREES | EVENTS,
            _ => 0,
        };
        std::iter::once(step).chain(steps(then))
    })
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
pub(crate) const HOST_WORDS: &[&str] = &["taken", "state", "cell_uses"];

#[rustfmt::skip]
mod rows {
use super::*;
steps! {
    "write"    Host   AtomicStore "slots"   Relaxed System (LIVE) "";
    "bring"    Host   AtomicStore "payload" Relaxed System (LIVE | PAYLOAD) "";
    "bring"    Host   AtomicStore "payload_bytes" Relaxed System (LIVE | PAYLOAD) "";
    "condition" Host  AtomicStore "after"   Relaxed System (LIVE | EVENTS) "";
    "publish"  Host   AtomicStore "slots"   Release System (LIVE) "Stores words 0-1, after the rest of the line and everything that the task points to.";
    "commit"   Host   AtomicStore "tails"   Release System (FAR)  "Stores the tail, after the lines of a batch.";
    "see"      Host   AtomicLoad  "done"    Acquire System (LIVE) "Loads the record, and then sees what the task wrote.";
    "fetch"    Host   AtomicLoad  "reply_said" Relaxed System (LIVE | REPLY) "";
    "fetch"    Host   AtomicLoad  "reply"   Relaxed System (LIVE | REPLY) "";
    "lose"     Host   AtomicStore "done"    Release System (LIVE | RECOVERY) "Stores the record of a task that may have run when the device was lost. No kernel runs then, and the kernels before and after do not post this record.";
    "begun"    Host   AtomicLoad  "task_begun" Relaxed System (LIVE | RECOVERY) "";
    "begun"    Host   AtomicLoad  "cell_begun" Relaxed System (LIVE | RECOVERY | STEPS) "";
    "noted"    Host   AtomicLoad  "event_notes" Relaxed System (LIVE | RECOVERY | EVENTS) "";
    "lose"     Host   AtomicStore "cell_done" Release System (LIVE | RECOVERY | STEPS) "The same for a task that lives in a cell.";
    "applied"  Host   AtomicStore "answers" Release System (LIVE | RECOVERY | STEPS) "Says on behalf of a kernel that was lost that all asks were applied. No kernel runs then.";
    "epoch"    Host   AtomicLoad  "epochs"  Relaxed System (LIVE | RECOVERY) "";
    "number"   Host   AtomicLoad  "serial_numbers" Relaxed System (LIVE | RECOVERY) "";
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
    "begin use" Host  AtomicStore "cell_uses" Release System (LIVE | STEPS) "Says which use of a cell begins, before the slot that carries the task there is published.";
    "look use" Host   AtomicLoad  "cell_uses" Acquire System (LIVE | STEPS) "Finds the use of a cell, for whoever looks for tasks that have not ended.";
    "end use"  Host   AtomicStore "cell_uses" Relaxed System (LIVE | STEPS) "";
    "own use"  Host   AtomicLoad  "cell_uses" Relaxed System (LIVE | STEPS) "";
    "see"      Host   AtomicLoad  "cell_done" Acquire System (LIVE | STEPS) "Loads the record of a cell, and then sees what the task wrote. The cell may be used again once its ticket has given it up.";
    "ask"      Host   AtomicStore "asks"    Relaxed System (LIVE | STEPS) "";
    "asks"     Host   AtomicStore "asks" [0] Release System (LIVE | STEPS) "Stores the count of asks, after the ask.";
    "answered" Host   AtomicLoad  "answers" Acquire System (LIVE | STEPS) "Finds how many asks were applied, and may overwrite these.";
    "graph"    Host   Fence       ""        Release System (LIVE | GRAPHS) "Stands between the words of a graph with its generation and the place in the directory.";
    "remove"   Host   Fence       ""        SeqCst  System (LIVE | GRAPHS) "Stands between the directory, from which a graph was taken, and the look at the count of its launches.";
    "removed"  Host   Fence       ""        Acquire System (LIVE | GRAPHS) "Follows a count of launches that was 0. The words of the graph were read and may be written again.";

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
    "frontier" Group  AtomicLoad  "front"   Relaxed Device (KINDS | MARKS) "";
    "frontier" Group  AtomicStore "front"   Relaxed Device (LIVE | MARKS) "";
    "count"    Group  AtomicAdd   "tally"   Relaxed Group  (KINDS) "";
    "count"    Group  AtomicAdd   "rows"    Relaxed Device (KINDS) "";
    "count"    Group  AtomicLoad  "rows"    Relaxed System (LIVE) "";
    "count"    Group  AtomicStore "rows"    Relaxed System (LIVE) "";
    "record"   Group  AtomicStore "done"    Relaxed System (KINDS) "";
    "passed"   Group  AtomicLoad  "done"    Relaxed System (LIVE | RECOVERY) "";
    "passed"   Group  AtomicAdd   "passed"  Relaxed Group  (LIVE | RECOVERY) "";
    "epoch"    Group  AtomicStore "epochs"  Relaxed System (LIVE | RECOVERY) "";
    "begun"    Group  AtomicStore "task_begun" Relaxed System (LIVE | RECOVERY | ONCE) "";
    "begun"    Group  AtomicStore "cell_begun" Relaxed System (LIVE | RECOVERY | ONCE | STEPS) "";
    "signals"  Group  AtomicLoad  "task_signals" Relaxed Device (LIVE | VERB | RECOVERY | EVENTS) "";
    "note"     Group  AtomicStore "event_notes" Relaxed System (LIVE | VERB | RECOVERY | EVENTS) "";
    "number"   Group  AtomicStore "serial_numbers" Relaxed System (LIVE | RECOVERY) "";
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
    "wides"    Group  AtomicAdd   "state"   Relaxed Group  (KINDS | STEPS | GROUP_STEPS) "";
    "active"   Group  AtomicAdd   "active"  Relaxed Group  (DRAIN | STEPS) "";
    "active"   Group  AtomicSub   "active"  Relaxed Group  (DRAIN | STEPS) "";
    "state"    Group  AtomicLoad  "cells"   Relaxed Device (LIVE | FOLLOW | STEPS) "";
    "fact"     Group  AtomicLoad  "cell_facts" Relaxed Device (LIVE | FOLLOW | STEPS) "";
    "fact"     Group  AtomicStore "cell_facts" Relaxed Device (LIVE | STEPS) "";
    "record"   Group  AtomicStore "cell_done" Relaxed System (LIVE | STEPS) "";
    "steps"    Group  AtomicLoad  "step_counts" Relaxed System (LIVE | STEPS) "";
    "steps"    Group  AtomicStore "step_counts" Relaxed System (LIVE | STEPS) "";
    "ask"      Group  AtomicLoad  "asks"    Relaxed System (LIVE | STEPS) "";
    "home"     Group  AtomicAdd   "home_words" Relaxed Group (LIVE | STEPS) "";
    "home"     Group  AtomicSub   "home_words" Relaxed Group (LIVE | STEPS) "";
    "home"     Group  AtomicLoad  "home_words" Relaxed Group (LIVE | STEPS | GRAPHS) "";
    "home"     Group  AtomicMin   "home_words" Relaxed Group (LIVE | STEPS) "";
    "place"    Group  AtomicAdd   "ready_ends" Relaxed Device (LIVE | STEPS) "";
    "ends"     Group  AtomicLoad  "ready_ends" Relaxed Device (LIVE | STEPS) "";
    "claim"    Group  AtomicCas   "ready_ends" Relaxed Device (LIVE | STEPS) "";
    "state"    Group  AtomicLoad  "cells"   Relaxed Device (VERB | WAKE | STEPS) "";
    "place"    Group  AtomicAdd   "ready_ends" Relaxed Device (VERB | WAKE | STEPS) "";
    "home"     Group  AtomicAdd   "home_words" Relaxed Group (VERB | STEPS) "";
    "home"     Group  AtomicSub   "home_words" Relaxed Group (VERB | STEPS) "";
    "credit"   Group  AtomicLoad  "control" Relaxed Device (VERB | SPAWNS) "";
    "credit"   Group  AtomicLoad  "host"    Relaxed System (VERB | SPAWNS) "";
    "begin"    Group  AtomicStore "cells"   Relaxed Device (LIVE | VERB | STEPS | TREES) "";
    "link"     Group  AtomicLoad  "tree"    Relaxed Device (LIVE | VERB | WAKE | STEPS | TREES) "";
    "link"     Group  AtomicStore "tree"    Relaxed Device (LIVE | VERB | STEPS | TREES) "";
    "fault"    Group  AtomicAdd   "tree"    Relaxed Device (LIVE | STEPS | TREES) "";
    "fault"    Group  AtomicCas   "tree"    Relaxed Device (LIVE | STEPS | TREES | GRAPHS) "";
    "idle"     Group  AtomicLoad  "idle_groups" Relaxed Device (LIVE | STEPS | TREES) "";
    "idle"     Group  AtomicAdd   "idle_groups" Relaxed Device (LIVE | STEPS | TREES) "";
    "room for" Group  AtomicLoad  "free_cells" Relaxed Device (VERB | SPAWNS) "";
    "end wait" Group  AtomicSub   "cells"   Relaxed Device (LIVE | STEPS | EVENTS) "";
    "condition" Group AtomicLoad  "after"   Relaxed System (LIVE | STEPS | EVENTS) "";
    "launches" Group  AtomicAdd   "graph_launches" Relaxed Device (VERB | GRAPHS) "";
    "entry"    Group  AtomicLoad  "graphs"  Relaxed Device (VERB | GRAPHS) "";
    "graph"    Group  AtomicLoad  "graph_words" Relaxed Device (LIVE | VERB | STEPS | GRAPHS) "";
    "room for" Group  AtomicLoad  "free_instances" Relaxed Device (VERB | GRAPHS) "";
    "children" Group  AtomicAdd   "cells"   Relaxed Device (VERB | GRAPHS) "";
    "left"     Group  AtomicStore "nodes_left" Relaxed Device (VERB | GRAPHS) "";
    "pay"      Group  AtomicSub   "cells"   Relaxed Device (LIVE | STEPS | GRAPHS) "";

    "changed"  Router AtomicLoad  "host" [control::CHANGED] Acquire System (FAR) "Loads CHANGED, and then sees the word that it names.";
    "changed"  Router AtomicLoad  "host" [control::CHANGED] Acquire System (NEAR | KEEPER) "The same, by the group that keeps the control words.";
    "tell"     Router AtomicOr    "notices" Release Device (FAR | TELLS) "Tells a poller about a change, after changing the copy.";
    "tell"     Router AtomicOr    "notices" Release Device (NEAR | KEEPER | TELLS) "The same, by the group that keeps the control words.";
    "told"     Router AtomicLoad  "notices" Acquire Device (FAR | TELLS) "Sees that a poller knows of the change or is away, so that it no longer uses what it read from the copy before.";
    "told"     Router AtomicLoad  "notices" Acquire Device (NEAR | KEEPER | TELLS) "The same, by the group that keeps the control words.";
    "answer"   Router AtomicStore "acks"    Release System (FAR)  "Answers that the change has taken effect, after the copy was changed and all pollers know.";
    "answer"   Router AtomicStore "acks"    Release System (NEAR | KEEPER) "The same, by the group that keeps the control words.";
    "asked"    Router AtomicLoad  "asks" [0] Acquire System (FAR | STEPS) "Loads the count of asks, and then sees the asks.";
    "signal"   Router AtomicAdd   "events"  AcqRel  Device (FAR | STEPS | EVENTS) "Raises the count of an event that the host has signalled, after everything that was done before.";
    "apply"    Router AtomicCas   "cells"   AcqRel  Device (FAR | STEPS) "Applies an ask to the state of its cell. If a task has to go on because of it, the words of its cell are seen.";
    "ready"    Router AtomicStore "ready"   Release Device (FAR | STEPS) "Puts a cell into the queue of its tenant and level, after the words of the cell.";
    "count cancel" Router AtomicAdd   "cancels" Release Device (FAR | STEPS | EVENTS) "Counts a task that was cancelled, after its state was changed.";
    "present"  Router AtomicLoad  "events"  Acquire Device (FAR | STEPS | EVENTS) "Loads the count of an event for which tasks that were cancelled may wait. Others that wait for it may go on, and see what was done before the signal.";
    "pass ask" Router AtomicStore "applied" Release Device (FAR | STEPS) "Says how many asks were applied, after the states of their cells were changed.";
    "applied"  Router AtomicStore "answers" Release System (FAR | STEPS) "Says how many asks were applied, after they were read.";
    "asked"    Router AtomicLoad  "asks" [0] Acquire System (NEAR | KEEPER | STEPS) "The same, by the group that keeps the control words.";
    "signal"   Router AtomicAdd   "events"  AcqRel  Device (NEAR | KEEPER | STEPS | EVENTS) "The same, by the group that keeps the control words.";
    "apply"    Router AtomicCas   "cells"   AcqRel  Device (NEAR | KEEPER | STEPS) "The same, by the group that keeps the control words.";
    "ready"    Router AtomicStore "ready"   Release Device (NEAR | KEEPER | STEPS) "The same, by the group that keeps the control words.";
    "count cancel" Router AtomicAdd   "cancels" Release Device (NEAR | KEEPER | STEPS | EVENTS) "The same, by the group that keeps the control words.";
    "present"  Router AtomicLoad  "events"  Acquire Device (NEAR | KEEPER | STEPS | EVENTS) "The same, by the group that keeps the control words.";
    "pass ask" Router AtomicStore "applied" Release Device (NEAR | KEEPER | STEPS) "The same, by the group that keeps the control words.";
    "applied"  Router AtomicStore "answers" Release System (NEAR | KEEPER | STEPS) "The same, by the group that keeps the control words.";
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
    "pass"     Group  Fence       ""        AcqRel  Device (NEAR | WATCH | FENCES | MARKS) "Stands between the load of the frontier and the store to it, for a task that a watch ran.";
    "heed"     Router Fence       ""        Acquire Device (FAR | TOLD) "Follows a poller's discovery that it was told, and then sees the copy as it is now.";
    "heed"     Group  Fence       ""        Acquire Device (NEAR | TOLD) "The same, for the watch of a near group.";
    "know"     Router AtomicAnd   "notices" Release Device (FAR | TOLD) "Says that a poller of the router knows of the change, after its last use of what it had read.";
    "know"     Group  AtomicAnd   "notices" Release Device (NEAR | TOLD) "The same, for the watch of a near group.";
    "stopped"  Group  AtomicLoad  "host" [control::SHUTDOWN] Acquire System (NEAR | OWN) "Loads SHUTDOWN, starts no new windows, and sees what the host did before.";
    "halted"   Group  AtomicLoad  "flags" [HALT] Acquire Device (FAR) "Loads the order to halt, starts no new windows, and sees what the host did before.";
    "halted"   Group  AtomicLoad  "flags" [HALT] Acquire Device (NEAR | KEPT) "The same, where a group keeps the control words.";
    "room"     Group  AtomicLoad  "front"   Acquire Device (NEAR | LANE | FENCES | MARKS) "Loads the frontier. The marks below it have been read and may be written again one lap later.";
    "take"     Group  AtomicLoad  "slots"   Acquire System (NEAR | LANE) "Loads words 0-1 of a line, and then sees the rest of it and what the task points to.";
    "taken"    Group  Fence       ""        Acquire System (NEAR | LANES | LOCAL) "Follows a line that was read at once and found complete, and then sees what the task points to.";
    "lines"    Group  Fence       ""        AcqRel  Device (NEAR | LANES | REMOTE) "Follows the lines of a window. It makes visible what a copy brought to the device's memory before, whatever the nearest cache holds, and who finds the group away knows that the lines were read.";
    "brought"  Group  Fence       ""        Acquire System (NEAR | LANES | REMOTE | PAYLOAD) "Follows the lines of a window that lay in the device's memory, and then sees the payloads that the host wrote to its own memory before it wrote the lines.";
    "room"     Group  AtomicLoad  "front"   Acquire Device (NEAR | LANES | FENCES | MARKS) "The same, where groups copy lines.";
    "tail"     Group  AtomicLoad  "route"   Acquire Device (FAR)  "Loads the tail in device memory, and then sees the lines before it. The tail may be older than the claim.";
    "room"     Group  AtomicLoad  "front"   Acquire Device (FAR | FENCES) "Loads the frontier. The marks below it have been read and may be written again one lap later.";
    "begun"    Group  Fence       ""        AcqRel  System (LIVE | RECOVERY | ONCE) "Stands between the word that says that a task begins which must not begin twice, and everything that the task does.";
    "adopt"    Group  AtomicCas   "cells"   AcqRel  Device (LIVE | STEPS) "Makes a cell LIVE that has no task, and then writes its words. What the last task of the cell did to them was before.";
    "after"    Group  Fence       ""        Acquire System (LIVE | STEPS | EVENTS) "Follows the line of a task that waits for an event before its first step, and then sees for which.";
    "come"     Group  AtomicLoad  "events"  Acquire Device (LIVE | STEPS | EVENTS) "Loads the count of an event. If that is high enough, the task goes on and sees what was done before the signal.";
    "park"     Group  AtomicCas   "cells"   AcqRel  Device (LIVE | STEPS | EVENTS) "Puts the task aside until the event has come, unless the host has cancelled it.";
    "enlist"   Group  AtomicCas   "waiters" AcqRel  Device (LIVE | STEPS | EVENTS) "Puts the cell in front of the list of those that wait for the event, after the words of the cell. If somebody has taken the list since the last look at the count, the next look sees the count that was raised before.";
    "recheck"  Group  AtomicLoad  "events"  Acquire Device (LIVE | STEPS | EVENTS) "Looks at the count again, because whoever has signalled meanwhile may not have found the cell in the list.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS) "Puts the cell into a queue if other cells wait there or too many have arrived, after the words of the cell.";
    "refuse"   Group  Fence       ""        AcqRel  System (LIVE | STEPS) "Stands between the end of a cell whose task may not run and its record.";
    "complete" Group  Fence       ""        AcqRel  System (LIVE) "One fence per window, between the effects of its tasks and their records.";
    "mark"     Group  AtomicStore "marks"   Release Device (NEAR | FAR | DRAIN | FENCES | MARKS) "Marks where the tasks before a fence end, after their records.";
    "mark"     Group  AtomicStore "marks"   Release Device (NEAR | FAR | DRAIN | FENCES | MARKS) "Marks where a fence is.";
    "mark"     Group  AtomicStore "marks"   Release Device (NEAR | FAR | DRAIN | FENCES | MARKS) "Marks where a window ends, after its records.";
    "news"     Group  AtomicAdd   "front"   AcqRel  Device (NEAR | FAR | DRAIN | FENCES | MARKS) "Counts one more mark. The group that finds zero follows the marks, and has seen all marks that were counted off before.";
    "asked"    Group  AtomicLoad  "asks" [0] Acquire System (NEAR | OWN | STEPS) "The same, by the first group where none keeps the control words.";
    "signal"   Group  AtomicAdd   "events"  AcqRel  Device (NEAR | OWN | STEPS | EVENTS) "The same, by the first group where none keeps the control words.";
    "apply"    Group  AtomicCas   "cells"   AcqRel  Device (NEAR | OWN | STEPS) "The same, by the first group where none keeps the control words.";
    "ready"    Group  AtomicStore "ready"   Release Device (NEAR | OWN | STEPS) "The same, by the first group where none keeps the control words.";
    "count cancel" Group  AtomicAdd   "cancels" Release Device (NEAR | OWN | STEPS | EVENTS) "The same, by the first group where none keeps the control words.";
    "present"  Group  AtomicLoad  "events"  Acquire Device (NEAR | OWN | STEPS | EVENTS) "The same, by the first group where none keeps the control words.";
    "pass ask" Group  AtomicStore "applied" Release Device (NEAR | OWN | STEPS) "The same, by the first group where none keeps the control words.";
    "applied"  Group  AtomicStore "answers" Release System (NEAR | OWN | STEPS) "The same, by the first group where none keeps the control words.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS | ALONE) "Puts a cell that has arrived at home into its queue if it finds no free place, after the words of the cell.";
    "heed ask" Group  AtomicLoad  "applied" Acquire Device (LIVE | STEPS) "Loads how many asks were applied, and then sees which tasks are cancelled. Those of disabled tenants end too.";
    "fill"     Group  AtomicLoad  "ready"   Acquire Device (LIVE | STEPS) "Loads an entry of a queue, and then sees the words of its cell.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS) "Puts a cell that was taken from a queue or has arrived at home into its queue if it finds no free place, after the words of the cell.";
    "begun"    Group  Fence       ""        AcqRel  System (LIVE | STEPS | ALONE | LANE_STEPS | RECOVERY | ONCE) "Stands between the word that says that a task in a cell begins which must not begin twice, and everything that the task does.";
    "park"     Group  AtomicCas   "cells"   AcqRel  Device (LIVE | STEPS | ALONE | LANE_STEPS) "Puts a task aside that waits for the host, after the words of its cell, unless the host has resumed it meanwhile.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS | ALONE | LANE_STEPS) "Shares a task that goes on with other groups.";
    "finish"   Group  AtomicAnd   "cells"   AcqRel  Device (LIVE | STEPS | ALONE | LANE_STEPS) "Ends the task of a cell, after the words of the cell.";
    "over"     Group  Fence       ""        SeqCst  System (LIVE | STEPS | ALONE | LANE_STEPS) "Stands between the effects of a task and its record, and between the end of its cell and the look for a fence that waits for it.";
    "paid"     Group  AtomicSub   "cells"   Release Device (LIVE | STEPS | ALONE | LANE_STEPS | FENCES) "Takes a record that was owed off the count of its cell, after the record.";
    "news"     Group  AtomicAdd   "front"   AcqRel  Device (LIVE | STEPS | ALONE | LANE_STEPS | FENCES | MARKS) "Counts one more reason to follow the marks of a stripe, because a fence there waits for a cell.";
    "news"     Group  AtomicAdd   "front"   AcqRel  Device (LIVE | STEPS | ALONE | LANE_STEPS | FENCES | MARKS | PAIR) "The same in the other placement.";
    "finish"   Group  AtomicAnd   "cells"   AcqRel  Device (LIVE | STEPS | ALONE) "Ends a task that the host has cancelled.";
    "over"     Group  Fence       ""        SeqCst  System (LIVE | STEPS | ALONE) "The same for a task that the host has cancelled.";
    "paid"     Group  AtomicSub   "cells"   Release Device (LIVE | STEPS | ALONE | FENCES) "The same for a task that the host has cancelled.";
    "news"     Group  AtomicAdd   "front"   AcqRel  Device (LIVE | STEPS | ALONE | FENCES | MARKS) "The same after a task that the host has cancelled.";
    "news"     Group  AtomicAdd   "front"   AcqRel  Device (LIVE | STEPS | ALONE | FENCES | MARKS | PAIR) "The same in the other placement.";
    "park"     Group  AtomicCas   "cells"   AcqRel  Device (LIVE | STEPS | ALONE) "Puts a task aside that the host has paused, unless the host has resumed it meanwhile.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS | ALONE) "Puts a task into its queue because its tenant is disabled.";
    "begun"    Group  Fence       ""        AcqRel  System (LIVE | STEPS | ALONE | GROUP_STEPS | RECOVERY | ONCE) "The same, for a group-wide task.";
    "park"     Group  AtomicCas   "cells"   AcqRel  Device (LIVE | STEPS | ALONE | GROUP_STEPS) "The same, for a group-wide task.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS | ALONE | GROUP_STEPS) "The same, for a group-wide task.";
    "finish"   Group  AtomicAnd   "cells"   AcqRel  Device (LIVE | STEPS | ALONE | GROUP_STEPS) "The same, for a group-wide task.";
    "over"     Group  Fence       ""        SeqCst  System (LIVE | STEPS | ALONE | GROUP_STEPS) "The same, for a group-wide task.";
    "paid"     Group  AtomicSub   "cells"   Release Device (LIVE | STEPS | ALONE | GROUP_STEPS | FENCES) "The same, for a group-wide task.";
    "news"     Group  AtomicAdd   "front"   AcqRel  Device (LIVE | STEPS | ALONE | GROUP_STEPS | FENCES | MARKS) "The same, for a group-wide task.";
    "news"     Group  AtomicAdd   "front"   AcqRel  Device (LIVE | STEPS | ALONE | GROUP_STEPS | FENCES | MARKS | PAIR) "The same, for a group-wide task.";
    "begun"    Group  Fence       ""        AcqRel  System (LIVE | STEPS | TREES | LANE_STEPS | RECOVERY | ONCE) "Stands between the word that says that a task in a cell begins which must not begin twice, and everything that the task does.";
    "park"     Group  AtomicCas   "cells"   AcqRel  Device (LIVE | STEPS | TREES | LANE_STEPS) "Puts a task aside that the host has paused, unless the host has resumed it meanwhile.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS | TREES | LANE_STEPS) "Puts a task into its queue because its tenant is disabled.";
    "free cell" Group  AtomicOr    "free_cells" Release Device (LIVE | STEPS | TREES | LANE_STEPS | SPAWNS) "Gives cells back that a step has reserved and not used, and those of its children if it has ended with a fault.";
    "come"     Group  AtomicLoad  "events"  Acquire Device (LIVE | STEPS | TREES | LANE_STEPS | EVENTS) "Loads the count of the event that a task is about to wait for.";
    "park"     Group  AtomicCas   "cells"   AcqRel  Device (LIVE | STEPS | TREES | LANE_STEPS) "Counts the children of a step, and puts the task aside if it waits for the host, for its children or for an event, unless there is nothing to wait for any more.";
    "enlist"   Group  AtomicCas   "waiters" AcqRel  Device (LIVE | STEPS | TREES | LANE_STEPS | EVENTS) "Puts the cell in front of the list of those that wait for the event, after the words of the cell. If somebody has taken the list since the last look at the count, the next look sees the count that was raised before.";
    "recheck"  Group  AtomicLoad  "events"  Acquire Device (LIVE | STEPS | TREES | LANE_STEPS | EVENTS) "Looks at the count again, because whoever has signalled meanwhile may not have found the cell in the list.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS | TREES | LANE_STEPS | SPAWNS) "Puts the children of a step into a queue if too many cells have arrived at home, after the words of their cells.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS | TREES | LANE_STEPS) "Shares a task that goes on with other groups.";
    "childless" Group  AtomicLoad  "cells"   Acquire Device (LIVE | STEPS | TREES | LANE_STEPS) "Finds whether a task that ends has children left. If it has none, it ends after what they did.";
    "keep end" Group  AtomicCas   "cells"   AcqRel  Device (LIVE | STEPS | TREES | LANE_STEPS) "Puts a task aside that has ended and whose children have not, after what it ends with.";
    "free run" Group  AtomicOr    "free_instances" Release Device (LIVE | STEPS | TREES | LANE_STEPS | GRAPHS) "Gives the cells of all nodes of a graph back, after their results were read.";
    "launched" Group  AtomicSub   "graph_launches" Release Device (LIVE | STEPS | TREES | LANE_STEPS | GRAPHS) "Takes a launch off the count, after the last look at the words of its graph.";
    "finish"   Group  AtomicAnd   "cells"   AcqRel  Device (LIVE | STEPS | TREES | LANE_STEPS) "Ends the task of a cell, after the words of the cell.";
    "over"     Group  Fence       ""        SeqCst  System (LIVE | STEPS | TREES | LANE_STEPS) "Stands between the effects of a task and its record, and between the end of its cell and the look for a fence that waits for it.";
    "paid"     Group  AtomicSub   "cells"   Release Device (LIVE | STEPS | TREES | LANE_STEPS | FENCES) "Takes a record that was owed off the count of its cell, after the record.";
    "news"     Group  AtomicAdd   "front"   AcqRel  Device (LIVE | STEPS | TREES | LANE_STEPS | FENCES | MARKS) "Counts one more reason to follow the marks of a stripe, because a fence there waits for a cell.";
    "news"     Group  AtomicAdd   "front"   AcqRel  Device (LIVE | STEPS | TREES | LANE_STEPS | FENCES | MARKS | PAIR) "The same in the other placement.";
    "node"     Group  AtomicSub   "nodes_left" AcqRel  Device (LIVE | STEPS | TREES | LANE_STEPS | GRAPHS) "Takes a node that has ended off the count of predecessors of another. Whoever takes the last one off sees the results of all of them.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS | TREES | LANE_STEPS | GRAPHS) "Puts that other node into a queue if too many cells have arrived at home, after its arguments.";
    "free cell" Group  AtomicOr    "free_cells" Release Device (LIVE | STEPS | TREES | LANE_STEPS | SPAWNS) "Gives the cell of a spawned task back, after its result was stored for its parent.";
    "child"    Group  AtomicSub   "cells"   AcqRel  Device (LIVE | STEPS | TREES | LANE_STEPS) "Takes a child that has ended off the count of its parent. Whoever takes the last one off sees what all of them did.";
    "last"     Group  AtomicCas   "cells"   AcqRel  Device (LIVE | STEPS | TREES | LANE_STEPS) "Makes a parent go on that has waited for its children, or takes over one that has ended before them.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS | TREES | LANE_STEPS) "Puts a parent that goes on into a queue if too many cells have arrived at home.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS | TREES | LANE_STEPS) "The same, for a task that the lane could have gone on with if its group did not share its home.";
    "begun"    Group  Fence       ""        AcqRel  System (LIVE | STEPS | TREES | GROUP_STEPS | RECOVERY | ONCE) "The same, for a group-wide task.";
    "free cell" Group  AtomicOr    "free_cells" Release Device (LIVE | STEPS | TREES | GROUP_STEPS | SPAWNS) "The same, for a group-wide task.";
    "come"     Group  AtomicLoad  "events"  Acquire Device (LIVE | STEPS | TREES | GROUP_STEPS | EVENTS) "The same, for a group-wide task.";
    "park"     Group  AtomicCas   "cells"   AcqRel  Device (LIVE | STEPS | TREES | GROUP_STEPS) "The same, for a group-wide task.";
    "enlist"   Group  AtomicCas   "waiters" AcqRel  Device (LIVE | STEPS | TREES | GROUP_STEPS | EVENTS) "The same, for a group-wide task.";
    "recheck"  Group  AtomicLoad  "events"  Acquire Device (LIVE | STEPS | TREES | GROUP_STEPS | EVENTS) "The same, for a group-wide task.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS | TREES | GROUP_STEPS | SPAWNS) "The same, for a group-wide task.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS | TREES | GROUP_STEPS) "The same, for a group-wide task.";
    "childless" Group  AtomicLoad  "cells"   Acquire Device (LIVE | STEPS | TREES | GROUP_STEPS) "The same, for a group-wide task.";
    "keep end" Group  AtomicCas   "cells"   AcqRel  Device (LIVE | STEPS | TREES | GROUP_STEPS) "The same, for a group-wide task.";
    "free run" Group  AtomicOr    "free_instances" Release Device (LIVE | STEPS | TREES | GROUP_STEPS | GRAPHS) "The same, for a group-wide task.";
    "launched" Group  AtomicSub   "graph_launches" Release Device (LIVE | STEPS | TREES | GROUP_STEPS | GRAPHS) "The same, for a group-wide task.";
    "finish"   Group  AtomicAnd   "cells"   AcqRel  Device (LIVE | STEPS | TREES | GROUP_STEPS) "The same, for a group-wide task.";
    "over"     Group  Fence       ""        SeqCst  System (LIVE | STEPS | TREES | GROUP_STEPS) "The same, for a group-wide task.";
    "paid"     Group  AtomicSub   "cells"   Release Device (LIVE | STEPS | TREES | GROUP_STEPS | FENCES) "The same, for a group-wide task.";
    "news"     Group  AtomicAdd   "front"   AcqRel  Device (LIVE | STEPS | TREES | GROUP_STEPS | FENCES | MARKS) "The same, for a group-wide task.";
    "news"     Group  AtomicAdd   "front"   AcqRel  Device (LIVE | STEPS | TREES | GROUP_STEPS | FENCES | MARKS | PAIR) "The same, for a group-wide task.";
    "node"     Group  AtomicSub   "nodes_left" AcqRel  Device (LIVE | STEPS | TREES | GROUP_STEPS | GRAPHS) "The same, for a group-wide task.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS | TREES | GROUP_STEPS | GRAPHS) "The same, for a group-wide task.";
    "free cell" Group  AtomicOr    "free_cells" Release Device (LIVE | STEPS | TREES | GROUP_STEPS | SPAWNS) "The same, for a group-wide task.";
    "child"    Group  AtomicSub   "cells"   AcqRel  Device (LIVE | STEPS | TREES | GROUP_STEPS) "The same, for a group-wide task.";
    "last"     Group  AtomicCas   "cells"   AcqRel  Device (LIVE | STEPS | TREES | GROUP_STEPS) "The same, for a group-wide task.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS | TREES | GROUP_STEPS) "The same, for a group-wide task.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS | TREES | GROUP_STEPS) "The same, for a group-wide task.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS) "Puts what a group has at home into the queues when the kernel ends.";
    "ready"    Group  AtomicStore "ready"   Release Device (LIVE | STEPS) "The same, for cells that have arrived and have no place at home yet.";
    "follow"   Group  AtomicLoad  "marks"   Acquire Device (FAR | DRAIN | FOLLOW | FENCES | FOLLOWS) "Loads a mark. The tasks that it covers have ended, even if the mark has not been counted yet.";
    "wait"     Group  Fence       ""        SeqCst  Device (FOLLOW | FENCES) "Stands between the mark that a fence waits for a cell and the second look at the cells.";
    "settle"   Group  Fence       ""        AcqRel  System (KINDS | FENCES | FOLLOWS) "Stands between the ends of the tasks before a fence and the epoch.";
    "show"     Group  Fence       ""        AcqRel  System (KINDS | FENCES | FOLLOWS) "Stands between the epoch and the fence's own record.";
    "front"    Group  AtomicStore "front"   Release Device (FAR | DRAIN | FOLLOW | FENCES | FOLLOWS) "Stores the frontier, after the marks below it were read.";
    "quiet"    Group  AtomicSub   "front"   AcqRel  Device (FAR | DRAIN | FOLLOW | FENCES | FOLLOWS) "Counts off the marks that were seen. The next group that follows the marks sees the frontier.";
    "unlist"   Group  AtomicExchange "waiters" AcqRel  Device (WAKE | EVENTS) "Takes the whole list of tasks that wait for an event, after the count was raised, and then sees the words of their cells.";
    "see cancel" Group  AtomicLoad  "cancels" Acquire Device (WAKE | EVENTS) "Loads how many tasks of the tenant were cancelled, before the states of those that have to wait on, and then sees these.";
    "ready"    Group  AtomicStore "ready"   Release Device (WAKE | EVENTS) "Puts a task that need not wait any longer into its queue, after the words of its cell.";
    "enlist"   Group  AtomicCas   "waiters" AcqRel  Device (WAKE | EVENTS) "Puts the others back, after the words of their cells.";
    "come"     Group  AtomicLoad  "events"  Acquire Device (WAKE | EVENTS) "Looks at the count again, because whoever has signalled meanwhile has found no list.";
    "see cancel" Group  AtomicLoad  "cancels" Acquire Device (WAKE | EVENTS) "The same, for whoever has cancelled a task meanwhile.";
    "reserve"  Group  AtomicCas   "free_cells" Acquire Device (VERB | SPAWNS) "Takes free cells for children. What their last tasks did was before.";
    "signal"   Group  AtomicAdd   "events"  AcqRel  Device (VERB | EVENTS) "Raises the count of an event, after everything that the task has done before. What was done before other signals is seen by the tasks that this one wakes.";
    "note"     Group  AtomicCas   "task_signals" Acquire Device (VERB | RECOVERY | EVENTS) "Counts a signal of a task, and keeps other lanes from noting the count. The note of the lane before was stored before.";
    "noted"    Group  AtomicStore "task_signals" Release Device (VERB | RECOVERY | EVENTS) "Lets other lanes note the count, after the note in the host's memory.";
    "look up"  Group  Fence       ""        SeqCst  System (VERB | GRAPHS) "Stands between the count of launches of a graph and the look at the directory.";
    "found"    Group  Fence       ""        Acquire System (VERB | GRAPHS) "Follows the place of a graph in the directory, and then sees its generation and its words.";
    "take run" Group  AtomicCas   "free_instances" Acquire Device (VERB | GRAPHS) "Takes the cells for all nodes of a graph. What their last tasks did was before.";
    "launched" Group  AtomicSub   "graph_launches" Release Device (VERB | GRAPHS) "Takes a launch off the count that has to wait or has a fault, after the last look at the words of its graph.";
    "ready"    Group  AtomicStore "ready"   Release Device (VERB | GRAPHS) "Puts a node without predecessors into a queue if too many cells have arrived at home, after the words of its cell.";
    "leave"    Group  AtomicAdd   "front"   AcqRel  Device (DRAIN) "Says that a group has counted its last task. The last group to leave has seen all counts and reports them to the host.";
}
}

pub use rows::TABLE;
