//! A fence that all threads of the process take part in, whether they know of it or not.
//!
//! Two threads that each store a word and then load the other's word may both miss the other's store, unless each has a
//! fence in between. Where one of them does this very often and the other one hardly ever, the one that does it often need
//! not pay for a fence: the other one calls [`fence_all_threads`], which issues one on its behalf.

/// Issues a sequentially consistent fence in every thread of this process.
///
/// What a thread has stored before its fence is visible after this call. What it loads after its fence shows what this
/// thread has stored before the call. Where the system offers `membarrier`, as Linux does, this takes microseconds. Elsewhere
/// it waits for so long that every processor has made its stores visible.
pub fn fence_all_threads() {
    #[cfg(all(target_os = "linux", not(miri)))]
    if linux::membarrier() {
        return;
    }
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    // A store stays in the buffer of its processor for nanoseconds, and at the most until the next interrupt.
    std::thread::sleep(std::time::Duration::from_millis(50));
}

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    /// Asks the system to interrupt all threads of this process that run. Returns whether it did.
    pub(super) fn membarrier() -> bool {
        let call = |command: libc::c_int| {
            // SAFETY: this command takes no memory, and an unknown one is refused.
            unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
        };
        // A process may register any number of times.
        call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }
}

#[cfg(test)]
mod tests {
    use std::hint::spin_loop;
    use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};
    use std::time::{Duration, Instant};

    use super::*;

    /// A word that shares its line of memory with no other one.
    #[derive(Default)]
    #[repr(align(128))]
    struct Word(AtomicU32);

    /// How many rounds there are: few where a fence is a long wait.
    fn round_count() -> u32 {
        let start = Instant::now();
        fence_all_threads();
        if start.elapsed() < Duration::from_millis(20) { 100_000 } else { 20 }
    }

    /// One side has no fence but the one that the other side issues for it. Both begin each round at the same moment, which is
    /// when two stores without fences are missed.
    #[test]
    fn two_threads_never_miss_each_other() {
        let [often, rarely, ready, begun, saw] = [(); 5].map(|()| Word::default());
        let (rounds, mut missed) = (round_count(), 0);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for round in 1..=rounds {
                    ready.0.store(round, Ordering::SeqCst);
                    while begun.0.load(Ordering::Relaxed) != round {
                        spin_loop();
                    }
                    often.0.store(round, Ordering::Relaxed);
                    compiler_fence(Ordering::SeqCst);
                    let other = rarely.0.load(Ordering::Relaxed);
                    saw.0.store(2 * round + u32::from(other == round), Ordering::SeqCst);
                }
            });
            for round in 1..=rounds {
                while ready.0.load(Ordering::SeqCst) != round {
                    spin_loop();
                }
                begun.0.store(round, Ordering::Relaxed);
                rarely.0.store(round, Ordering::Relaxed);
                fence_all_threads();
                let saw_often = often.0.load(Ordering::Relaxed) == round;
                while saw.0.load(Ordering::SeqCst) / 2 != round {
                    spin_loop();
                }
                let saw_rarely = saw.0.load(Ordering::SeqCst) % 2 == 1;
                missed += u32::from(!saw_often && !saw_rarely);
            }
        });
        assert_eq!(missed, 0, "rounds in which both sides have missed the other");
    }
}
