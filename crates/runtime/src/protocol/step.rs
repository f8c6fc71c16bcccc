//! The steps of the protocol: who touches which word, in what order, with what order and scope.
//!
//! This is the model of rings that tests use. Every atomic access of the host's ring and every one of an assembled kernel outside
//! its handlers is a row here, in the order of the text. Explorations of interleavings take their orders from the
//! rows, and what `assemble` writes is held equal to them; so neither side can be weakened alone.

use pelton_ir::op::Op;
use pelton_ir::types::{Order, Scope};

use super::control;

/// Who takes a step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Who {
    /// Producers, and whoever holds tickets.
    Host,
    /// The group that polls far rings.
    Router,
    /// A group that runs tasks.
    Group,
}

/// In near rings.
pub const NEAR: u8 = 1;
/// In far rings.
pub const FAR: u8 = 2;
/// In drained batches.
pub const DRAIN: u8 = 4;
/// Only where there are levels of priority.
pub const LEVELS: u8 = 8;
/// Only where tasks are counted.
pub const COUNTS: u8 = 16;
/// Only where there can be fences: everywhere but in kernels of one handler.
pub const FENCES: u8 = 32;
/// Only in kernels of one handler, which stands in no switch.
pub const FUSED: u8 = 64;

const KINDS: u8 = NEAR | FAR | DRAIN;
const LIVE: u8 = NEAR | FAR;

/// One access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// What it is called; accesses that only count or look share a name.
    pub name: &'static str,
    /// Who does it.
    pub who: Who,
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
    /// How often it stands there in a row.
    pub times: u32,
    /// Where it is found: one or more of the kinds, and all that they must have.
    pub shapes: u8,
    /// What it is for; empty if it orders nothing.
    pub doc: &'static str,
}

impl Step {
    /// Whether a shape has it: one kind, and what it has.
    pub const fn of(&self, shape: u8) -> bool {
        self.shapes & shape & KINDS != 0 && self.shapes & !KINDS & !shape == 0
    }
}

/// The step of that name that orders something.
pub fn named(name: &str) -> Option<&'static Step> {
    TABLE.iter().find(|step| step.name == name && step.order != Order::Relaxed)
}

/// The steps of a kernel of this shape, in the order of the text.
pub fn kernel(shape: u8) -> impl Iterator<Item = &'static Step> {
    TABLE.iter().filter(move |step| step.who != Who::Host && step.of(shape))
}

macro_rules! word {
    () => {
        None
    };
    ($word:expr) => {
        Some($word)
    };
}

macro_rules! steps {
    ($($name:literal $who:ident $op:ident $buffer:literal $([$word:expr])? $order:ident $scope:ident $times:literal ($shapes:expr) $doc:literal;)*) => {
        /// Every step: the host's in the life of a task, then the kernel's in the order of its text.
        pub const TABLE: &[Step] = &[$(Step {
            name: $name,
            who: Who::$who,
            op: Op::$op,
            buffer: $buffer,
            word: word!($($word)?),
            order: Order::$order,
            scope: Scope::$scope,
            times: $times,
            shapes: $shapes,
            doc: $doc,
        },)*];
    };
}

/// The word of a far kernel's flags that counts arrivals.
const ARRIVED: u32 = 0;
/// The word of a far kernel's flags that says to halt.
const HALT: u32 = 1;

#[rustfmt::skip]
mod rows {
use super::*;
steps! {
    "write"    Host   AtomicStore "slots"  Relaxed System 7 (LIVE) "";
    "publish"  Host   AtomicStore "slots"  Release System 1 (LIVE) "Words 0-1, after the rest of the line and whatever the task points to.";
    "commit"   Host   AtomicStore "tails"  Release System 1 (FAR)  "The tail, after the lines of a batch.";
    "see"      Host   AtomicLoad  "done"   Acquire System 1 (LIVE) "The record: what the task wrote is seen.";
    "give up"  Host   AtomicStore "taken"  Release System 1 (LIVE) "A ticket gives its slots up, after it has read their records.";
    "reclaim"  Host   AtomicLoad  "taken"  Acquire System 1 (LIVE) "The producer finds slots given up, and may write them again.";
    "clear"    Host   AtomicStore "taken"  Relaxed System 1 (LIVE) "";
    "read"     Host   AtomicLoad  "slots"  Relaxed System 8 (LIVE) "";
    "write"    Host   AtomicStore "slots"  Relaxed System 1 (LIVE) "";
    "cancel"   Host   AtomicStore "slots"  Release System 1 (LIVE) "Words 0-1 with the opcode CANCEL, after the new check.";
    "stop"     Host   AtomicStore "host" [control::SHUTDOWN] Release System 1 (LIVE) "SHUTDOWN, after whatever the host did before.";
    "end"      Host   AtomicCas   "state"  Release System 1 (LIVE) "The session has ended, after the kernel's last record.";
    "ended"    Host   AtomicLoad  "state"  Acquire System 1 (LIVE) "A task without a record never will have one.";

    "arrive"   Group  AtomicAdd   "flags" [ARRIVED] Relaxed Device 1 (FAR) "";
    "mirror"   Router AtomicLoad  "host"   Relaxed System 1 (FAR)  "";
    "mirror"   Router AtomicStore "mirror" Relaxed Device 1 (FAR)  "";
    "route"    Router AtomicLoad  "tails"  Acquire System 1 (FAR)  "The tail: the lines before it are seen.";
    "moved"    Router AtomicLoad  "route"  Relaxed Device 1 (FAR)  "";
    "pass on"  Router AtomicStore "route"  Release Device 1 (FAR)  "The tail in device memory, by the lane that acquired it.";
    "stopped"  Group  AtomicLoad  "host" [control::SHUTDOWN] Acquire System 1 (LIVE) "SHUTDOWN: what the host did before is seen. In far rings the router looks.";
    "halt"     Router AtomicStore "flags" [HALT] Release Device 1 (FAR) "Tells the groups, after the host told the router.";
    "halted"   Group  AtomicLoad  "flags" [HALT] Acquire Device 1 (FAR) "No new windows; what the host did before is seen.";
    "look"     Group  AtomicLoad  "slots"  Relaxed System 1 (NEAR) "";
    "recheck"  Group  AtomicLoad  "slots"  Relaxed System 8 (NEAR) "";
    "suspect"  Group  AtomicLoad  "rows"   Relaxed System 1 (NEAR) "";
    "suspect"  Group  AtomicStore "rows"   Relaxed System 1 (NEAR) "";
    "look"     Group  AtomicLoad  "route"  Relaxed Device 2 (FAR)  "";
    "open"     Group  AtomicLoad  "host"   Relaxed System 2 (NEAR) "";
    "open"     Group  AtomicLoad  "mirror" Relaxed Device 2 (FAR)  "";
    "open"     Group  AtomicLoad  "control" Relaxed Device 1 (LIVE) "";
    "starved"  Group  AtomicLoad  "rows"   Relaxed System 1 (LIVE | LEVELS | COUNTS) "";
    "starved"  Group  AtomicStore "rows"   Relaxed System 1 (LIVE | LEVELS | COUNTS) "";
    "take"     Group  AtomicLoad  "slots"  Acquire System 1 (NEAR) "Words 0-1 of a line: the rest, and what the task points to, is seen.";
    "check"    Group  AtomicLoad  "slots"  Relaxed System 8 (NEAR) "";
    "limit"    Group  AtomicMin   "state"  Relaxed Group  1 (NEAR) "";
    "claimed"  Group  AtomicLoad  "route"  Relaxed Device 1 (FAR)  "";
    "tail"     Group  AtomicLoad  "route"  Acquire Device 1 (FAR)  "The tail in device memory: the lines before it are seen. It may be older than the claim.";
    "room"     Group  AtomicLoad  "front"  Acquire Device 1 (FAR | FENCES) "The frontier: the marks below it were read, and may be written again a lap later.";
    "credit"   Group  AtomicLoad  "host"   Relaxed System 1 (NEAR) "";
    "credit"   Group  AtomicLoad  "mirror" Relaxed Device 1 (FAR)  "";
    "credit"   Group  AtomicAdd   "control" Relaxed Device 1 (LIVE) "";
    "credit"   Group  AtomicSub   "control" Relaxed Device 1 (LIVE) "";
    "claim"    Group  AtomicCas   "route"  Relaxed Device 1 (FAR)  "";
    "refund"   Group  AtomicLoad  "mirror" Relaxed Device 1 (FAR)  "";
    "refund"   Group  AtomicSub   "control" Relaxed Device 1 (FAR) "";
    "ended"    Group  AtomicLoad  "front" [3] Relaxed Device 1 (DRAIN) "";
    "next"     Group  AtomicAdd   "front" [2] Relaxed Device 1 (DRAIN) "";
    "fetch"    Group  LoadWide    "slots"  Relaxed System 1 (FAR | DRAIN) "";
    "fetch"    Group  StoreWide   "window" Relaxed Group  1 (FAR | DRAIN) "";
    "mask"     Group  AtomicLoad  "host"   Relaxed System 1 (NEAR) "";
    "mask"     Group  AtomicLoad  "mirror" Relaxed Device 1 (FAR)  "";
    "opcode"   Group  AtomicLoad  "slots"  Relaxed System 1 (NEAR) "";
    "count"    Group  AtomicAdd   "tally"  Relaxed Group  1 (KINDS | FUSED | COUNTS) "";
    "credit"   Group  AtomicAdd   "control" Relaxed Device 1 (DRAIN) "";
    "credit"   Group  AtomicSub   "control" Relaxed Device 1 (DRAIN) "";
    "count"    Group  AtomicAdd   "rows"   Relaxed Group  3 (DRAIN | COUNTS) "";
    "over"     Group  AtomicStore "front" [3] Relaxed Device 1 (DRAIN) "";
    "count"    Group  AtomicLoad  "rows"   Relaxed System 1 (KINDS | COUNTS) "";
    "count"    Group  AtomicStore "rows"   Relaxed System 1 (KINDS | COUNTS) "";
    "count"    Group  AtomicLoad  "rows"   Relaxed System 1 (LIVE | COUNTS) "";
    "count"    Group  AtomicStore "rows"   Relaxed System 1 (LIVE | COUNTS) "";
    "count"    Group  AtomicLoad  "rows"   Relaxed System 1 (LIVE | COUNTS) "";
    "count"    Group  AtomicStore "rows"   Relaxed System 1 (LIVE | COUNTS) "";
    "count"    Group  AtomicLoad  "rows"   Relaxed System 1 (LIVE | COUNTS) "";
    "count"    Group  AtomicStore "rows"   Relaxed System 1 (LIVE | COUNTS) "";
    "complete" Group  Fence       ""       AcqRel  System 1 (KINDS) "One fence a window, between what its tasks did and their records.";
    "record"   Group  AtomicStore "done"   Relaxed System 1 (LIVE) "";
    "mark"     Group  AtomicStore "marks"  Release Device 3 (FAR | DRAIN | FENCES) "Where a window or a fence ends, after its records.";
    "news"     Group  AtomicAdd   "front"  AcqRel  Device 1 (FAR | DRAIN | FENCES) "One more has marked. Who finds zero follows the marks, and has seen all that were taken off before.";
    "follow"   Group  AtomicLoad  "front"  Relaxed Device 1 (FAR | DRAIN | FENCES) "";
    "follow"   Group  AtomicLoad  "marks"  Acquire Device 1 (FAR | DRAIN | FENCES) "A mark: what it says has ended, though its news may still be on its way.";
    "tag"      Group  AtomicLoad  "slots"  Relaxed System 1 (LIVE | FENCES) "";
    "settle"   Group  Fence       ""       AcqRel  System 1 (KINDS | FENCES) "Between the ends of the tasks before a fence and the epoch.";
    "epoch"    Group  AtomicAdd   "control" [control::EPOCH] Relaxed Device 1 (KINDS | FENCES) "";
    "tag"      Group  AtomicStore "observables" Relaxed System 1 (KINDS | FENCES) "";
    "show"     Group  Fence       ""       AcqRel  System 1 (KINDS | FENCES) "Between the epoch and the fence's own record.";
    "record"   Group  AtomicStore "done"   Relaxed System 1 (LIVE | FENCES) "";
    "front"    Group  AtomicStore "front"  Release Device 1 (FAR | DRAIN | FENCES) "The frontier, after the marks below it were read.";
    "quiet"    Group  AtomicSub   "front"  AcqRel  Device 1 (FAR | DRAIN | FENCES) "Takes off what was seen; the next to follow sees the frontier.";
}
}

pub use rows::TABLE;
