//! Explores a ring under every interleaving: `cargo test -p pelton --features loom --test loom --release`.
//!
//! The host's side is `HostRing` itself. The device's side is a model of what `assemble` writes, and takes its orders
//! from the table of steps, with which assembled kernels are compared. Each scenario is explored as it is, and must
//! hold. Then it is explored with one step weakened or one mistake made at a time, which must be found. Only schedules
//! with few preemptions are explored, because a missing order already shows in those.

mod cells;
mod drain;
mod event;
mod far;
mod fence;
mod future;
mod graph;
mod handover;
mod near;
mod plan;
mod queue;
mod recovery;
mod reuse;
mod rights;
mod run;
mod stop;
mod tree;

use pelton::protocol::step::TABLE;

/// The steps whose order no exploration can miss.
///
/// - CANCEL writes only the opcode and the check, and a group that sees one without the other looks again.
/// - Adoption changes a state with the same code as `park` and `apply`. The end of the cell's last task is known to the
///   group already, because the host has seen it before it published the slot.
/// - Who looks for uses of cells on the host compares numbers and looks again later.
const SPARE: &[&str] = &["cancel", "adopt", "begin use", "look use"];

/// Checks that some exploration weakens every order of the table.
#[test]
fn every_order_is_needed() {
    let lists = [
        cells::PASSES,
        cells::ASKS,
        cells::HEED,
        drain::LEAVE,
        event::SIGNAL,
        event::HOLD,
        event::CANCELS,
        event::PRESENT,
        event::AFTER,
        near::LAPS,
        near::COPIES,
        near::APART,
        near::LIGHT,
        far::ROUTE,
        fence::PASS,
        rights::FAR,
        rights::POLLER,
        rights::AWAY_STEPS,
        stop::ENDS,
        stop::STOPS,
        fence::FOLLOW,
        fence::KEEP,
        fence::RETIRE,
        queue::QUEUE,
        recovery::BEGUN,
        recovery::LOSE,
        recovery::NOTES,
        reuse::REUSE,
        reuse::REFUSE,
        reuse::EFFECTS,
        reuse::RECORDS,
        reuse::MARKED,
        reuse::WAITS,
        graph::NODES,
        graph::REPLACE,
        tree::JOIN,
        tree::LATER,
        tree::ENDS,
        tree::CELLS,
        tree::INSTANCES,
    ];
    let weakened = lists.concat();
    for step in TABLE.iter().filter(|step| step.orders() && !SPARE.contains(&step.name)) {
        assert!(weakened.contains(&step.name), "nobody weakens {:?}", step.name);
    }
}
