//! Which launches and loads may use a GPU at the same time.
//!
//! The driver loads code and frees memory only between kernels: such a call waits for the end of every resident kernel, and all
//! other calls wait behind it. So launches are counted here, and those calls are made only by a thread that is *alone* on the
//! device. A thread that asks to be alone holds new launches back, waits briefly for the launches under way, and is refused if
//! one of them stays. A launch is refused likewise if its groups find no room beside groups that may run for ever: it might never
//! start, and then it could not be stopped either.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// The room of a whole device, in parts that are small enough to count groups in.
const WHOLE: u64 = 1 << 20;

#[derive(Debug, Default)]
struct GateState {
    /// How many launches are under way.
    launches: u32,
    /// The room that launches have taken which may run for ever.
    taken: u64,
    /// Whether a thread is alone on the device.
    alone: bool,
    /// How many threads wait to be alone.
    waiting: u32,
}

/// Counts the launches on a device and keeps them apart from calls that need the device for themselves.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

/// The room on a device that a launch needs, in parts of [`WHOLE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LaunchRoom {
    /// The room that must be free when the launch starts.
    needs: u64,
    /// The room that other launches cannot have while it runs.
    takes: u64,
}

impl LaunchRoom {
    /// The room of groups that may wait for each other, on a device that holds `resident` of them at once: all of them must
    /// be resident together, and they may stay for ever.
    pub(super) fn of_waiting_groups(groups: u32, resident: u32) -> Self {
        let room = LaunchRoom::share(groups, resident);
        LaunchRoom { needs: room, takes: room }
    }

    /// The room of groups that run independently of each other: one must find room at a time, and all of them end.
    pub(super) fn of_independent_groups(resident: u32) -> Self {
        LaunchRoom { needs: LaunchRoom::share(1, resident), takes: 0 }
    }

    fn share(groups: u32, resident: u32) -> u64 {
        (u64::from(groups) * WHOLE).div_ceil(u64::from(resident.max(1)))
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for at most `patience` while a condition holds, and says whether it no longer does.
    fn wait_while<'a>(
        &'a self,
        state: MutexGuard<'a, GateState>,
        patience: Duration,
        holds: impl Fn(&GateState) -> bool,
    ) -> (MutexGuard<'a, GateState>, bool) {
        let wait = self.changed.wait_timeout_while(state, patience, |state| holds(state));
        let (state, _) = wait.unwrap_or_else(|poisoned| poisoned.into_inner());
        let free = !holds(&state);
        (state, free)
    }

    /// Counts a launch in and gives `true`, or gives `false` if there is no room for it within `patience`. A launch that was
    /// counted in must [`leave`](Gate::leave).
    pub(super) fn enter(&self, room: LaunchRoom, patience: Duration) -> bool {
        let full = |state: &GateState| state.alone || state.waiting > 0 || state.taken + room.needs > WHOLE;
        let (mut state, free) = self.wait_while(self.lock(), patience, full);
        if free {
            state.launches += 1;
            state.taken += room.takes;
        }
        free
    }

    /// Counts a launch out that was counted in with the same room.
    pub(super) fn leave(&self, room: LaunchRoom) {
        let mut state = self.lock();
        state.launches -= 1;
        state.taken -= room.takes;
        drop(state);
        self.changed.notify_all();
    }

    /// Excludes launches and other loads until the guard is dropped, or gives `None` if launches stay longer than `patience`.
    pub(super) fn alone(&self, patience: Duration) -> Option<Alone<'_>> {
        let mut state = self.lock();
        state.waiting += 1;
        let (mut state, free) = self.wait_while(state, patience, |state| state.alone || state.launches > 0);
        state.waiting -= 1;
        state.alone |= free;
        drop(state);
        // Launches that were held back may go on, unless this thread is alone now.
        self.changed.notify_all();
        free.then_some(Alone(self))
    }
}

/// A guard that says that no launch and no other load uses the device.
#[derive(Debug)]
pub(super) struct Alone<'a>(&'a Gate);

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
        let (gate, room) = (Gate::default(), LaunchRoom::of_waiting_groups(1, 4));
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
        let (stays, ends) = (LaunchRoom::of_waiting_groups(3, 4), LaunchRoom::of_independent_groups(4));
        assert!(gate.enter(stays, NOW));
        assert!(!gate.enter(stays, NOW), "six groups, and there is room for four");
        assert!(gate.enter(ends, NOW), "groups that end find the fourth place one after the other");
        assert!(gate.enter(LaunchRoom::of_waiting_groups(1, 4), NOW));
        assert!(!gate.enter(ends, NOW), "no place is left");
        gate.leave(stays);
        assert!(gate.enter(ends, NOW));
    }

    #[test]
    fn who_waits_to_be_alone_comes_before_new_launches() {
        let (gate, room) = (Arc::new(Gate::default()), LaunchRoom::of_independent_groups(4));
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
        let (gate, room) = (Gate::default(), LaunchRoom::of_waiting_groups(1, 4));
        assert!(gate.enter(room, NOW));
        assert!(gate.alone(Duration::from_millis(1)).is_none());
        assert!(gate.enter(room, NOW));
    }
}
