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
