//! The five priorities of tasks.

use super::table::codes;

codes! {
    /// How urgent a task is. Of the tasks that wait, the most urgent is taken first.
    #[derive(Default)]
    Priority "priority" {
        Critical 0 "CRITICAL" "The task is taken before all others.";
        High     1 "HIGH"     "The task is taken before those of ordinary priority.";
        #[default]
        Normal   2 "NORMAL"   "The task has the ordinary priority.";
        Low      3 "LOW"      "The task is taken after those of ordinary priority.";
        Idle     4 "IDLE"     "The task is taken when no other task waits.";
    }
}

/// The number of priorities.
pub const LEVELS: usize = Priority::ALL.len();
