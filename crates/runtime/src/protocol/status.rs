//! The status of a slot, and the moves between statuses.
//!
//! Drained batches, and the models that tests use, follow these moves. In a live ring, no status is ever rewritten:
//! the slot says that a task was published, the completion record says how it ended, and what happens in between is
//! internal to the device.

use super::table::codes;

codes! {
    /// How far a task has progressed.
    Status "status" {
        Empty     0 "EMPTY"     "The slot holds no task.";
        Published 1 "PUBLISHED" "The task is ready to be taken.";
        Claimed   2 "CLAIMED"   "The task is being run.";
        Done      3 "DONE"      "The task ended well.";
        WaitIo    4 "WAIT_IO"   "The task waits for data.";
        Yield     5 "YIELD"     "The task gave up its lane and is to be continued.";
        Requeue   6 "REQUEUE"   "The task is to be taken again.";
        Fault     7 "FAULT"     "The task ended with a fault code.";
        Cancelled 8 "CANCELLED" "The task was withdrawn. Only completion records have this status, and they say how many steps of the task had begun.";
        Lost      9 "LOST"      "The device was lost after the task had begun, and the task must not begin twice. Only completion records have this status, and the host writes them.";
    }
}

codes! {
    /// The state of a task inside a window while the task has not ended. These codes stand in the place of a status in
    /// the records that a group keeps while it runs a window. They never leave the kernel, because only the records of
    /// tasks that have ended are posted.
    ///
    /// Every code has the bit [`PENDING`](WindowState::PENDING), which no status has. A record of 0 means that nothing
    /// has been written.
    WindowState "state of a task in a window" {
        Fence   0x81 "FENCE"     "The task is a fence. It ends when every task before it has ended.";
        Wide    0x82 "WIDE"      "The task is group-wide. It runs after the lane-wide tasks of its window.";
        Left    0x83 "LEFT"      "The slot of a drained batch is left unchanged, because it holds no task that may run now.";
        Heavy   0x84 "HEAVY"     "The task cannot be run by a single lane and needs a window.";
        Again   0x85 "AGAIN"     "The task has a step before it: its first one, or another one that it asked for.";
    }
}

impl WindowState {
    /// The bit that distinguishes the states of tasks that have not ended from the statuses of tasks that have.
    pub const PENDING: u32 = 0x80;
}

impl Status {
    /// Returns whether a task with this status has ended. Only such statuses occur in completion records.
    pub const fn has_ended(self) -> bool {
        matches!(self, Status::Done | Status::Fault | Status::Cancelled | Status::Lost)
    }

    /// Returns the status after a move, or an error if this status does not allow the move.
    pub fn after(self, step: StatusMove) -> Result<Status, ForbiddenMove> {
        if step.from().contains(&self) { Ok(step.to()) } else { Err(ForbiddenMove { from: self, step }) }
    }
}

/// The error of a move that the status of a slot does not allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a slot that is {from} cannot make the move {step}")]
pub struct ForbiddenMove {
    /// The status of the slot.
    pub from: Status,
    /// The move that was asked for.
    pub step: StatusMove,
}

macro_rules! moves {
    ($($name:ident $word:literal $($from:ident)|+ => $to:ident $text:literal;)*) => {
        /// A move from one status to another.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum StatusMove { $(#[doc = $text] $name,)* }

        impl StatusMove {
            /// Every move, in the order of the table.
            pub const ALL: &[StatusMove] = &[$(StatusMove::$name),*];

            /// Returns the name of this move.
            pub const fn name(self) -> &'static str {
                match self { $(StatusMove::$name => $word),* }
            }

            /// Returns what this move means.
            pub const fn doc(self) -> &'static str {
                match self { $(StatusMove::$name => $text),* }
            }

            /// Returns the statuses that allow this move.
            pub const fn from(self) -> &'static [Status] {
                match self { $(StatusMove::$name => &[$(Status::$from),+]),* }
            }

            /// Returns the status that this move leads to.
            pub const fn to(self) -> Status {
                match self { $(StatusMove::$name => Status::$to),* }
            }
        }
    };
}

moves! {
    Publish "publish" Empty | Done                                    => Published "The host writes a task into the slot.";
    Claim   "claim"   Published | Yield | Requeue                     => Claimed   "A lane or a group takes the task.";
    Done    "done"    Claimed                                         => Done      "The task ended well.";
    Wait    "wait"    Claimed                                         => WaitIo    "The task asked for data.";
    Resume  "resume"  WaitIo                                          => Requeue   "The data has arrived.";
    Yield   "yield"   Claimed                                         => Yield     "The task gives up its lane.";
    Requeue "requeue" Claimed                                         => Requeue   "The task is to run again.";
    Fault   "fault"   Published | Claimed | WaitIo | Yield | Requeue  => Fault     "The task ended with a fault.";
    Cancel  "cancel"  Published | WaitIo | Yield | Requeue            => Empty     "The task is withdrawn. A task that is running cannot be.";
    Reset   "reset"   Done | Fault                                    => Empty     "The host has seen how the task ended.";
}

impl std::fmt::Display for StatusMove {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
