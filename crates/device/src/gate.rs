//! Which launches and loads may use a device at the same time, where code is loaded only between kernels.
//!
//! The driver of a GPU loads code and frees memory only between kernels: such a call waits for the end of every resident kernel,
//! and all other calls wait behind it. So launches are counted here, and those calls are made only by a thread that is *alone* on
//! the device. A launch is refused if its groups find no room beside groups that may run for ever: it might never start, and
//! then it could not be stopped either.
//!
//! **Who comes first.** A thread that wants to load or launch takes the next number, a *turn*. A launch waits for the loads of
//! earlier turns, and a load waits for the launches of earlier turns, unless they find no room. So nobody waits for somebody who
//! came later, and two threads never wait for each other.
//!
//! **Making way.** A load holds later launches back and waits for the kernels that end by themselves. Then it asks the owners of
//! the others to make way, through the [`Residence`] that they were launched with. Their kernels end, and the launches with which they
//! want to go on have later turns than the load. A kernel stays for at least [`STAY`] before it is asked, so that it gets some work
//! done however many loads there are. While it makes way, its room stays reserved. If a kernel has no residence and stays, the load is
//! refused, and the others were not disturbed.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::residence::Residence;

/// The room of a whole device, in parts that are small enough to count groups in. Shares of it are rounded down, so that three
/// thirds fit. There are so many parts that what is lost by rounding never makes room for another group.
const WHOLE: u64 = 1 << 40;

/// How long a load or a launch waits before it is refused as busy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// How long it waits for a kernel that cannot be asked to make way, or for room.
    pub unasked: Duration,
    /// How long it waits for others that load, or were asked to make way, although nothing changes at the gate.
    pub asked: Duration,
}

impl Patience {
    /// No patience: what cannot be had at once is refused.
    pub(crate) const NONE: Patience = Patience { unasked: Duration::ZERO, asked: Duration::ZERO };
}

/// How long loads and launches wait. Kernels that were asked to make way first finish the tasks that they have taken, which
/// may take a while.
pub(crate) const PATIENCE: Patience =
    Patience { unasked: Duration::from_secs(1), asked: Duration::from_secs(30) };

/// How long a kernel stays before it is asked to make way. Making way takes about half a millisecond, so it takes at most a
/// tenth of a kernel's time.
const STAY: Duration = Duration::from_millis(5);

/// Why a launch was refused.
pub(crate) const NO_ROOM: &str =
    "kernels that may run for ever have taken the room; give each session a share of the device";

/// Why a load was refused.
pub(crate) const NOT_ALONE: &str =
    "it loads no code while a kernel is resident, and one that is does not make way";

/// How often a launch that waits looks whether its owner has cancelled it.
const CANCEL_LOOK: Duration = Duration::from_millis(2);

/// The longest time that a thread waits at once.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A launch that is under way.
#[derive(Debug)]
struct GateLaunch {
    turn: u64,
    since: Instant,
    residence: Option<Arc<Residence>>,
    /// Whether its owner was asked to make way.
    asked: bool,
}

/// A launch that waits until it may start.
#[derive(Debug)]
struct WaitingLaunch {
    turn: u64,
    /// The room that it needs beyond what is reserved for it.
    needs: u64,
}

#[derive(Debug, Default)]
struct GateState {
    launches: Vec<GateLaunch>,
    /// The room that is taken by launches which may run for ever, or reserved for them.
    taken: u64,
    /// Whether a thread is alone on the device.
    alone: bool,
    /// The turn of the thread that comes next.
    next_turn: u64,
    /// The turns of the threads that wait to be alone, in order.
    waiting_loads: Vec<u64>,
    waiting_launches: Vec<WaitingLaunch>,
    /// How many launches and loads have started or ended so far.
    changes: u64,
}

impl GateState {
    fn take_turn(&mut self) -> u64 {
        self.next_turn += 1;
        self.next_turn
    }

    fn has_room(&self, needs: u64) -> bool {
        needs == 0 || self.taken.saturating_add(needs) <= WHOLE
    }

    /// Whether a launch has to wait for loads.
    fn holds_back(&self, turn: u64) -> bool {
        self.alone || self.waiting_loads.first().is_some_and(|load| *load < turn)
    }

    /// Whether a load has to wait for other loads, for launches that come before it, or for launches under way.
    fn delays_load(&self, turn: u64) -> bool {
        let comes_first = |launch: &WaitingLaunch| launch.turn < turn && self.has_room(launch.needs);
        self.alone
            || self.waiting_loads.first().is_some_and(|load| *load < turn)
            || self.waiting_launches.iter().any(comes_first)
            || !self.launches.is_empty()
    }

    /// Whether every kernel that is there can be asked to make way.
    fn all_can_be_asked(&self) -> bool {
        self.launches.iter().all(|launch| launch.residence.is_some())
    }

    /// Finds the launches to be asked to make way now, and notes that they are asked. If it is too early for some, also returns
    /// for how long. There are none while a kernel is there that cannot be asked.
    fn launches_to_ask(&mut self) -> (Vec<Arc<Residence>>, Option<Duration>) {
        let (mut due, mut early) = (Vec::new(), None);
        if self.all_can_be_asked() {
            for launch in self.launches.iter_mut().filter(|launch| !launch.asked) {
                match STAY.saturating_sub(launch.since.elapsed()) {
                    Duration::ZERO => {
                        launch.asked = true;
                        due.extend(launch.residence.clone());
                    }
                    left => early = Some(early.map_or(left, |other: Duration| other.min(left))),
                }
            }
        }
        (due, early)
    }
}

/// Counts the launches on a device and keeps them apart from calls that need the device for themselves.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

/// The room on a device that a launch needs, in parts of [`WHOLE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LaunchRoom {
    /// The room that must be free when the launch starts.
    needs: u64,
    /// The room that other launches cannot have while it runs.
    takes: u64,
}

impl LaunchRoom {
    /// The room of groups that may wait for each other, on a device that holds `resident` of them at once: all of them must
    /// be resident together, and they may stay for ever.
    pub(crate) fn of_waiting_groups(groups: u32, resident: u32) -> Self {
        let room = LaunchRoom::share(groups, resident);
        LaunchRoom { needs: room, takes: room }
    }

    /// The room of groups that run independently of each other: one must find room at a time, and all of them end.
    pub(crate) fn of_independent_groups(resident: u32) -> Self {
        LaunchRoom { needs: LaunchRoom::share(1, resident), takes: 0 }
    }

    fn share(groups: u32, resident: u32) -> u64 {
        let room = u128::from(groups) * u128::from(WHOLE) / u128::from(resident.max(1));
        u64::try_from(room).unwrap_or(u64::MAX)
    }
}

/// When something has last changed at the gate, as far as a thread that waits knows.
#[derive(Debug)]
struct LastChange {
    changes: u64,
    at: Instant,
}

impl LastChange {
    fn new(state: &GateState) -> Self {
        LastChange { changes: state.changes, at: Instant::now() }
    }

    /// How much is left of a patience that begins anew with every change.
    fn left_of(&mut self, patience: Duration, state: &GateState) -> Duration {
        if self.changes != state.changes {
            *self = LastChange::new(state);
        }
        patience.saturating_sub(self.at.elapsed())
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, for at most `time`.
    fn wait<'a>(&self, state: MutexGuard<'a, GateState>, time: Duration) -> MutexGuard<'a, GateState> {
        // The system does not take every duration.
        let waited = self.changed.wait_timeout(state, time.min(LONGEST_WAIT));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Lets a launch start, and returns its pass. Returns `None` if it finds no room, or loads hold it back, for longer than it
    /// has patience.
    ///
    /// A launch that goes on in the room that is reserved for its residence always gets its pass, unless its owner
    /// [cancels](Residence::cancel) it meanwhile. If it needs more than that, it does not wait for it, because all tasks of its
    /// owner wait meanwhile. If it needs less, the rest stays reserved until it has [started](LaunchPass::started).
    pub(crate) fn enter(
        self: &Arc<Self>,
        room: LaunchRoom,
        residence: Option<&Arc<Residence>>,
        patience: Patience,
    ) -> Option<LaunchPass> {
        let mut reserved = residence.and_then(|residence| residence.take_reserved());
        let own = reserved.as_mut().and_then(|room| room.downcast_mut::<GateRoom>());
        let mut own = own.filter(|own| Arc::ptr_eq(&own.gate, self));
        let had = own.as_ref().map_or(0, |own| own.takes);
        let needs = room.needs.saturating_sub(had);
        let patience = match own {
            Some(_) => Patience { unasked: Duration::ZERO, asked: Duration::MAX },
            None => patience,
        };
        let mut state = self.lock();
        let turn = state.take_turn();
        state.waiting_launches.push(WaitingLaunch { turn, needs });
        let (mut state, admitted) = self.wait_to_launch(state, (turn, needs), residence, patience);
        state.waiting_launches.retain(|launch| launch.turn != turn);
        if admitted {
            state.taken = state.taken - had + room.takes.max(had);
            // The launch has taken over what was reserved.
            if let Some(own) = &mut own {
                own.takes = 0;
            }
            state.changes += 1;
            let residence = residence.cloned();
            state.launches.push(GateLaunch { turn, since: Instant::now(), residence, asked: false });
        }
        drop(state);
        self.changed.notify_all();
        if let (false, Some(residence), Some(reserved)) = (admitted, residence, reserved) {
            residence.reserve(reserved);
        }
        let (takes, wants) = (room.takes.max(had), room.takes);
        admitted.then(|| LaunchPass { gate: self.clone(), turn, takes, wants })
    }

    /// Waits until a launch of this turn may start and finds the room that it needs, and returns whether it may.
    fn wait_to_launch<'a>(
        &self,
        mut state: MutexGuard<'a, GateState>,
        (turn, needs): (u64, u64),
        residence: Option<&Arc<Residence>>,
        patience: Patience,
    ) -> (MutexGuard<'a, GateState>, bool) {
        let (began, mut change) = (Instant::now(), LastChange::new(&state));
        loop {
            let has_room = state.has_room(needs);
            if has_room && !state.holds_back(turn) {
                return (state, true);
            }
            // Whether there is room does not depend on whoever comes and goes, so changes are no reason to wait longer.
            let left = match has_room {
                true => change.left_of(patience.asked, &state),
                false => patience.unasked.saturating_sub(began.elapsed()),
            };
            let cancelled = residence.is_some_and(|residence| residence.is_cancelled());
            if left.is_zero() || cancelled {
                return (state, false);
            }
            // Nobody wakes this thread when its owner cancels the launch.
            state = self.wait(state, if residence.is_some() { left.min(CANCEL_LOOK) } else { left });
        }
    }

    /// Excludes launches and other loads until the guard is dropped. Returns `None` if launches stay for longer than the load has
    /// patience. Without any patience, nobody is asked to make way.
    pub(crate) fn alone(&self, patience: Patience) -> Option<Alone<'_>> {
        let mut state = self.lock();
        let turn = state.take_turn();
        state.waiting_loads.push(turn);
        let mut change = LastChange::new(&state);
        let granted = loop {
            if !state.delays_load(turn) {
                break true;
            }
            let patience = if state.all_can_be_asked() { patience.asked } else { patience.unasked };
            let left = change.left_of(patience, &state);
            if left.is_zero() {
                break false;
            }
            let (due, early) = state.launches_to_ask();
            if due.is_empty() {
                state = self.wait(state, early.map_or(left, |early| early.min(left)));
                continue;
            }
            drop(state);
            // Each is dropped without the lock, because it may be the last one, and then gives back the room that it has.
            due.into_iter().for_each(|residence| residence.ask());
            state = self.lock();
        };
        state.waiting_loads.retain(|load| *load != turn);
        state.alone |= granted;
        state.changes += u64::from(granted);
        drop(state);
        // Launches that were held back may go on, unless this thread is alone now.
        self.changed.notify_all();
        // Not `then_some`: a guard that is made and dropped at once would end the time of whoever is alone.
        granted.then(|| Alone(self))
    }
}

/// The permission of a launch to run, which it holds until it has ended.
#[derive(Debug)]
pub(crate) struct LaunchPass {
    gate: Arc<Gate>,
    turn: u64,
    /// The room that it takes now, and the room that it needs once it has started.
    takes: u64,
    wants: u64,
}

impl LaunchPass {
    /// Notes that the launch has started, so that what was reserved and is not needed becomes free. If a launch cannot start, all
    /// of it stays reserved for the one that comes instead.
    pub(crate) fn started(&mut self) {
        self.gate.lock().taken -= self.takes - self.wants;
        self.takes = self.wants;
        self.gate.changed.notify_all();
    }
}

impl Drop for LaunchPass {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        let at = state.launches.iter().position(|launch| launch.turn == self.turn);
        let residence = at.and_then(|at| state.launches.swap_remove(at).residence);
        state.changes += 1;
        drop(state);
        let room = GateRoom { gate: self.gate.clone(), takes: self.takes };
        match residence.filter(|residence| residence.keeps_room()) {
            Some(residence) => residence.reserve(Box::new(room)),
            None => drop(room),
        }
        self.gate.changed.notify_all();
    }
}

/// Room that is reserved, and free again when this is dropped.
#[derive(Debug)]
struct GateRoom {
    gate: Arc<Gate>,
    takes: u64,
}

impl Drop for GateRoom {
    fn drop(&mut self) {
        self.gate.lock().taken -= self.takes;
        self.gate.changed.notify_all();
    }
}

/// A guard that says that no launch and no other load uses the device.
#[derive(Debug)]
pub(crate) struct Alone<'a>(&'a Gate);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.alone = false;
        state.changes += 1;
        drop(state);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
