//! The view machine: every word has its history of writes, and each lane its own view of them.
//!
//! A load may read any write that its lane's view allows, so a lane can be as far behind as the orders in the program
//! let it be. A release hands the lane's view out with a write, an acquire takes it in; fences do the same for the
//! accesses around them, and `seq_cst` fences also share one view among them. Scopes decide who may take what. A
//! write goes anywhere in its word's order behind what the lane has seen; an atomic that modifies reads the newest
//! write and follows it at once.

use std::ops::Range;

use super::random::Random;
use super::view::{Location, MemoryView, ReleasedViews, ScopedViews, Time};
use crate::types::{Order, Scope};

/// The most writes that are remembered for all words together. Older writes can no longer be read.
const WRITES: usize = 1 << 15;

/// The distance in time between successive writes, which leaves room for others in between.
const GAP: Time = 1 << 20;

/// A write.
struct Message {
    time: Time,
    value: u64,
    gift: ReleasedViews,
}

/// The views of a lane.
#[derive(Clone, Default)]
struct LaneViews {
    group: u32,
    view: MemoryView,
    /// The views that an acquire fence would add to the lane's view.
    seen: ScopedViews,
    /// The views that a relaxed write passes on, which are those at the last release fence.
    fenced: ScopedViews,
}

/// The memory of a whole launch.
pub(super) struct ViewMachine {
    pub random: Random,
    /// The writes of each word, from the oldest to the newest. There is always at least one.
    words: Vec<Vec<Message>>,
    lanes: Vec<LaneViews>,
    /// How many writes each word keeps.
    depth: usize,
    /// What the `seq_cst` fences of each group share, and those of all groups.
    near: Vec<MemoryView>,
    wide: MemoryView,
}

impl ViewMachine {
    /// Words with these values, and lanes that know nothing else.
    pub(crate) fn new(values: impl Iterator<Item = u64>, groups: u32, lanes: u32, random: Random) -> Self {
        let first = |value| vec![Message { time: 0, value, gift: ReleasedViews::default() }];
        let words: Vec<_> = values.map(first).collect();
        let lane = |group| LaneViews { group, ..LaneViews::default() };
        let depth = (WRITES / words.len().max(1)).clamp(8, 64);
        ViewMachine {
            random,
            words,
            lanes: (0..groups).flat_map(|group| vec![lane(group); lanes as usize]).collect(),
            depth,
            near: vec![MemoryView::default(); groups as usize],
            wide: MemoryView::default(),
        }
    }

    /// The oldest write of a word that a lane may read.
    pub(crate) fn floor(&self, lane: usize, location: Location) -> Time {
        self.lanes[lane].view.get(location)
    }

    /// Reads a word: any write from `floor` on, half of the time the newest.
    pub(crate) fn read(
        &mut self,
        lane: usize,
        location: Location,
        floor: Time,
        order: Order,
        scope: Scope,
    ) -> u64 {
        let writes = &self.words[location as usize];
        let first = writes.partition_point(|write| write.time < floor);
        let last = writes.len() - 1;
        let at = if self.random.one_in(2) { last } else { first + self.random.below(last - first + 1) };
        self.observe(lane, location, at, order, scope)
    }

    /// Updates the views of a lane that has read a write.
    fn observe(&mut self, lane: usize, location: Location, at: usize, order: Order, scope: Scope) -> u64 {
        let (lane, write) = (&mut self.lanes[lane], &self.words[location as usize][at]);
        let gift = write.gift.take(lane.group);
        lane.view.raise(location, write.time);
        lane.seen.join(&gift);
        if order.acquires() {
            lane.view.join(gift.in_scope(scope));
        }
        write.value
    }

    /// Writes a word: behind all that the lane has seen of it, most often behind everything.
    pub(crate) fn write(&mut self, lane: usize, location: Location, value: u64, order: Order, scope: Scope) {
        let floor = self.floor(lane, location);
        let writes = &self.words[location as usize];
        let last = writes.len() - 1;
        let mut after = last;
        if self.random.one_in(4) {
            let seen = writes.partition_point(|write| write.time <= floor).saturating_sub(1);
            after = seen + self.random.below(last - seen + 1);
        }
        let before = writes[after].time;
        let time = match writes.get(after + 1) {
            // There is no room, because an atomic follows directly.
            Some(next) if next.time - before < 2 => writes[last].time + GAP,
            Some(next) => before + (next.time - before) / 2,
            None => before + GAP,
        };
        self.publish(lane, location, Message { time, value, gift: ReleasedViews::default() }, order, scope);
    }

    /// Replaces the newest value of a word by a function of it, if the function returns one, and returns the old value.
    pub(crate) fn modify(
        &mut self,
        lane: usize,
        location: Location,
        order: Order,
        scope: Scope,
        f: impl Fn(u64) -> Option<u64>,
    ) -> u64 {
        let last = self.words[location as usize].len() - 1;
        let old = self.observe(lane, location, last, order, scope);
        if let Some(value) = f(old) {
            let Message { time, gift, .. } = &self.words[location as usize][last];
            let message = Message { time: time + 1, value, gift: gift.clone() };
            self.publish(lane, location, message, order, scope);
        }
        old
    }

    /// Adds a write to its word's history, with what the lane releases by it.
    fn publish(&mut self, lane: usize, location: Location, mut message: Message, order: Order, scope: Scope) {
        let lane = &mut self.lanes[lane];
        lane.view.raise(location, message.time);
        let mut out = lane.fenced.clone();
        if order.releases() {
            out.release(&lane.view, scope);
        }
        message.gift.join(&ReleasedViews::new(lane.group, out));
        let writes = &mut self.words[location as usize];
        let at = writes.partition_point(|write| write.time < message.time);
        writes.insert(at, message);
        if writes.len() > self.depth {
            writes.remove(0);
        }
    }

    /// Orders a lane's accesses around it.
    pub(crate) fn fence(&mut self, lane: usize, order: Order, scope: Scope) {
        let lane = &mut self.lanes[lane];
        if order.acquires() {
            lane.view.join(lane.seen.in_scope(scope));
        }
        if order == Order::SeqCst {
            let near = &mut self.near[lane.group as usize];
            lane.view.join(near);
            if scope != Scope::Group {
                lane.view.join(&self.wide);
                self.wide = lane.view.clone();
            }
            *near = lane.view.clone();
        }
        if order.releases() {
            lane.fenced.release(&lane.view, scope);
        }
    }

    /// Executes a barrier, after which each of these lanes knows what any of them knew.
    pub(crate) fn meet(&mut self, lanes: Range<usize>) {
        let mut view = MemoryView::default();
        self.lanes[lanes.clone()].iter().for_each(|lane| view.join(&lane.view));
        self.lanes[lanes].iter_mut().for_each(|lane| lane.view = view.clone());
    }

    /// The newest value of a word, if it was ever written.
    pub(crate) fn newest(&self, location: Location) -> Option<u64> {
        self.words[location as usize].last().filter(|write| write.time > 0).map(|write| write.value)
    }
}
