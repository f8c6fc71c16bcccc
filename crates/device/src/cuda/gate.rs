//! Who may use a device at once: launches together, what blocks behind them alone.
//!
//! The driver loads code and frees memory only between kernels: such a call made while one is resident waits for its
//! end, and all other calls wait behind it. So launches are counted here, and those calls are made by whoever is
//! *alone*. Who asks to be alone holds new launches back, waits a moment for those under way, and is refused if one of
//! them stays. A launch is refused likewise if its groups do not find room beside groups that may stay for ever: it might
//! never start, and then could not be stopped either.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// All the room of a device.
pub const WHOLE: u64 = 1 << 20;

#[derive(Debug, Default)]
struct State {
    /// Launches under way.
    runs: u32,
    /// The room of those that may stay.
    taken: u64,
    /// Whether somebody is alone.
    alone: bool,
    /// How many wait to be.
    waiting: u32,
}

/// The gate of a device.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

/// What a launch takes of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// What must be free when it starts, of [`WHOLE`].
    pub needs: u64,
    /// What it keeps from others while it runs.
    pub takes: u64,
}

impl Room {
    /// The room of some groups, where so many are the most at once; they keep it if they may wait for each other.
    pub fn new(groups: u32, most: u32, waits: bool) -> Self {
        let part = |groups: u32| (u64::from(groups) * WHOLE).div_ceil(u64::from(most.max(1)));
        match waits {
            true => Room { needs: part(groups), takes: part(groups) },
            false => Room { needs: part(1), takes: 0 },
        }
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits, at most so long, while something holds. Whether it no longer does.
    fn pass<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        patience: Duration,
        holds: impl Fn(&State) -> bool,
    ) -> (MutexGuard<'a, State>, bool) {
        let wait = self.changed.wait_timeout_while(state, patience, |state| holds(state));
        let (state, _) = wait.unwrap_or_else(|poisoned| poisoned.into_inner());
        let free = !holds(&state);
        (state, free)
    }

    /// Counts a launch in; false if there is no room for it. It must [`leave`](Gate::leave).
    pub fn enter(&self, room: Room, patience: Duration) -> bool {
        let full = |state: &State| state.alone || state.waiting > 0 || state.taken + room.needs > WHOLE;
        let (mut state, free) = self.pass(self.lock(), patience, full);
        if free {
            state.runs += 1;
            state.taken += room.takes;
        }
        free
    }

    /// Counts a launch out.
    pub fn leave(&self, room: Room) {
        let mut state = self.lock();
        state.runs -= 1;
        state.taken -= room.takes;
        drop(state);
        self.changed.notify_all();
    }

    /// Nobody else until the guard is dropped; none if launches stay.
    pub fn alone(&self, patience: Duration) -> Option<Alone<'_>> {
        let mut state = self.lock();
        state.waiting += 1;
        let (mut state, free) = self.pass(state, patience, |state| state.alone || state.runs > 0);
        state.waiting -= 1;
        state.alone |= free;
        drop(state);
        // Launches that were held back may go on, unless somebody is alone now.
        self.changed.notify_all();
        free.then_some(Alone(self))
    }
}

/// That nobody else uses the device.
#[derive(Debug)]
pub struct Alone<'a>(&'a Gate);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.lock().alone = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    const NOW: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn launches_share_and_loads_do_not() {
        let (gate, room) = (Gate::default(), Room::new(1, 4, true));
        assert!(gate.enter(room, NOW) && gate.enter(room, NOW));
        assert!(gate.alone(NOW).is_none());
        gate.leave(room);
        assert!(gate.alone(NOW).is_none());
        gate.leave(room);
        let alone = gate.alone(NOW).expect("nobody is there");
        assert!(!gate.enter(room, NOW) && gate.alone(NOW).is_none());
        drop(alone);
        assert!(gate.enter(room, NOW));
    }

    #[test]
    fn what_may_stay_keeps_its_room() {
        let gate = Gate::default();
        let (stays, ends) = (Room::new(3, 4, true), Room::new(1000, 4, false));
        assert!(gate.enter(stays, NOW));
        assert!(!gate.enter(stays, NOW), "six groups, and there is room for four");
        assert!(gate.enter(ends, NOW), "groups that end find the fourth place one after the other");
        assert!(gate.enter(Room::new(1, 4, true), NOW));
        assert!(!gate.enter(ends, NOW), "no place is left");
        gate.leave(stays);
        assert!(gate.enter(ends, NOW));
    }

    #[test]
    fn who_waits_to_be_alone_comes_before_new_launches() {
        let (gate, room) = (Arc::new(Gate::default()), Room::new(1, 4, false));
        assert!(gate.enter(room, NOW));
        let loaded = Arc::new(AtomicBool::new(false));
        let loader = {
            let (gate, loaded) = (gate.clone(), loaded.clone());
            std::thread::spawn(move || {
                let alone = gate.alone(LONG);
                loaded.store(true, Ordering::SeqCst);
                alone.is_some()
            })
        };
        while gate.lock().waiting == 0 {
            std::thread::yield_now();
        }
        assert!(!gate.enter(room, NOW));
        gate.leave(room);
        assert!(gate.enter(room, LONG));
        assert!(loaded.load(Ordering::SeqCst));
        assert!(loader.join().expect("it does not panic"));
    }

    #[test]
    fn who_gives_up_waiting_lets_launches_go_on() {
        let (gate, room) = (Gate::default(), Room::new(1, 4, true));
        assert!(gate.enter(room, NOW));
        assert!(gate.alone(Duration::from_millis(1)).is_none());
        assert!(gate.enter(room, NOW));
    }
}
