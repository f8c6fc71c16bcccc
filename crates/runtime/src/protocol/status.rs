//! The status of a slot, and the moves between statuses.
//!
//! The moves are the law of drained batches and of the models that tests use. In a live ring nobody rewrites a status:
//! the slot says that a task was published, the completion record how it ended, and what lies between is the
//! device's own business.

use super::table::codes;

codes! {
    /// How far a task has come.
    Status "status" {
        Empty     0 "EMPTY"     "Nothing is there.";
        Published 1 "PUBLISHED" "Ready to be taken.";
        Claimed   2 "CLAIMED"   "Being run.";
        Done      3 "DONE"      "Ended well.";
        WaitIo    4 "WAIT_IO"   "Waits for data.";
        Yield     5 "YIELD"     "Stepped back, to be taken up again.";
        Requeue   6 "REQUEUE"   "To be taken again.";
        Fault     7 "FAULT"     "Ended with a fault code.";
        Cancelled 8 "CANCELLED" "Never ran. In completion records alone.";
    }
}

codes! {
    /// How a task stands inside a window as long as it has not ended. These codes stand where a status does, in the records that a group
    /// keeps while it runs a window. They never leave the kernel: only the record of a task that has ended is posted.
    ///
    /// All of them have the bit [`PENDING`](WindowState::PENDING), which no status has. A record of 0 means that nothing was written.
    WindowState "state of a task in a window" {
        Fence   0x81 "FENCE"     "The task is a fence. It ends when every task before it has ended.";
        Wide    0x82 "WIDE"      "The task is group-wide. It runs when the lane-wide tasks of its window have run.";
        Left    0x83 "LEFT"      "The slot of a drained batch is left as it is: it holds no task that may run now.";
        Heavy   0x84 "HEAVY"     "The task cannot be run by one lane alone; it needs a window.";
    }
}

impl WindowState {
    /// The bit that tells the states of tasks that have not ended from the statuses of tasks that have.
    pub const PENDING: u32 = 0x80;
}

impl Status {
    /// Whether a task with this status has ended; only these stand in completion records.
    pub const fn has_ended(self) -> bool {
        matches!(self, Status::Done | Status::Fault | Status::Cancelled)
    }

    /// The status after a move.
    pub fn after(self, step: StatusMove) -> Result<Status, ForbiddenMove> {
        if step.from().contains(&self) { Ok(step.to()) } else { Err(ForbiddenMove { from: self, step }) }
    }
}

/// A move that a status does not allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a slot that is {from} has no move {step}")]
pub struct ForbiddenMove {
    /// The status it has.
    pub from: Status,
    /// The move asked for.
    pub step: StatusMove,
}

macro_rules! moves {
    ($($name:ident $word:literal $($from:ident)|+ => $to:ident $text:literal;)*) => {
        /// A step from one status to another.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum StatusMove { $(#[doc = $text] $name,)* }

        impl StatusMove {
            /// Every move.
            pub const ALL: &[StatusMove] = &[$(StatusMove::$name),*];

            /// What it is called.
            pub const fn name(self) -> &'static str {
                match self { $(StatusMove::$name => $word),* }
            }

            /// What it means.
            pub const fn doc(self) -> &'static str {
                match self { $(StatusMove::$name => $text),* }
            }

            /// The statuses it starts from.
            pub const fn from(self) -> &'static [Status] {
                match self { $(StatusMove::$name => &[$(Status::$from),+]),* }
            }

            /// The status it leads to.
            pub const fn to(self) -> Status {
                match self { $(StatusMove::$name => Status::$to),* }
            }
        }
    };
}

moves! {
    Publish "publish" Empty | Done                                    => Published "The host puts a task in.";
    Claim   "claim"   Published | Yield | Requeue                     => Claimed   "A lane or group takes it.";
    Done    "done"    Claimed                                         => Done      "It ended well.";
    Wait    "wait"    Claimed                                         => WaitIo    "It asked for data.";
    Resume  "resume"  WaitIo                                          => Requeue   "The data is there.";
    Yield   "yield"   Claimed                                         => Yield     "It steps back.";
    Requeue "requeue" Claimed                                         => Requeue   "It is to run again.";
    Fault   "fault"   Published | Claimed | WaitIo | Yield | Requeue  => Fault     "It ended with a fault.";
    Cancel  "cancel"  Published | WaitIo | Yield | Requeue            => Empty     "It is taken back; what runs cannot be.";
    Reset   "reset"   Done | Fault                                    => Empty     "The host has seen how it ended.";
}

impl std::fmt::Display for StatusMove {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
