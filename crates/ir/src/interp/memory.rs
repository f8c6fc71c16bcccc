//! The memory of lanes as real atomic words, which host threads see while the kernel runs.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::code::{AccessMode, Reg, Step};
use super::stepped::LaunchWords;
use super::{BoundWords, shared_len};
use crate::arena::{Buffer, Handle};
use crate::module::BufferDecl;
use crate::types::{Order, Scope};

/// The memory that the lanes of a group access. A load out of range returns 0, and every other access out of range does
/// nothing.
///
/// Every access gets the lane's registers, because an earlier load of the lane may not have been performed yet.
pub(super) trait LaneMemory {
    /// Whether each step is announced before it runs.
    const WATCHES: bool = false;

    /// Sets the lane of the group that runs from now on.
    fn enter(&mut self, _lane: u32) {}

    /// Is called before the lane runs a step.
    fn before(&mut self, _step: &Step, _regs: &mut [u64]) {}

    /// Returns how many elements a buffer has.
    fn len(&self, buffer: Buffer) -> u32;

    /// Loads an element into a register.
    fn load(&mut self, regs: &mut [u64], dst: Reg, how: AccessMode, at: u32);

    /// Stores an element.
    fn store(&mut self, regs: &mut [u64], how: AccessMode, at: u32, value: u64);

    /// Replaces an element by a function of it in one atomic step, if the function returns a value. Returns the old
    /// value.
    fn modify(&mut self, regs: &mut [u64], how: AccessMode, at: u32, f: impl Fn(u64) -> Option<u64>) -> u64;

    /// Orders the accesses around it.
    fn fence(&mut self, regs: &mut [u64], order: Order, scope: Scope);

    /// Is called when all lanes of the group have reached a barrier.
    fn meet(&mut self) {}
}

/// The words of a launch's buffers, and a group's own.
pub(super) struct RealMemory<B> {
    bound: B,
    /// By buffer; those that are bound have none here.
    shared: Vec<Own>,
}

/// The words of a shared buffer.
enum Own {
    W32(Box<[AtomicU32]>),
    W64(Box<[AtomicU64]>),
}

impl<B: LaunchWords> RealMemory<B> {
    /// The memory of one group; what is shared in it is zero.
    pub(crate) fn new(bound: B, buffers: &[BufferDecl]) -> Self {
        RealMemory { bound, shared: buffers.iter().map(Own::new).collect() }
    }

    fn words(&self, buffer: Buffer) -> BoundWords<'_> {
        match (self.bound.words(buffer.index()), &self.shared[buffer.index()]) {
            (BoundWords::None, Own::W32(words)) => BoundWords::W32(words),
            (BoundWords::None, Own::W64(words)) => BoundWords::W64(words),
            (bound, _) => bound,
        }
    }
}

impl Own {
    fn new(decl: &BufferDecl) -> Self {
        let len = shared_len(decl);
        match decl.elem.bits() {
            64 => Own::W64((0..len).map(|_| AtomicU64::new(0)).collect()),
            _ => Own::W32((0..len).map(|_| AtomicU32::new(0)).collect()),
        }
    }
}

impl BoundWords<'_> {
    /// How many words there are.
    pub(super) fn len(self) -> usize {
        match self {
            BoundWords::None => 0,
            BoundWords::W32(words) => words.len(),
            BoundWords::W64(words) => words.len(),
        }
    }

    /// The bits of a word, zero if there is none.
    pub(super) fn load(self, at: usize, order: Ordering) -> u64 {
        match self {
            BoundWords::None => 0,
            BoundWords::W32(words) => words.get(at).map_or(0, |word| word.load(order).into()),
            BoundWords::W64(words) => words.get(at).map_or(0, |word| word.load(order)),
        }
    }

    /// Sets the bits of a word, if there is one.
    pub(super) fn store(self, at: usize, value: u64, order: Ordering) {
        match self {
            BoundWords::None => {}
            BoundWords::W32(words) => {
                words.get(at).into_iter().for_each(|word| word.store(value as u32, order))
            }
            BoundWords::W64(words) => words.get(at).into_iter().for_each(|word| word.store(value, order)),
        }
    }
}

impl<B: LaunchWords> LaneMemory for RealMemory<B> {
    fn len(&self, buffer: Buffer) -> u32 {
        self.words(buffer).len() as u32
    }

    fn load(&mut self, regs: &mut [u64], dst: Reg, how: AccessMode, at: u32) {
        regs[dst as usize] = self.words(how.buffer).load(at as usize, acquire(how.order));
    }

    fn store(&mut self, _regs: &mut [u64], how: AccessMode, at: u32, value: u64) {
        let order = if how.order.releases() { Ordering::Release } else { Ordering::Relaxed };
        self.words(how.buffer).store(at as usize, value, order);
    }

    fn modify(&mut self, _regs: &mut [u64], how: AccessMode, at: u32, f: impl Fn(u64) -> Option<u64>) -> u64 {
        let both = match how.order {
            Order::Relaxed => Ordering::Relaxed,
            Order::Acquire => Ordering::Acquire,
            Order::Release => Ordering::Release,
            Order::AcqRel | Order::SeqCst => Ordering::AcqRel,
        };
        let (at, seen) = (at as usize, acquire(how.order));
        match self.words(how.buffer) {
            BoundWords::W32(words) => words.get(at).map_or(0, |word| {
                let old = word.fetch_update(both, seen, |old| f(old.into()).map(|new| new as u32));
                old.unwrap_or_else(|old| old).into()
            }),
            BoundWords::W64(words) => {
                words.get(at).map_or(0, |word| word.fetch_update(both, seen, f).unwrap_or_else(|old| old))
            }
            BoundWords::None => 0,
        }
    }

    fn fence(&mut self, _regs: &mut [u64], order: Order, _scope: Scope) {
        match order {
            Order::Relaxed => {}
            Order::Acquire => fence(Ordering::Acquire),
            Order::Release => fence(Ordering::Release),
            Order::AcqRel => fence(Ordering::AcqRel),
            Order::SeqCst => fence(Ordering::SeqCst),
        }
    }
}

/// The acquiring half of an order.
fn acquire(order: Order) -> Ordering {
    if order.acquires() { Ordering::Acquire } else { Ordering::Relaxed }
}
