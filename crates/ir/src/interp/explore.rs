//! The memory of a group's lanes on top of the view machine.
//!
//! A load that acquires nothing may be *deferred*: its register stays open until something needs the value, so that
//! others can see what the lane writes later before it has read. What needs it: a step that reads the register, an
//! access to the same word, a release, a fence, a barrier, or chance. It then reads any write that the lane's view
//! allowed when it began. A step that overwrites the register drops it.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use super::code::{AccessMode, Reg, Step};
use super::machine::ViewMachine;
use super::memory::LaneMemory;
use super::random::Random;
use super::run::InterpJob;
use super::view::{Location, Time};
use super::{BoundWords, shared_len};
use crate::arena::{Buffer, Handle};
use crate::module::BufferDecl;
use crate::types::{Order, Scope, Space};

/// One in this many loads is deferred.
const DEFERRED: usize = 2;

/// Before one in this many steps, a deferred load is performed although nothing needs it yet.
const CHANCE: usize = 16;

/// The memory of a launch as it starts: bound words as they are, and then each group's own, zero.
pub(super) fn start(job: &InterpJob<'_>, seed: u64) -> ViewMachine {
    let buffers = job.launch.buffers.iter();
    let bound = buffers.flat_map(|words| (0..words.len()).map(|at| words.load(at, Ordering::Relaxed)));
    let shared: u64 = job.buffers.iter().map(shared_len).sum();
    let values = bound.chain(std::iter::repeat_n(0, shared as usize * job.launch.groups as usize));
    // The schedule has a random number generator of its own.
    ViewMachine::new(values, job.launch.groups, job.launch.lanes, Random::new(!seed))
}

/// Writes the newest values back to the bound words.
pub(super) fn finish(job: &InterpJob<'_>, machine: &ViewMachine) {
    let all = job.launch.buffers.iter().flat_map(|words| (0..words.len()).map(move |at| (words, at)));
    for ((words, at), location) in all.zip(0..) {
        if let Some(value) = machine.newest(location) {
            words.store(at, value, Ordering::Relaxed);
        }
    }
}

/// A load whose value nobody has needed yet.
#[derive(Clone, Copy)]
struct Deferred {
    reg: Reg,
    location: Location,
    /// The oldest write that it may read.
    floor: Time,
}

/// The memory of one group.
pub(super) struct Explorer<'a> {
    machine: &'a RefCell<ViewMachine>,
    /// The first location of each buffer, and its length.
    places: Vec<(Location, u32)>,
    /// The number of the group's first lane in the machine.
    first: usize,
    /// By lane of the group.
    deferred: Vec<Vec<Deferred>>,
    lane: usize,
}

impl<'a> Explorer<'a> {
    /// The memory of the `index`-th group.
    pub(crate) fn new(job: &InterpJob<'_>, machine: &'a RefCell<ViewMachine>, index: u32) -> Self {
        let bound: u32 = job.launch.buffers.iter().map(|words| words.len() as u32).sum();
        let each: u32 = job.buffers.iter().map(|decl| shared_len(decl) as u32).sum();
        let (mut global, mut local) = (0, bound + each * index);
        let place = |(words, decl): (&BoundWords<'_>, &BufferDecl)| {
            let next = if decl.space == Space::Shared { &mut local } else { &mut global };
            let len = words.len() as u32 + shared_len(decl) as u32;
            *next += len;
            (*next - len, len)
        };
        let places = job.launch.buffers.iter().zip(job.buffers).map(place).collect();
        let lanes = job.launch.lanes as usize;
        let first = index as usize * lanes;
        Explorer { machine, places, first, deferred: vec![Vec::new(); lanes], lane: 0 }
    }

    fn locate(&self, buffer: Buffer, at: u32) -> Option<Location> {
        let (first, len) = self.places[buffer.index()];
        (at < len).then(|| first + at)
    }

    fn id(&self) -> usize {
        self.first + self.lane
    }

    /// Performs those deferred loads of the lane whose values are needed now.
    fn settle(&mut self, regs: &mut [u64], needs: impl Fn(Deferred) -> bool) {
        let (id, machine) = (self.id(), &mut *self.machine.borrow_mut());
        self.deferred[self.lane].retain(|load| {
            let now = needs(*load);
            if now {
                let Deferred { reg, location, floor } = *load;
                regs[reg as usize] = machine.read(id, location, floor, Order::Relaxed, Scope::Group);
            }
            !now
        });
    }

    /// Performs the deferred loads that must come before an access: those of the same word, and all of them if the
    /// access releases.
    fn access(&mut self, regs: &mut [u64], how: AccessMode, location: Location) {
        self.settle(regs, |load| load.location == location || how.order.releases());
    }
}

impl LaneMemory for Explorer<'_> {
    const WATCHES: bool = true;

    fn enter(&mut self, lane: u32) {
        self.lane = lane as usize;
    }

    fn before(&mut self, step: &Step, regs: &mut [u64]) {
        if self.deferred[self.lane].is_empty() {
            return;
        }
        let meets = matches!(step, Step::Sync(sync) if sync.group());
        let chance = self.machine.borrow_mut().random.one_in(CHANCE);
        self.settle(regs, |load| {
            let mut needed = meets || chance;
            step.reads(|reg| needed |= reg == load.reg);
            needed
        });
        let deferred = &mut self.deferred[self.lane];
        step.writes(|first, count| deferred.retain(|load| !(first..first + count).contains(&load.reg)));
    }

    fn len(&self, buffer: Buffer) -> u32 {
        self.places[buffer.index()].1
    }

    fn load(&mut self, regs: &mut [u64], dst: Reg, how: AccessMode, at: u32) {
        let Some(location) = self.locate(how.buffer, at) else {
            regs[dst as usize] = 0;
            return;
        };
        self.access(regs, how, location);
        let id = self.id();
        let mut machine = self.machine.borrow_mut();
        let floor = machine.floor(id, location);
        if !how.order.acquires() && machine.random.one_in(DEFERRED) {
            self.deferred[self.lane].push(Deferred { reg: dst, location, floor });
        } else {
            regs[dst as usize] = machine.read(id, location, floor, how.order, how.scope);
        }
    }

    fn store(&mut self, regs: &mut [u64], how: AccessMode, at: u32, value: u64) {
        if let Some(location) = self.locate(how.buffer, at) {
            self.access(regs, how, location);
            self.machine.borrow_mut().write(self.id(), location, value, how.order, how.scope);
        }
    }

    fn modify(&mut self, regs: &mut [u64], how: AccessMode, at: u32, f: impl Fn(u64) -> Option<u64>) -> u64 {
        let Some(location) = self.locate(how.buffer, at) else { return 0 };
        self.access(regs, how, location);
        self.machine.borrow_mut().modify(self.id(), location, how.order, how.scope, f)
    }

    fn fence(&mut self, regs: &mut [u64], order: Order, scope: Scope) {
        self.settle(regs, |_| true);
        self.machine.borrow_mut().fence(self.id(), order, scope);
    }

    fn meet(&mut self) {
        self.machine.borrow_mut().meet(self.first..self.first + self.deferred.len());
    }
}
