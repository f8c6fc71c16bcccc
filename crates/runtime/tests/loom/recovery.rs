//! Explores what comes after a loss: it is recovered from once, whoever notices it, and tasks that may have run end as lost.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use loom::thread::{spawn, yield_now};
use pelton::ring::RingWords;

use super::plan::{Plain, Plan, Words, holds};

/// A session whose first run is over.
struct Recovery {
    plan: Plan,
    /// Whether the reaper was asked to recover.
    asked: AtomicBool,
    /// The lock of the pause, with the number of the run that serves the rings. Run 0 has ended, and the others have not.
    run: Mutex<u32>,
    launches: AtomicU32,
}

impl Recovery {
    /// Recovers if the run is over, under the lock of the pause.
    fn recover(&self, noticed: bool) {
        let mut run = self.run.lock().unwrap();
        let over = if self.plan.wrong("the run is not looked at again") { noticed } else { *run == 0 };
        if over {
            *run += 1;
            self.launches.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A thread that has waited for long.
    fn notice(&self) {
        let over = self.run.try_lock().is_ok_and(|run| *run == 0);
        if over {
            self.asked.store(true, Ordering::Relaxed);
        }
    }

    /// A turn of the reaper.
    fn take_turn(&self) {
        if self.asked.swap(false, Ordering::Relaxed) {
            self.recover(true);
        }
    }
}

/// Two tickets notice the loss and ask the reaper, and a hand-over finds it too and recovers itself.
#[test]
fn a_loss_that_several_threads_notice_is_recovered_from_once() {
    holds(3, &[], &["the run is not looked at again"], |plan| {
        let session = Arc::new(Recovery {
            plan,
            asked: AtomicBool::new(false),
            run: Mutex::new(0),
            launches: AtomicU32::new(0),
        });
        let threads = [Recovery::notice, |session: &Recovery| session.recover(true)].map(|act| {
            let session = session.clone();
            spawn(move || act(&session))
        });
        session.notice();
        session.take_turn();
        for thread in threads {
            thread.join().unwrap();
        }
        session.take_turn();
        assert_eq!(session.launches.load(Ordering::Relaxed), 1, "one run follows the lost one");
    });
}

/// The step by which a task says that it begins.
pub(crate) const BEGUN: &[&str] = &["begun"];

/// A run is cut somewhere. What has arrived of its writes by then is all that there is: if an effect of the task has, the
/// host finds that the task has begun.
#[test]
fn a_task_that_has_had_an_effect_has_begun() {
    holds(2, BEGUN, &[], |plan| {
        let (begun, effect) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU32::new(0)));
        let group = spawn({
            let (begun, effect) = (begun.clone(), effect.clone());
            move || {
                begun.store(1, Ordering::Relaxed);
                plan.fence("begun");
                effect.store(1, Ordering::Relaxed);
            }
        });
        let arrived = effect.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let says = begun.load(Ordering::Relaxed);
        assert!(arrived == 0 || says == 1, "the task had an effect and has not begun");
        group.join().unwrap();
    });
}

/// The steps by which the host ends a task that was lost.
pub(crate) const LOSE: &[&str] = &["lose"];

/// The host ends a task that has begun. Whoever sees the record sees what the task did before the loss.
#[test]
fn the_record_of_a_lost_task_comes_after_what_it_did() {
    holds(2, LOSE, &[], |plan| {
        let (done, effect) = (Words::new(plan, "done", 1), Arc::new(Plain::several(1)));
        let reaper = spawn({
            let (done, effect) = (done.clone(), effect.clone());
            move || {
                let run = spawn({
                    let effect = effect.clone();
                    move || effect[0].write()
                });
                // The run is over.
                run.join().unwrap();
                RingWords::store(&done, 0, 9, Ordering::Release);
            }
        });
        while done.load(0, Ordering::Acquire) == 0 {
            yield_now();
        }
        effect[0].read();
        reaper.join().unwrap();
    });
}

/// The steps by which lanes note the signals of tasks.
pub(crate) const NOTES: &[&str] = &["note", "noted"];

/// Two lanes note signals, and post the records of their tasks after that. Whatever has arrived when the device is lost, the
/// signal of a task with a record is noted, because lanes store their notes one after the other.
#[test]
fn the_signal_of_a_task_that_has_ended_is_noted() {
    holds(2, NOTES, &[], |plan| {
        let (signals, note) = (Arc::new(AtomicU64::new(0)), Arc::new(Plain::several(1)));
        let noted = Arc::new(AtomicU64::new(0));
        let ended: Arc<[AtomicU64; 2]> = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let lane = |number: usize| {
            let (signals, note) = (signals.clone(), note.clone());
            let (noted, ended) = (noted.clone(), ended.clone());
            move || {
                let busy = 1 << 63;
                loop {
                    let before = signals.load(Ordering::Relaxed) & !busy;
                    let (taken, order) = (before + 1 | busy, plan.order("note"));
                    if signals.compare_exchange(before, taken, order, Ordering::Relaxed).is_ok() {
                        note[0].write();
                        noted.store(before + 1, Ordering::Relaxed);
                        signals.store(before + 1, plan.order("noted"));
                        break;
                    }
                    yield_now();
                }
                // The fence before the record.
                fence(Ordering::AcqRel);
                ended[number].store(1, Ordering::Relaxed);
            }
        };
        let other = spawn(lane(1));
        lane(0)();
        let records = || ended.iter().map(|word| word.load(Ordering::Relaxed)).sum::<u64>();
        let seen = records();
        fence(Ordering::Acquire);
        assert!(noted.load(Ordering::Relaxed) >= seen, "a task has ended, and its signal is not noted");
        other.join().unwrap();
    });
}
