//! A launch that advances only when its host says so, for simulations in which one thread is host and device.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::memory::RealMemory;
use super::run::{InterpJob, LaunchBoard, Outcome, SeededMachine};
use super::{BoundWords, InterpKernel, InterpLaunch, InterpReport, LaunchError};

/// The words that a launch works on.
pub trait LaunchWords: Send + Sync {
    /// Returns the words of the buffer with this number in the module, or [`BoundWords::None`] if it is shared.
    fn words(&self, buffer: usize) -> BoundWords<'_>;
}

impl LaunchWords for &[BoundWords<'_>] {
    #[inline]
    fn words(&self, buffer: usize) -> BoundWords<'_> {
        self[buffer]
    }
}

impl LaunchWords for Arc<dyn LaunchWords> {
    #[inline]
    fn words(&self, buffer: usize) -> BoundWords<'_> {
        (**self).words(buffer)
    }
}

/// A launch on the caller's thread that owns its words, and that advances only in calls of [`SteppedRun::advance`]. The
/// seed decides the order of the lanes. As long as the host does the same between the same calls, everything repeats
/// itself exactly.
pub struct SteppedRun {
    kernel: Arc<InterpKernel>,
    words: Arc<dyn LaunchWords>,
    /// The geometry. The words are elsewhere, so that they need not be borrowed for as long as the launch exists.
    launch: InterpLaunch<'static>,
    registers: Vec<u64>,
    board: LaunchBoard<'static>,
    machine: SeededMachine<RealMemory<Arc<dyn LaunchWords>>>,
    report: Option<Result<InterpReport, LaunchError>>,
}

impl SteppedRun {
    /// Prepares a launch. The stop word, the deadline, the schedule and the buffers of `launch` are not used.
    ///
    /// # Errors
    ///
    /// Those of [`InterpKernel::run`].
    pub fn new(
        kernel: Arc<InterpKernel>,
        launch: &InterpLaunch<'_>,
        words: Arc<dyn LaunchWords>,
        seed: u64,
    ) -> Result<Self, LaunchError> {
        let buffers = (0..kernel.buffers.len()).map(|buffer| words.words(buffer)).collect();
        let bound = InterpLaunch { buffers, ..launch.clone() };
        kernel.check(&bound)?;
        let registers = kernel.first_registers(&bound);
        let InterpLaunch { groups, lanes, subgroup, schedule, .. } = *launch;
        let launch = InterpLaunch {
            groups,
            lanes,
            subgroup,
            schedule,
            buffers: Vec::new(),
            stop: None,
            deadline: None,
        };
        let (board, machine) = (LaunchBoard::new(&launch), SeededMachine::new(seed));
        Ok(SteppedRun { kernel, words, launch, registers, board, machine, report: None })
    }

    /// Lets lanes execute about so many steps in all, and returns how the launch has ended, or `None` if it has not.
    pub fn advance(&mut self, steps: u64) -> Option<&Result<InterpReport, LaunchError>> {
        let job = InterpJob {
            code: &self.kernel.decoded.code,
            entry: self.kernel.decoded.entry,
            registers: &self.registers,
            buffers: &self.kernel.buffers,
            launch: &self.launch,
            board: &self.board,
            resident: self.kernel.resident_groups(self.launch.lanes) as usize,
        };
        let until = self.machine.steps.saturating_add(steps);
        while self.report.is_none() && self.machine.steps < until {
            let memory = |_| RealMemory::new(self.words.clone(), &self.kernel.buffers);
            if let Some(outcome) = self.machine.take_turn(&job, memory) {
                self.report = Some(self.board.report(outcome));
            }
        }
        self.report.as_ref()
    }

    /// Ends the launch where it is, unless it has ended.
    pub fn cut(&mut self) {
        // Relaxed: nobody else looks at the board.
        self.board.over.store(true, Ordering::Relaxed);
        if self.report.is_none() {
            let outcome = Outcome { steps: self.machine.steps, whole: false };
            self.report = Some(self.board.report(outcome));
        }
    }

    /// Returns how the launch has ended, or `None` if it has not.
    pub fn report(&self) -> Option<&Result<InterpReport, LaunchError>> {
        self.report.as_ref()
    }
}

impl std::fmt::Debug for SteppedRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SteppedRun").field("steps", &self.machine.steps).finish_non_exhaustive()
    }
}
