//! Explores drained batches: the last group to leave reports what all groups have counted.

use std::sync::Arc;

use loom::sync::atomic::AtomicU64;
use loom::thread::spawn;

use super::plan::{Plain, holds};

/// The step that only drained batches have.
pub(crate) const LEAVE: &[&str] = &["leave"];

#[test]
fn the_last_to_leave_has_seen_all() {
    holds(2, LEAVE, &[], |plan| {
        let all = Arc::new((AtomicU64::new(0), Plain::several(3)));
        let leave = move |all: &(AtomicU64, Vec<Plain>), group: usize| {
            all.1[group].write();
            if all.0.fetch_add(1, plan.order("leave")) == 2 {
                all.1.iter().for_each(Plain::read);
            }
        };
        let others = [0, 1].map(|group| {
            let all = all.clone();
            spawn(move || leave(&all, group))
        });
        leave(&all, 2);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}
