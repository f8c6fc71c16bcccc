//! Explores futures of tickets, and producers that wait for room, against the reaper. A future that registers is
//! either woken or sees that it need not be.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use loom::sync::{Mutex, Notify};
use loom::thread::{spawn, yield_now};
use pelton::protocol::record::TaskEnd;
use pelton::ring::EndsSeen;
use pelton_device::event::Event;

use super::near::{How, Near};
use super::plan::{Plan, holds};

/// A session with one slot, as its reaper sees it.
struct Session {
    plan: Plan,
    near: Arc<Near>,
    span: AtomicU32,
    /// Stands for the waker of the slot, and says whether there is one.
    waker: Mutex<bool>,
    /// The place where the task of the future sleeps.
    task: Notify,
    waiting: AtomicUsize,
    event: Event,
    state: AtomicU32,
    closing: AtomicU32,
    /// Locked by the reaper while it uses the session.
    turn: Mutex<()>,
}

impl Session {
    fn new(plan: Plan) -> Arc<Self> {
        Arc::new(Session {
            plan,
            near: Near::new(plan, 0, How::InPlace),
            span: AtomicU32::new(0),
            waker: Mutex::new(false),
            task: Notify::new(),
            waiting: AtomicUsize::new(0),
            event: Event::default(),
            state: AtomicU32::new(0),
            closing: AtomicU32::new(0),
            turn: Mutex::new(()),
        })
    }

    /// Returns whether the task has ended or never will.
    fn ended(&self) -> bool {
        self.near.ring.record_at(0).is_some() || self.state.load(self.plan.order("ended")) != 0
    }

    /// Polls until the future is ready, and sleeps in between.
    fn wait(&self) {
        while !self.ended() {
            let late = self.plan.wrong("the waker comes last, and no second look");
            if !late {
                *self.waker.lock().unwrap() = true;
            }
            if self.span.swap(1, Ordering::AcqRel) == 0 {
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            if late {
                *self.waker.lock().unwrap() = true;
            }
            self.event.wake();
            if !late && !self.plan.wrong("no second look") && self.ended() {
                break;
            }
            self.task.wait();
        }
        if self.span.swap(0, Ordering::AcqRel) != 0 {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn sweep(&self) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        if self.span.load(Ordering::Acquire) != 0 && self.ended() {
            if self.span.swap(0, Ordering::AcqRel) != 0 {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
            }
            if std::mem::take(&mut *self.waker.lock().unwrap()) {
                self.task.notify();
            }
        }
    }

    /// Acts as the reaper, which looks for what it can wake by `sweep`.
    fn reap(&self, sweep: impl Fn()) {
        loop {
            let key = self.event.announce();
            if self.waiting.load(Ordering::Acquire) == 0 && self.closing.load(Ordering::Acquire) == 0 {
                self.event.park(key, None);
                continue;
            }
            self.event.cancel(key);
            let turn = self.turn.lock().unwrap();
            if self.closing.load(Ordering::Acquire) != 0 {
                return;
            }
            sweep();
            drop(turn);
            yield_now();
        }
    }

    /// Ends the session and the reaper, and looks for the last time.
    fn close(&self, sweep: impl Fn()) {
        self.state.store(1, self.plan.order("end"));
        let early = self.plan.wrong("the last look comes before the fence");
        if early {
            sweep();
        }
        self.closing.store(1, Ordering::Release);
        self.event.wake();
        drop(self.turn.lock().unwrap());
        if !early && !self.plan.wrong("no last look") {
            sweep();
        }
    }
}

/// The record arrives while a future registers. Loom reports a deadlock if the future is never woken.
#[test]
fn a_future_is_woken_by_its_record() {
    holds(2, &[], &["the waker comes last, and no second look"], |plan| {
        let session = Session::new(plan);
        let future = spawn({
            let session = session.clone();
            move || session.wait()
        });
        let reaper = spawn({
            let session = session.clone();
            move || session.reap(|| session.sweep())
        });
        session.near.post(0, TaskEnd::Done(1), Ordering::Relaxed);
        future.join().unwrap();
        session.close(|| session.sweep());
        reaper.join().unwrap();
    });
}

/// The session ends while a future registers.
#[test]
fn a_future_is_woken_by_the_end() {
    holds(3, &[], &["no second look", "no last look", "the last look comes before the fence"], |plan| {
        let session = Session::new(plan);
        let future = spawn({
            let session = session.clone();
            move || session.wait()
        });
        let reaper = spawn({
            let session = session.clone();
            move || session.reap(|| session.sweep())
        });
        session.close(|| session.sweep());
        future.join().unwrap();
        reaper.join().unwrap();
    });
}

/// A producer that waits for the only slot of its ring, as its reaper sees it.
struct Room {
    session: Arc<Session>,
    /// The position up to which the producer has taken slots back.
    free: AtomicU64,
}

impl Room {
    fn new(plan: Plan) -> Arc<Self> {
        Arc::new(Room { session: Session::new(plan), free: AtomicU64::new(0) })
    }

    /// Returns whether the producer has its slot back or never will.
    fn look(&self, free: &mut u64, seen: &mut u64) -> bool {
        *free = self.session.near.ring.reclaim(*free, 1, seen);
        self.free.store(*free, Ordering::Relaxed);
        *free == 1 || self.session.state.load(Ordering::Acquire) != 0
    }

    /// Polls until there is room, and sleeps in between.
    fn wait(&self) {
        let (mut free, mut seen) = (0, 0);
        let Session { plan, span, waker, waiting, event, task, .. } = &*self.session;
        while !self.look(&mut free, &mut seen) {
            let late = plan.wrong("the waker comes last, and no second look");
            if !late {
                *waker.lock().unwrap() = true;
            }
            if span.swap(1, Ordering::AcqRel) == 0 {
                waiting.fetch_add(1, Ordering::Relaxed);
            }
            if late {
                *waker.lock().unwrap() = true;
            }
            event.wake();
            if !late && !plan.wrong("no second look") && self.look(&mut free, &mut seen) {
                break;
            }
            task.wait();
        }
        if span.swap(0, Ordering::AcqRel) != 0 {
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn sweep(&self) {
        let Session { span, waker, waiting, task, near, state, .. } = &*self.session;
        if waiting.load(Ordering::Relaxed) == 0 || span.load(Ordering::Acquire) == 0 {
            return;
        }
        let over = state.load(Ordering::Acquire) != 0;
        if over || near.ring.can_reclaim(self.free.load(Ordering::Relaxed), 1) {
            if span.swap(0, Ordering::AcqRel) != 0 {
                waiting.fetch_sub(1, Ordering::Relaxed);
            }
            if std::mem::take(&mut *waker.lock().unwrap()) {
                task.notify();
            }
        }
    }

    fn reap(&self) {
        self.session.reap(|| self.sweep());
    }

    fn close(&self) {
        self.session.close(|| self.sweep());
    }
}

/// A ticket is dropped, perhaps before its task has ended, while the producer registers.
#[test]
fn a_producer_is_woken_by_a_slot_that_is_given_up() {
    holds(2, &[], &["the waker comes last, and no second look"], |plan| {
        let room = Room::new(plan);
        let producer = spawn({
            let room = room.clone();
            move || room.wait()
        });
        let reaper = spawn({
            let room = room.clone();
            move || room.reap()
        });
        room.session.near.ring.give_up(0, 1, EndsSeen::NotAll);
        room.session.near.post(0, TaskEnd::Done(1), Ordering::Relaxed);
        producer.join().unwrap();
        room.close();
        reaper.join().unwrap();
    });
}

/// The session ends while a producer registers.
#[test]
fn a_producer_is_woken_by_the_end() {
    holds(3, &[], &["no second look", "no last look", "the last look comes before the fence"], |plan| {
        let room = Room::new(plan);
        let producer = spawn({
            let room = room.clone();
            move || room.wait()
        });
        let reaper = spawn({
            let room = room.clone();
            move || room.reap()
        });
        room.close();
        producer.join().unwrap();
        reaper.join().unwrap();
    });
}
