//! The steps of the protocol: who touches which word, in what order, with what order and scope.
//!
//! This is the model of rings that tests use. Every atomic access of the host's ring and every one of an assembled kernel outside
//! its handlers is a row here. Rows that order something stand in the order of the text, one for each access; a row that orders nothing
//! stands for all accesses like it. Explorations of interleavings take their orders from the rows, and what `assemble` writes is held
//! equal to them; so neither side can be weakened alone.

use pelton_ir::op::Op;
use pelton_ir::types::{Order, Scope};

use super::control;

/// Who takes a step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StepActor {
    /// Producers, and whoever holds tickets.
    Host,
    /// The group that polls far rings.
    Router,
    /// A group that runs tasks.
    Group,
}

/// In near rings.
pub const NEAR: u16 = 1;
/// In far rings.
pub const FAR: u16 = 2;
/// In drained batches.
pub const DRAIN: u16 = 4;
/// Only where there can be fences: everywhere but in kernels of one handler.
pub const FENCES: u16 = 8;
/// Only where a group is one lane, and all rings are near: it runs tasks where they lie.
pub const LANE: u16 = 16;
/// Only where a group has several lanes, or far rings too: it copies lines.
pub const LANES: u16 = 32;
/// Only where a group is a subgroup or more, which watches its rings.
pub const WATCH: u16 = 64;
/// Only where the device works in the host's memory.
pub const LOCAL: u16 = 128;
/// Only where near groups look at the host's control words themselves.
pub const OWN: u16 = 256;
/// Only where another group keeps the host's control words for near groups: the device has memory of its own, or there is a router.
pub const KEPT: u16 = 512;
/// Only where that group does nothing else: there is no router.
pub const KEEPER: u16 = 1024;

/// Only where pollers are told of changed control words: on a device with memory of its own, the watches of near groups and the
/// subgroups of a router that polls in teams.
pub const TOLD: u16 = 2048;
/// Only where the keeper of the control words tells pollers of a change.
pub const TELLS: u16 = 4096;

/// Only where the device has memory of its own.
pub const REMOTE: u16 = 8192;

const KINDS: u16 = NEAR | FAR | DRAIN;
const LIVE: u16 = NEAR | FAR;

/// One access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtocolStep {
    /// What it is called; accesses that only count or look share a name.
    pub name: &'static str,
    /// Who does it.
    pub actor: StepActor,
    /// What it does.
    pub op: Op,
    /// The buffer; a fence has none.
    pub buffer: &'static str,
    /// The word, if it is always the same.
    pub word: Option<u32>,
    /// Its order.
    pub order: Order,
    /// Its scope.
    pub scope: Scope,
    /// Where it is found: one or more of the kinds, and all that they must have.
    pub shapes: u16,
    /// What it is for; empty if it orders nothing.
    pub doc: &'static str,
}

impl ProtocolStep {
    /// Whether it orders anything.
    pub fn orders(&self) -> bool {
        self.order != Order::Relaxed
    }

    /// Whether a shape has it: one kind, and what it has.
    pub const fn exists_in(&self, shape: u16) -> bool {
        self.shapes & shape & KINDS != 0 && self.shapes & !KINDS & !shape == 0
    }
}

/// The step of that name that orders something.
pub fn ordering_step(name: &str) -> Option<&'static ProtocolStep> {
    TABLE.iter().find(|step| step.name == name && step.orders())
}

/// The steps of a kernel of this shape.
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
        /// Every step: the host's in the life of a task, then the kernel's in the order of its text.
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

/// The word of a kernel's flags that tells its groups to halt.
pub(crate) const HALT: u32 = 1;

/// Words of the host alone, which no kernel sees, that steps name.
pub(crate) const HOST_WORDS: &[&str] = &["taken", "state"];

#[rustfmt::skip]
mod rows {
use super::*;
steps! {
    "write"    Host   AtomicStore "slots"   Relaxed System (LIVE) "";
    "publish"  Host   AtomicStore "slots"   Release System (LIVE) "Words 0-1, after the rest of the line and whatever the task points to.";
    "commit"   Host   AtomicStore "tails"   Release System (FAR)  "The tail, after the lines of a batch.";
    "see"      Host   AtomicLoad  "done"    Acquire System (LIVE) "The record: what the task wrote is seen.";
    "give up"  Host   AtomicStore "taken"   Release System (LIVE) "A ticket gives its slots up, after it has read their records.";
    "reclaim"  Host   AtomicLoad  "taken"   Acquire System (LIVE) "The producer finds slots given up, and may write them again.";
    "clear"    Host   AtomicStore "taken"   Relaxed System (LIVE) "";
    "read"     Host   AtomicLoad  "slots"   Relaxed System (LIVE) "";
    "cancel"   Host   AtomicStore "slots"   Release System (LIVE) "Words 0-1 with the opcode CANCEL, after the new check.";
    "set"      Host   AtomicStore "host"    Relaxed System (LIVE) "";
    "change"   Host   AtomicStore "host" [control::CHANGED] Release System (LIVE) "CHANGED, after the word that it names.";
    "heard"    Host   AtomicLoad  "acks"    Acquire System (LIVE) "The keeper's answer: whatever is submitted from here on meets the change.";
    "stop"     Host   AtomicStore "host" [control::SHUTDOWN] Release System (LIVE) "SHUTDOWN, after whatever the host did before.";
    "end"      Host   AtomicCas   "state"   Release System (LIVE) "The session has ended, after the kernel's last record.";
    "ended"    Host   AtomicLoad  "state"   Acquire System (LIVE) "A task without a record never will have one.";

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
    "wanted"   Group  LoadWide    "pass"    Relaxed System (DRAIN) "";
    "total"    Group  AtomicLoad  "rows"    Relaxed Device (DRAIN) "";
    "total"    Group  AtomicLoad  "control" Relaxed Device (DRAIN) "";
    "report"   Group  AtomicStore "report"  Relaxed System (DRAIN) "";
    "tag"      Group  AtomicStore "observables" Relaxed System (KINDS) "";

    "changed"  Router AtomicLoad  "host" [control::CHANGED] Acquire System (FAR) "CHANGED: the word that it names is seen.";
    "changed"  Router AtomicLoad  "host" [control::CHANGED] Acquire System (NEAR | KEEPER) "The same, by the group that keeps the control words.";
    "tell"     Router AtomicOr    "notices" Release Device (FAR | TELLS) "Tells a poller of a change, after the copy was changed.";
    "tell"     Router AtomicOr    "notices" Release Device (NEAR | KEEPER | TELLS) "The same, by the group that keeps the control words.";
    "told"     Router AtomicLoad  "notices" Acquire Device (FAR | TELLS) "A poller knows, or is away: it uses nothing that it read of the copy before.";
    "told"     Router AtomicLoad  "notices" Acquire Device (NEAR | KEEPER | TELLS) "The same, by the group that keeps the control words.";
    "answer"   Router AtomicStore "acks"    Release System (FAR)  "The change has been taken over, after the copy was changed and all pollers know.";
    "answer"   Router AtomicStore "acks"    Release System (NEAR | KEEPER) "The same, by the group that keeps the control words.";
    "stopped"  Router AtomicLoad  "host" [control::SHUTDOWN] Acquire System (FAR) "SHUTDOWN: what the host did before is seen.";
    "stopped"  Router AtomicLoad  "host" [control::SHUTDOWN] Acquire System (NEAR | KEEPER) "The same, by the group that keeps the control words.";
    "halt"     Router AtomicStore "flags" [HALT] Release Device (FAR) "Tells the groups, after the host told the router.";
    "halt"     Router AtomicStore "flags" [HALT] Release Device (NEAR | KEEPER) "The same, by the group that keeps the control words.";
    "route"    Router AtomicLoad  "tails"   Acquire System (FAR)  "The tail: the lines before it are seen.";
    "taken"    Router Fence       ""        Acquire System (FAR | LOCAL) "After a line that the router read at once and is whole: what the task points to is seen.";
    "taken"    Group  Fence       ""        Acquire System (NEAR | WATCH | LOCAL) "The same for a line that a watch has read.";
    "post"     Router AtomicStore "done"    Release System (FAR)  "The record of a task that the router ran, after what it did.";
    "post"     Group  AtomicStore "done"    Release System (NEAR | WATCH) "The same for a task that a watch ran.";
    "pass"     Router Fence       ""        AcqRel  Device (FAR | FENCES) "Between the router's look at the frontier and its moving it.";
    "pass on"  Router AtomicStore "route"   Release Device (FAR)  "The tail past a task that the router ran, after the claim.";
    "pass on"  Router AtomicStore "route"   Release Device (FAR)  "The tail in device memory, by the lane that acquired it.";
    "heed"     Router Fence       ""        Acquire Device (FAR | TOLD) "After a poller found that it was told: the copy is seen as it is now.";
    "heed"     Group  Fence       ""        Acquire Device (NEAR | TOLD) "The same for the watch of a near group.";
    "know"     Router AtomicAnd   "notices" Release Device (FAR | TOLD) "A poller of the router knows of the change, after its last use of what it had read.";
    "know"     Group  AtomicAnd   "notices" Release Device (NEAR | TOLD) "The same for the watch of a near group.";
    "stopped"  Group  AtomicLoad  "host" [control::SHUTDOWN] Acquire System (NEAR | OWN) "SHUTDOWN: no new windows, and what the host did before is seen.";
    "halted"   Group  AtomicLoad  "flags" [HALT] Acquire Device (FAR) "No new windows; what the host did before is seen.";
    "halted"   Group  AtomicLoad  "flags" [HALT] Acquire Device (NEAR | KEPT) "The same.";
    "take"     Group  AtomicLoad  "slots"   Acquire System (NEAR | LANE) "Words 0-1 of a line: the rest, and what the task points to, is seen.";
    "taken"    Group  Fence       ""        Acquire System (NEAR | LANES | LOCAL) "After a line that was read at once and is whole: what the task points to is seen.";
    "lines"    Group  Fence       ""        AcqRel  Device (NEAR | LANES | REMOTE) "After the lines of a window: what a copy brought to the device's memory before is seen, whatever the nearest cache holds; and whoever finds the group away knows that the lines were read.";
    "tail"     Group  AtomicLoad  "route"   Acquire Device (FAR)  "The tail in device memory: the lines before it are seen. It may be older than the claim.";
    "room"     Group  AtomicLoad  "front"   Acquire Device (FAR | FENCES) "The frontier: the marks below it were read, and may be written again a lap later.";
    "complete" Group  Fence       ""        AcqRel  System (LIVE) "One fence a window, between what its tasks did and their records.";
    "mark"     Group  AtomicStore "marks"   Release Device (FAR | DRAIN | FENCES) "Where the tasks before a fence end, after their records.";
    "mark"     Group  AtomicStore "marks"   Release Device (FAR | DRAIN | FENCES) "Where a fence is.";
    "mark"     Group  AtomicStore "marks"   Release Device (FAR | DRAIN | FENCES) "Where a window ends, after its records.";
    "news"     Group  AtomicAdd   "front"   AcqRel  Device (FAR | DRAIN | FENCES) "One more has marked. Who finds zero follows the marks, and has seen all that were taken off before.";
    "follow"   Group  AtomicLoad  "marks"   Acquire Device (FAR | DRAIN | FENCES) "A mark: what it says has ended, though its news may still be on its way.";
    "settle"   Group  Fence       ""        AcqRel  System (KINDS | FENCES) "Between the ends of the tasks before a fence and the epoch.";
    "show"     Group  Fence       ""        AcqRel  System (KINDS | FENCES) "Between the epoch and the fence's own record.";
    "front"    Group  AtomicStore "front"   Release Device (FAR | DRAIN | FENCES) "The frontier, after the marks below it were read.";
    "quiet"    Group  AtomicSub   "front"   AcqRel  Device (FAR | DRAIN | FENCES) "Takes off what was seen; the next to follow sees the frontier.";
    "leave"    Group  AtomicAdd   "front"   AcqRel  Device (DRAIN) "A group has counted its last. Who is the last to leave has seen what all counted, and tells the host.";
}
}

pub use rows::TABLE;
