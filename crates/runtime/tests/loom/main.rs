//! Explores a ring under every interleaving: `cargo test -p pelton --features loom --test loom --release`.
//!
//! The host's side is `HostRing` itself. The device's side is a model of what `assemble` writes, and takes its orders
//! from the table of steps, with which assembled kernels are compared. Each scenario is explored as it is, and must
//! hold. Then it is explored with one step weakened or one mistake made at a time, which must be found. Only schedules
//! with few preemptions are explored, because a missing order already shows in those.

mod drain;
mod far;
mod fence;
mod future;
mod near;
mod plan;
mod rights;
mod run;
mod stop;

use pelton::protocol::step::TABLE;

/// Checks that some exploration weakens every order of the table. CANCEL is the exception: it writes only the opcode
/// and the check, and a group that sees one without the other looks again.
#[test]
fn every_order_is_needed() {
    let lists = [
        drain::LEAVE,
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
    ];
    let weakened = lists.concat();
    for step in TABLE.iter().filter(|step| step.orders() && step.name != "cancel") {
        assert!(weakened.contains(&step.name), "nobody weakens {:?}", step.name);
    }
}
