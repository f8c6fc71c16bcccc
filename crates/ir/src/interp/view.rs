//! Views: for each location, the oldest write that may still be read.
//!
//! A view is what a lane, a message or a fence knows about memory. Two views are joined by taking the newer bound for
//! each location.

use std::cmp::Reverse;
use std::rc::Rc;

use crate::types::Scope;

/// A word of memory.
pub(super) type Location = u32;

/// A place in a word's order of writes.
pub(super) type Time = u64;

/// A bound for each location, which is 0 where the view says nothing. Views are cheap to clone.
#[derive(Clone, Default)]
pub(super) struct MemoryView {
    /// In order of location.
    bounds: Rc<Vec<(Location, Time)>>,
}

impl MemoryView {
    /// The bound of a location.
    pub(crate) fn get(&self, location: Location) -> Time {
        self.bounds.binary_search_by_key(&location, |(l, _)| *l).map_or(0, |k| self.bounds[k].1)
    }

    /// Raises the bound of a location to a write that has been seen.
    pub(crate) fn raise(&mut self, location: Location, time: Time) {
        match self.bounds.binary_search_by_key(&location, |(l, _)| *l) {
            Ok(k) if self.bounds[k].1 >= time => {}
            Ok(k) => Rc::make_mut(&mut self.bounds)[k].1 = time,
            Err(k) => Rc::make_mut(&mut self.bounds).insert(k, (location, time)),
        }
    }

    /// Joins another view into this one.
    pub(crate) fn join(&mut self, other: &MemoryView) {
        if Rc::ptr_eq(&self.bounds, &other.bounds) || other.bounds.iter().all(|(l, t)| self.get(*l) >= *t) {
            return;
        }
        if self.bounds.is_empty() {
            self.bounds = Rc::clone(&other.bounds);
            return;
        }
        // Two sorted runs, which a stable sort merges; of equal locations the newer comes first and stays.
        let mut merged = [&self.bounds[..], &other.bounds[..]].concat();
        merged.sort_by_key(|(location, time)| (*location, Reverse(*time)));
        merged.dedup_by_key(|(location, _)| *location);
        self.bounds = Rc::new(merged);
    }
}

/// Two views: what holds within the group, and what holds beyond it.
#[derive(Clone, Default)]
pub(super) struct ScopedViews {
    pub near: MemoryView,
    pub wide: MemoryView,
}

impl ScopedViews {
    /// Returns the view that holds in a scope.
    pub(crate) fn in_scope(&self, scope: Scope) -> &MemoryView {
        match scope {
            Scope::Group => &self.near,
            Scope::Device | Scope::System => &self.wide,
        }
    }

    /// Sets what a release at a scope hands out.
    pub(crate) fn release(&mut self, view: &MemoryView, scope: Scope) {
        self.near = view.clone();
        if scope != Scope::Group {
            self.wide = view.clone();
        }
    }

    /// Learns all that the other knows.
    pub(crate) fn join(&mut self, other: &ScopedViews) {
        self.near.join(&other.near);
        self.wide.join(&other.wide);
    }
}

/// The views that a write passes to lanes that acquire it.
#[derive(Clone, Default)]
pub(super) struct ReleasedViews {
    /// The view that every lane may take.
    wide: MemoryView,
    /// The views that only lanes of a group may take, by group.
    near: Vec<(u32, MemoryView)>,
}

impl ReleasedViews {
    /// Creates the views that a lane of a group releases.
    pub(crate) fn new(group: u32, ScopedViews { near, wide }: ScopedViews) -> Self {
        ReleasedViews { wide, near: vec![(group, near)] }
    }

    /// Returns what a lane of a group may take at each scope. Two lanes synchronise only if the scope of each includes
    /// the other lane.
    pub(crate) fn take(&self, group: u32) -> ScopedViews {
        let near =
            self.near.iter().find(|(g, _)| *g == group).map(|(_, view)| view.clone()).unwrap_or_default();
        let mut wide = self.wide.clone();
        wide.join(&near);
        ScopedViews { near, wide }
    }

    /// Adds the views of another write, because a release sequence continues through read-modify-write atomics.
    pub(crate) fn join(&mut self, other: &ReleasedViews) {
        self.wide.join(&other.wide);
        for (group, view) in &other.near {
            match self.near.iter_mut().find(|(g, _)| g == group) {
                Some((_, mine)) => mine.join(view),
                None => self.near.push((*group, view.clone())),
            }
        }
    }
}
