//! What events are compared with on the CPU: tasks of tokio on one thread, and threads that park.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use tokio::sync::{Barrier, Notify};

use super::events::{TRIPS, TURNS, WAITERS};

/// Lets two tasks of tokio notify each other, on one thread, and returns half of the time of a round trip in microseconds.
pub(super) fn ping_pong_in_tokio() -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without IO starts");
    let start = Instant::now();
    runtime.block_on(async {
        let (ping, pong) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (to, from) = (pong.clone(), ping.clone());
        let other = tokio::spawn(async move {
            for _ in 0..TRIPS {
                from.notified().await;
                to.notify_one();
            }
        });
        for _ in 0..TRIPS {
            ping.notify_one();
            pong.notified().await;
        }
        other.await.expect("no task of this benchmark panics");
    });
    start.elapsed().as_secs_f64() * 1e6 / f64::from(2 * TRIPS)
}

/// Lets two threads unpark each other, and returns half of the time of a round trip in microseconds.
pub(super) fn ping_pong_of_threads() -> f64 {
    let turn = AtomicU32::new(0);
    let await_turn = |wanted| {
        while turn.load(Ordering::Acquire) != wanted {
            thread::park();
        }
    };
    let pass_to = |other: &thread::Thread, next| {
        turn.store(next, Ordering::Release);
        other.unpark();
    };
    let start = Instant::now();
    thread::scope(|scope| {
        let ping = thread::current();
        let pong = scope.spawn(move || {
            for trip in 0..TRIPS {
                await_turn(2 * trip + 1);
                pass_to(&ping, 2 * trip + 2);
            }
        });
        for trip in 0..TRIPS {
            pass_to(pong.thread(), 2 * trip + 1);
            await_turn(2 * trip + 2);
        }
    });
    start.elapsed().as_secs_f64() * 1e6 / f64::from(2 * TRIPS)
}

/// Lets as many tasks of tokio wait for each other at a barrier, on one thread, and returns how often they have waited.
pub(super) fn wait_together_in_tokio() -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without IO starts");
    runtime.block_on(async {
        let barrier = Arc::new(Barrier::new(WAITERS as usize));
        let task = |_| {
            let barrier = barrier.clone();
            tokio::spawn(async move {
                for _ in 0..TURNS {
                    barrier.wait().await;
                }
                u64::from(TURNS)
            })
        };
        let all: Vec<_> = (0..WAITERS).map(task).collect();
        let mut waits = 0;
        for one in all {
            waits += one.await.expect("no task of this benchmark panics");
        }
        waits
    })
}
