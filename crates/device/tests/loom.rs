//! The eventcount under every interleaving: `cargo test -p pelton-device --features loom --test loom --release`.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use pelton_device::event::Event;

/// A worker that finds nothing announces, looks once more and parks; whoever publishes wakes. Loom reports a deadlock
/// if a wake-up is lost.
#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let event = Arc::new(Event::default());
        let word = Arc::new(AtomicU32::new(0));
        let worker = {
            let (event, word) = (event.clone(), word.clone());
            thread::spawn(move || {
                while word.load(Ordering::Acquire) == 0 {
                    let key = event.announce();
                    if word.load(Ordering::Acquire) != 0 {
                        event.cancel(key);
                        break;
                    }
                    event.park(key, None);
                }
            })
        };
        word.store(1, Ordering::Release);
        event.wake();
        worker.join().unwrap();
    });
}

/// Two workers wait for two words; each is woken for its own. Three threads are too many for every interleaving, so
/// those with at most two preemptions are looked at.
#[test]
fn every_worker_is_woken() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let event = Arc::new(Event::default());
        let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let workers: Vec<_> = (0..2)
            .map(|mine| {
                let (event, words) = (event.clone(), words.clone());
                thread::spawn(move || {
                    while words[mine].load(Ordering::Acquire) == 0 {
                        let key = event.announce();
                        if words[mine].load(Ordering::Acquire) != 0 {
                            event.cancel(key);
                            break;
                        }
                        event.park(key, None);
                    }
                })
            })
            .collect();
        for word in words.iter() {
            word.store(1, Ordering::Release);
            event.wake();
        }
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// How a group of the CPU waits for a word: it looks and backs off in turn. One back-off announces, and the next one
/// parks.
fn look_and_back_off(event: &Event, word: &AtomicU32) {
    let mut announced = None;
    while word.load(Ordering::Acquire) == 0 {
        match announced.take() {
            None => announced = Some(event.announce()),
            Some(key) => {
                event.park(key, None);
            }
        }
    }
    if let Some(key) = announced {
        event.cancel(key);
    }
}

/// Whoever publishes tells a worker, and that worker passes it on to another one, which the first wake may have woken too
/// early.
#[test]
fn a_worker_that_passes_something_on_wakes_the_next() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let event = Arc::new(Event::default());
        let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let workers: Vec<_> = (0..2)
            .map(|mine| {
                let (event, words) = (event.clone(), words.clone());
                thread::spawn(move || {
                    look_and_back_off(&event, &words[mine]);
                    if let Some(next) = words.get(mine + 1) {
                        next.store(1, Ordering::Release);
                        event.wake();
                    }
                })
            })
            .collect();
        words[0].store(1, Ordering::Release);
        event.wake();
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// Two publishers wake one worker. The first wake takes the announcement back that the second one relies on, so the worker
/// must see the second word all the same.
#[test]
fn a_wake_that_finds_no_announcement_is_not_lost() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let event = Arc::new(Event::default());
        let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let other = {
            let (event, words) = (event.clone(), words.clone());
            thread::spawn(move || {
                words[1].store(1, Ordering::Release);
                event.wake();
            })
        };
        let worker = {
            let (event, words) = (event.clone(), words.clone());
            thread::spawn(move || words.iter().for_each(|word| look_and_back_off(&event, word)))
        };
        words[0].store(1, Ordering::Release);
        event.wake();
        other.join().unwrap();
        worker.join().unwrap();
    });
}

/// A worker that takes its announcement back takes back no other one.
#[test]
fn an_announcement_is_taken_back_once() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let event = Arc::new(Event::default());
        let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let brief = {
            let event = event.clone();
            thread::spawn(move || {
                let key = event.announce();
                event.cancel(key);
            })
        };
        let worker = {
            let (event, words) = (event.clone(), words.clone());
            thread::spawn(move || words.iter().for_each(|word| look_and_back_off(&event, word)))
        };
        for word in words.iter() {
            word.store(1, Ordering::Release);
            event.wake();
        }
        brief.join().unwrap();
        worker.join().unwrap();
    });
}
