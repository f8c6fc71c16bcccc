//! Explores graphs: nodes that end at the same time, and graphs that are removed while they are launched.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::spawn;

use super::plan::{Patience, Plain, Plan, holds};

/// The step by which nodes that end at the same time see each other.
pub(crate) const NODES: &[&str] = &["node"];

/// Two nodes end at once, and a third one has waited for both.
#[test]
fn a_node_begins_once_after_its_predecessors() {
    holds(2, NODES, &["whoever finds no predecessor left begins it"], |plan| {
        let words = Arc::new((AtomicU64::new(2), Plain::several(2), Plain::several(1), AtomicU64::new(0)));
        let end = move |words: &(AtomicU64, Vec<Plain>, Vec<Plain>, AtomicU64), number: usize| {
            let (left, results, arguments, begun) = words;
            results[number].write();
            let before = left.fetch_sub(1, plan.order("node"));
            let last = match plan.wrong("whoever finds no predecessor left begins it") {
                true => left.load(Ordering::Acquire) == 0,
                false => before == 1,
            };
            if last {
                results.iter().for_each(Plain::read);
                arguments[0].write();
                begun.fetch_add(1, Ordering::Relaxed);
            }
        };
        let other = spawn({
            let words = words.clone();
            move || end(&words, 1)
        });
        end(&words, 0);
        other.join().unwrap();
        assert_eq!(words.3.load(Ordering::Relaxed), 1);
    });
}

/// A graph of three nodes: the first has ended, and the lane that ended it goes on with the second, gives that to another
/// lane before its end, and pays for the first. The third ends at the same time. What each did is seen at the end of the
/// graph, which comes once.
#[test]
fn a_lane_pays_before_it_gives_its_node_away() {
    holds(2, &["child", "ready"], &["a lane pays after it has given its node away"], |plan| {
        let words = (AtomicU64::new(3), Plain::several(3), AtomicU64::new(0), AtomicU64::new(0));
        let words = Arc::new(words);
        let end = move |words: &(AtomicU64, Vec<Plain>, AtomicU64, AtomicU64), number: usize| {
            let (left, results, _, ends) = words;
            results[number].write();
            if left.fetch_sub(1, plan.order("child")) == 1 {
                results.iter().for_each(Plain::read);
                ends.fetch_add(1, Ordering::Relaxed);
            }
        };
        let third = spawn({
            let words = words.clone();
            move || end(&words, 2)
        });
        let taker = spawn({
            let words = words.clone();
            move || {
                let entry = || (words.2.load(plan.order("fill")) != 0).then_some(());
                let taken = Patience(2).poll(entry).is_some();
                if taken {
                    end(&words, 1);
                }
                taken
            }
        });
        words.1[0].write();
        let pay = || words.0.fetch_sub(1, Ordering::Relaxed);
        let late = plan.wrong("a lane pays after it has given its node away");
        if !late {
            pay();
        }
        words.2.store(1, plan.order("ready"));
        if late {
            pay();
        }
        third.join().unwrap();
        if !taker.join().unwrap() {
            words.2.load(Ordering::Acquire);
            end(&words, 1);
        }
        assert_eq!(words.3.load(Ordering::Relaxed), 1);
    });
}

/// An entry of the directory, and the graph that it leads to.
struct Entry {
    plan: Plan,
    /// Where the graph begins, or 0 if there is none.
    first: AtomicU64,
    generation: AtomicU64,
    /// The words of the graph.
    words: Vec<Plain>,
    /// Which use of the entry the words are for.
    meant: AtomicU64,
    /// How many launches are under way.
    live: AtomicU64,
}

impl Entry {
    /// Launches a use of the graph, and returns whether it was there.
    fn launch(&self, generation: u64) -> bool {
        let plan = self.plan;
        let count = || self.live.fetch_add(1, Ordering::Relaxed);
        if !plan.wrong("a launch is counted too late") {
            count();
        }
        plan.fence("look up");
        let first = self.first.load(Ordering::Relaxed);
        plan.fence("found");
        let there = first != 0 && self.generation.load(Ordering::Relaxed) == generation;
        if plan.wrong("a launch is counted too late") {
            count();
        }
        if there {
            self.words[0].read();
            assert_eq!(self.meant.load(Ordering::Relaxed), generation, "another graph was launched");
        }
        self.live.fetch_sub(1, plan.order("launched"));
        there
    }

    /// Removes the first use as the host does, and then gives the entry to another graph, unless launches of the first one
    /// are under way for too long.
    fn replace(&self) -> bool {
        let plan = self.plan;
        self.first.store(0, Ordering::Relaxed);
        plan.fence("remove");
        if Patience(1).poll(|| (self.live.load(Ordering::Relaxed) == 0).then_some(())).is_none() {
            return false;
        }
        plan.fence("removed");
        self.words[0].write();
        self.meant.store(2, Ordering::Relaxed);
        if plan.wrong("the place comes before the number of the use") {
            self.first.store(1, Ordering::Relaxed);
            plan.fence("graph");
            self.generation.store(2, Ordering::Relaxed);
        } else {
            self.generation.store(2, Ordering::Relaxed);
            plan.fence("graph");
            self.first.store(1, Ordering::Relaxed);
        }
        true
    }
}

/// The steps between a launch and the host that removes the graph or gives its place to another one.
pub(crate) const REPLACE: &[&str] = &["look up", "found", "launched", "remove", "removed", "graph"];

#[test]
fn a_launch_finds_its_own_graph_or_none() {
    let mistakes = &["a launch is counted too late", "the place comes before the number of the use"];
    holds(3, REPLACE, mistakes, |plan| {
        let word = AtomicU64::new;
        let entry = Entry {
            plan,
            first: word(1),
            generation: word(1),
            words: Plain::several(1),
            meant: word(1),
            live: word(0),
        };
        let entry = Arc::new(entry);
        let late = spawn({
            let entry = entry.clone();
            move || entry.launch(1)
        });
        let replaced = entry.replace();
        late.join().unwrap();
        assert_eq!(entry.launch(2), replaced);
    });
}
