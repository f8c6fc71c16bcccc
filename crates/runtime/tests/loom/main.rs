//! The ring under every interleaving: `cargo test -p pelton --features loom --test loom --release`.
//!
//! The host's side is `HostRing` itself. The device's side is a model of what `assemble` writes; its orders come from the
//! table of steps, to which kernels are held. Each scenario is explored as it is, and then with one step weakened or one
//! mistake made at a time, which must be found. Schedules with few preemptions are looked at; a missing order shows in those.

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

/// Every order of the table is weakened in some exploration, but for CANCEL's: it writes the opcode and the check alone, and a group
/// that has one without the other looks again.
#[test]
fn every_order_is_needed() {
    let lists = [
        drain::LEAVE,
        near::LAPS,
        near::COPIES,
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
