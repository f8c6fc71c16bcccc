//! The five priorities.

use super::table::codes;

codes! {
    /// How urgent a task is: of those that wait, the more urgent is taken first.
    #[derive(Default)]
    Priority "priority" {
        Critical 0 "CRITICAL" "Before all others.";
        High     1 "HIGH"     "Before what is ordinary.";
        #[default]
        Normal   2 "NORMAL"   "The ordinary.";
        Low      3 "LOW"      "After what is ordinary.";
        Idle     4 "IDLE"     "When nothing else waits.";
    }
}

/// How many there are.
pub const LEVELS: usize = Priority::ALL.len();
