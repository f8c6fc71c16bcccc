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
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// One side has no fence but the one that the other side issues for it.
    #[test]
    fn two_threads_never_miss_each_other() {
        for _ in 0..2000 {
            let (often, rarely, start) = (AtomicU32::new(0), AtomicU32::new(0), Barrier::new(2));
            let (saw_rarely, saw_often) = std::thread::scope(|threads| {
                let other = threads.spawn(|| {
                    start.wait();
                    often.store(1, Ordering::Relaxed);
                    std::sync::atomic::compiler_fence(Ordering::SeqCst);
                    rarely.load(Ordering::Relaxed)
                });
                start.wait();
                rarely.store(1, Ordering::Relaxed);
                fence_all_threads();
                let saw_often = often.load(Ordering::Relaxed);
                (other.join().expect("it does not panic"), saw_often)
            });
            assert!(saw_rarely == 1 || saw_often == 1);
        }
    }
}
