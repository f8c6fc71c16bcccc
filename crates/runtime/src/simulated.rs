//! Where a simulation takes the place of the clock, of threads, of chance and of the disk.
//!
//! A simulation runs sessions and journals on one thread, so that a seed reproduces everything that happens. For this, four
//! things must not come from the machine:
//!
//! - **Time.** Deadlines, leases and intervals of syncs ask [`now`], which is the simulation's clock.
//! - **Waiting.** Whoever polls for something that another thread does calls [`pause`]. In a simulation there is no other
//!   thread, so the pause itself lets the device go on and the reaper take its turn.
//! - **The reaper.** It has no thread, and takes its turns in `take_reaper_turns`.
//! - **The disk.** Journals write to real files, but the simulation says how much of a write succeeds, whether a sync does,
//!   and which files survive what.
//!
//! A simulation launches the same kernels again and again, so it also keeps those that were optimized.
//!
//! All of this belongs to one thread: others are not simulated, and tests can run side by side. Without the feature `inject`,
//! the functions of this module are the machine's own clock and nothing else.

#[cfg(feature = "inject")]
pub(crate) use hooks::{HandReaper, add_reaper, disk_sync, disk_write};
#[cfg(feature = "inject")]
pub use hooks::{SimulatedThread, Simulation, take_reaper_turns};
pub(crate) use hooks::{has_bug, is_simulated, journal_number, kernel_of, now, pause};

/// A defect that a test plants, to see whether a simulation finds it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
#[cfg_attr(not(feature = "inject"), expect(unreachable_pub, reason = "nobody can plant one"))]
pub enum PlantedBug {
    /// After a loss, the next kernel is not told that tasks above the first one without a record may have one.
    IgnoredRecords,
    /// Tasks that must not begin twice do not say that they begin.
    NoBegunWord,
    /// A commit returns before the disk has confirmed the records.
    AnswerBeforeSync,
}

#[cfg(not(feature = "inject"))]
mod hooks {
    use std::time::Instant;

    use pelton_ir::module::Module;
    use pelton_ir::valid::Valid;

    use super::PlantedBug;

    #[inline(always)]
    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    /// Returns whether a simulation has let time pass.
    #[inline(always)]
    pub(crate) fn pause() -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn is_simulated() -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn has_bug(_: PlantedBug) -> bool {
        false
    }

    pub(crate) fn journal_number() -> Option<u64> {
        None
    }

    pub(crate) fn kernel_of<E>(
        module: Module,
        optimize: impl FnOnce(Module) -> Result<Valid, E>,
    ) -> Result<Valid, E> {
        optimize(module)
    }
}

#[cfg(feature = "inject")]
mod hooks {
    use std::cell::RefCell;
    use std::io;
    use std::path::Path;
    use std::rc::Rc;
    use std::sync::{Mutex, Weak};
    use std::time::Instant;

    use pelton_ir::module::Module;
    use pelton_ir::valid::Valid;

    use super::PlantedBug;

    /// How many optimized kernels a thread keeps.
    const MOST_KERNELS: usize = 128;

    /// What a simulation does in place of the machine.
    pub trait Simulation {
        /// Returns the present moment.
        fn now(&self) -> Instant;
        /// Lets some time pass, because the caller waits for something. The caller may hold locks of a session, but never
        /// that of its pauses, so reapers may take turns.
        fn pause(&self);
        /// Returns a number that is to look random.
        fn random_number(&self) -> u64;
        /// Returns how many of these bytes are appended to a file.
        ///
        /// # Errors
        ///
        /// That of the write, if it fails. Nothing is written then.
        fn disk_write(&self, path: &Path, bytes: &[u8]) -> io::Result<usize>;
        /// Hands a file to the disk, or the names of a folder's files.
        ///
        /// # Errors
        ///
        /// That of the sync, if it fails.
        fn disk_sync(&self, path: &Path) -> io::Result<()>;
        /// Returns whether a test has planted this defect.
        fn has_bug(&self, bug: PlantedBug) -> bool;
    }

    /// A reaper whose turns are taken by hand.
    pub(crate) trait HandReaper: Send {
        /// Takes a turn. Returns `None` if there will be no other.
        fn take_turn(&mut self) -> Option<bool>;
    }

    thread_local! {
        static SIMULATION: RefCell<Option<Rc<dyn Simulation>>> = const { RefCell::new(None) };
        /// Kernels before and after they were optimized.
        static KERNELS: RefCell<Vec<(Module, Valid)>> = const { RefCell::new(Vec::new()) };
        static REAPERS: RefCell<Vec<Weak<Mutex<dyn HandReaper>>>> = const { RefCell::new(Vec::new()) };
    }

    /// A thread that is simulated for as long as this exists.
    #[derive(Debug)]
    pub struct SimulatedThread(());

    impl SimulatedThread {
        /// Begins to simulate this thread.
        ///
        /// # Panics
        ///
        /// If it is simulated already.
        pub fn begin(simulation: Rc<dyn Simulation>) -> Self {
            let before = SIMULATION.with(|current| current.borrow_mut().replace(simulation));
            assert!(before.is_none(), "this thread is simulated already");
            SimulatedThread(())
        }
    }

    impl Drop for SimulatedThread {
        fn drop(&mut self) {
            REAPERS.with(|reapers| reapers.borrow_mut().clear());
            drop(SIMULATION.with(|current| current.borrow_mut().take()));
        }
    }

    fn current() -> Option<Rc<dyn Simulation>> {
        SIMULATION.with(|current| current.borrow().clone())
    }

    /// Lets the reaper of each session of this thread take a turn, except for one that is in the middle of a turn.
    pub fn take_reaper_turns() {
        let reapers: Vec<_> =
            REAPERS.with(|reapers| reapers.borrow().iter().filter_map(Weak::upgrade).collect());
        for reaper in &reapers {
            if let Ok(mut reaper) = reaper.try_lock() {
                let _ = reaper.take_turn();
            }
        }
        REAPERS.with(|reapers| reapers.borrow_mut().retain(|reaper| reaper.strong_count() > 0));
    }

    pub(crate) fn add_reaper(reaper: Weak<Mutex<dyn HandReaper>>) {
        REAPERS.with(|reapers| reapers.borrow_mut().push(reaper));
    }

    /// Returns the present moment.
    pub(crate) fn now() -> Instant {
        current().map_or_else(Instant::now, |simulation| simulation.now())
    }

    /// Lets time pass if this thread is simulated, and returns whether it is.
    pub(crate) fn pause() -> bool {
        current().inspect(|simulation| simulation.pause()).is_some()
    }

    /// Returns whether this thread is simulated.
    pub(crate) fn is_simulated() -> bool {
        SIMULATION.with(|current| current.borrow().is_some())
    }

    /// Returns whether a test has planted a defect.
    pub(crate) fn has_bug(bug: PlantedBug) -> bool {
        current().is_some_and(|simulation| simulation.has_bug(bug))
    }

    /// Returns the optimized kernel of a module. A simulated thread keeps it, because optimizing takes most of the time of a
    /// simulation and always comes to the same.
    pub(crate) fn kernel_of<E>(
        module: Module,
        optimize: impl FnOnce(Module) -> Result<Valid, E>,
    ) -> Result<Valid, E> {
        if !is_simulated() {
            return optimize(module);
        }
        let known = |kernels: &RefCell<Vec<(Module, Valid)>>| {
            kernels.borrow().iter().find(|(known, _)| *known == module).map(|(_, kernel)| kernel.clone())
        };
        if let Some(kernel) = KERNELS.with(known) {
            return Ok(kernel);
        }
        let kernel = optimize(module.clone())?;
        KERNELS.with(|kernels| {
            let mut kernels = kernels.borrow_mut();
            if kernels.len() == MOST_KERNELS {
                kernels.clear();
            }
            kernels.push((module, kernel.clone()));
        });
        Ok(kernel)
    }

    /// Returns the number of a new journal, if this thread is simulated.
    pub(crate) fn journal_number() -> Option<u64> {
        current().map(|simulation| simulation.random_number())
    }

    /// Returns how many bytes a write may append, which are all of them if this thread is not simulated.
    pub(crate) fn disk_write(path: &Path, bytes: &[u8]) -> io::Result<usize> {
        current().map_or(Ok(bytes.len()), |simulation| simulation.disk_write(path, bytes))
    }

    /// Syncs a file or folder if this thread is simulated, or returns `None`.
    pub(crate) fn disk_sync(path: &Path) -> Option<io::Result<()>> {
        current().map(|simulation| simulation.disk_sync(path))
    }
}
