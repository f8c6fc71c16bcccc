use super::*;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{JoinHandle, spawn, yield_now};

const NOW: Patience = Patience::NONE;
const LONG: Patience = Patience { unasked: Duration::from_secs(600), asked: Duration::from_secs(600) };
const SHORT: Patience = Patience { unasked: Duration::from_millis(20), asked: Duration::from_millis(20) };

fn waiting(groups: u32) -> LaunchRoom {
    LaunchRoom::of_waiting_groups(groups, 4)
}

fn independent() -> LaunchRoom {
    LaunchRoom::of_independent_groups(4)
}

/// A residence that counts how often its owner was asked.
fn counted() -> (Arc<Residence>, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let residence = Residence::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    residence.keep_room();
    (Arc::new(residence), asked)
}

fn wait_until(holds: impl Fn() -> bool) {
    while !holds() {
        yield_now();
    }
}

/// Starts a load in a thread of its own, and returns when the load waits.
fn start_load(gate: &Arc<Gate>) -> (Arc<AtomicBool>, JoinHandle<bool>) {
    let (loads, loaded) = (gate.lock().waiting_loads.len(), Arc::new(AtomicBool::new(false)));
    let (own, done) = (gate.clone(), loaded.clone());
    let loader = spawn(move || {
        let alone = own.alone(LONG);
        done.store(alone.is_some(), Ordering::SeqCst);
        alone.is_some()
    });
    wait_until(|| gate.lock().waiting_loads.len() > loads || loaded.load(Ordering::SeqCst));
    (loaded, loader)
}

#[test]
fn launches_share_and_loads_do_not() {
    let gate = Arc::new(Gate::default());
    let passes = [gate.enter(waiting(1), None, NOW).unwrap(), gate.enter(waiting(1), None, NOW).unwrap()];
    assert!(gate.alone(NOW).is_none());
    let [first, second] = passes;
    drop(first);
    assert!(gate.alone(NOW).is_none());
    drop(second);
    let alone = gate.alone(NOW).expect("nobody is there");
    assert!(gate.alone(NOW).is_none() && gate.enter(waiting(1), None, NOW).is_none());
    assert!(gate.alone(NOW).is_none(), "who was refused has not ended the time of whoever is alone");
    drop(alone);
    assert!(gate.enter(waiting(1), None, NOW).is_some());
}

#[test]
fn what_may_stay_keeps_its_room() {
    let gate = Arc::new(Gate::default());
    let stays = gate.enter(waiting(3), None, NOW).unwrap();
    assert!(gate.enter(waiting(3), None, NOW).is_none(), "six groups, and there is room for four");
    let ends = gate.enter(independent(), None, NOW);
    assert!(ends.is_some(), "groups that end find the fourth place one after the other");
    let fourth = gate.enter(waiting(1), None, NOW);
    assert!(fourth.is_some());
    assert!(gate.enter(independent(), None, NOW).is_none(), "no place is left");
    drop(stays);
    assert!(gate.enter(independent(), None, NOW).is_some());
}

#[test]
fn who_waits_to_be_alone_comes_before_new_launches() {
    let gate = Arc::new(Gate::default());
    let pass = gate.enter(independent(), None, NOW);
    let (loaded, loader) = start_load(&gate);
    assert!(gate.enter(independent(), None, NOW).is_none());
    drop(pass);
    assert!(gate.enter(independent(), None, LONG).is_some());
    assert!(loaded.load(Ordering::SeqCst));
    assert!(loader.join().expect("it does not panic"));
}

#[test]
fn who_gives_up_waiting_lets_launches_go_on() {
    let gate = Arc::new(Gate::default());
    let _pass = gate.enter(waiting(1), None, NOW).unwrap();
    assert!(gate.alone(SHORT).is_none());
    assert!(gate.enter(waiting(1), None, NOW).is_some());
}

#[test]
fn a_resident_kernel_makes_way_and_finds_its_room_again() {
    let gate = Arc::new(Gate::default());
    let (residence, asked) = counted();
    let pass = gate.enter(waiting(3), Some(&residence), NOW).unwrap();
    let (loaded, loader) = start_load(&gate);
    wait_until(|| asked.load(Ordering::SeqCst) == 1);
    assert!(!loaded.load(Ordering::SeqCst), "the kernel is still there");
    drop(pass);
    // The launch waits for the load, and nobody else gets its room meanwhile.
    let pass = gate.enter(waiting(3), Some(&residence), NOW).expect("its room is reserved");
    assert!(loaded.load(Ordering::SeqCst));
    assert!(loader.join().unwrap());
    assert!(gate.enter(waiting(2), None, NOW).is_none());
    drop(pass);
    assert!(gate.enter(waiting(2), None, NOW).is_none(), "the room is reserved for the next launch");
    drop(residence);
    assert!(gate.enter(waiting(4), None, NOW).is_some());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn a_launch_that_needs_more_than_its_room_is_refused_at_once_and_keeps_its_room() {
    let gate = Arc::new(Gate::default());
    let (residence, _) = counted();
    let _other = gate.enter(waiting(1), None, NOW).unwrap();
    drop(gate.enter(waiting(2), Some(&residence), NOW).unwrap());
    assert!(gate.enter(waiting(4), Some(&residence), LONG).is_none(), "one of four groups is another's");
    let pass = gate.enter(waiting(3), Some(&residence), LONG).expect("two are its own, and one is free");
    assert!(gate.enter(waiting(1), None, NOW).is_none());
    drop(pass);
    // A smaller launch leaves the rest to others, but only once it has started.
    let mut pass = gate.enter(waiting(1), Some(&residence), NOW).unwrap();
    assert!(gate.enter(waiting(2), None, NOW).is_none());
    pass.started();
    assert!(gate.enter(waiting(2), None, NOW).is_some());
}

#[test]
fn nobody_is_disturbed_for_a_load_that_has_to_wait_for_others() {
    let gate = Arc::new(Gate::default());
    let (residence, asked) = counted();
    let _resident = gate.enter(waiting(1), Some(&residence), NOW).unwrap();
    let stays = gate.enter(waiting(1), None, NOW);
    assert!(gate.alone(SHORT).is_none());
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    drop(stays);
    assert!(gate.alone(SHORT).is_none(), "the owner of the other one does nothing");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

/// A load that comes while a kernel makes way for another load comes after the next launch of that kernel.
#[test]
fn kernels_run_between_loads() {
    let gate = Arc::new(Gate::default());
    let (residence, asked) = counted();
    drop(gate.enter(waiting(1), Some(&residence), NOW).unwrap());
    let first = gate.alone(NOW).unwrap();
    let next_launch = {
        let (gate, residence) = (gate.clone(), residence.clone());
        spawn(move || gate.enter(waiting(1), Some(&residence), NOW))
    };
    wait_until(|| !gate.lock().waiting_launches.is_empty());
    let (loaded, second) = start_load(&gate);
    drop(first);
    let pass = next_launch.join().unwrap().expect("its room is reserved");
    wait_until(|| asked.load(Ordering::SeqCst) == 1);
    assert!(!loaded.load(Ordering::SeqCst));
    drop(pass);
    assert!(second.join().unwrap());
}

#[test]
fn a_launch_that_cannot_start_leaves_its_room_to_the_one_before() {
    let gate = Arc::new(Gate::default());
    let (residence, _) = counted();
    drop(gate.enter(waiting(4), Some(&residence), NOW).unwrap());
    drop(gate.enter(waiting(1), Some(&residence), NOW).unwrap());
    assert!(gate.enter(waiting(1), None, NOW).is_none());
    assert!(gate.enter(waiting(4), Some(&residence), NOW).is_some());
}

#[test]
fn a_kernel_that_ends_by_itself_and_one_that_gives_up_leave_their_room() {
    let gate = Arc::new(Gate::default());
    let by_itself = Arc::new(Residence::new(|| {}));
    drop(gate.enter(waiting(4), Some(&by_itself), NOW).unwrap());
    let (residence, _) = counted();
    drop(gate.enter(waiting(4), Some(&residence), NOW).unwrap());
    assert!(gate.enter(waiting(1), None, NOW).is_none());
    residence.give_up_room();
    assert!(gate.enter(waiting(4), None, NOW).is_some());
}

#[test]
fn an_owner_may_cancel_a_launch_that_waits() {
    let gate = Arc::new(Gate::default());
    let (residence, _) = counted();
    drop(gate.enter(waiting(1), Some(&residence), NOW).unwrap());
    let _alone = gate.alone(NOW).unwrap();
    std::thread::scope(|threads| {
        let launch = threads.spawn(|| gate.enter(waiting(1), Some(&residence), LONG).is_none());
        wait_until(|| !gate.lock().waiting_launches.is_empty());
        residence.cancel();
        assert!(launch.join().unwrap());
    });
}

/// The gate has the last reference to the residence of a session that was dropped while it was asked.
#[test]
fn an_owner_may_go_while_it_is_asked() {
    let gate = Arc::new(Gate::default());
    let (told, is_asked) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let (told, may_go_on) = (Mutex::new(told), Mutex::new(may_go_on));
    let residence = Arc::new(Residence::new(move || {
        told.lock().unwrap().send(()).unwrap();
        may_go_on.lock().unwrap().recv().unwrap();
    }));
    residence.keep_room();
    let pass = gate.enter(waiting(4), Some(&residence), NOW).unwrap();
    let (_, loader) = start_load(&gate);
    is_asked.recv().unwrap();
    drop(pass);
    drop(residence);
    go_on.send(()).unwrap();
    assert!(loader.join().unwrap());
    assert!(gate.enter(waiting(4), None, NOW).is_some(), "its room is free");
}

#[test]
fn three_thirds_fit_and_four_do_not() {
    let gate = Arc::new(Gate::default());
    let third = || gate.enter(LaunchRoom::of_waiting_groups(44, 132), None, NOW);
    let all = [third(), third(), third()];
    assert!(all.iter().all(Option::is_some));
    assert!(gate.enter(LaunchRoom::of_waiting_groups(1, 2048), None, NOW).is_none());
}
