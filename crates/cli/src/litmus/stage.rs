//! Launches a case: its memory, its kernel, its partner, and what they have counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pelton_device::{Device, Launch, LaunchOutcome, Memory, MemoryKind, Run, WordWidth};
use pelton_ir::types::{Len, Space};
use pelton_ir::valid::Valid;

use super::case::CaseShape;
use super::host::Partner;
use crate::error::CliError;
use crate::stop;

/// The longest time that a launch may take.
const LONGEST: Duration = Duration::from_secs(120);
/// The time between two looks for Ctrl-C.
const GLANCE: Duration = Duration::from_millis(20);
/// The number of words per cell in a buffer without a fixed length.
const WORDS: usize = 8;

/// The outcomes that were counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct OutcomeCounts {
    /// The number of outcomes that the orders forbid.
    pub bad: u64,
    /// The number of allowed outcomes of the kind that the case counts.
    pub beside: u64,
}

/// The result of launching a case.
#[derive(Clone, Copy, Debug)]
pub(super) struct CaseResult {
    pub rounds: u64,
    pub counts: OutcomeCounts,
    pub seconds: f64,
}

/// Whether the memory orders of a case are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Orders {
    Kept,
    Relaxed,
}

/// A case on a device, ready to be launched.
pub(super) struct LitmusStage {
    /// The number of cells.
    pub cells: u32,
    /// The number of rounds per cell.
    pub rounds: u32,
    orders: Orders,
    memory: Vec<(String, Memory)>,
}

impl LitmusStage {
    fn new(
        device: &dyn Device,
        module: &Valid,
        cells: u32,
        rounds: u32,
        orders: Orders,
    ) -> Result<Self, CliError> {
        let mut memory = Vec::new();
        for (_, decl) in module.buffers.iter() {
            let kind = match (decl.space, &*decl.name) {
                (_, "lines") => MemoryKind::Near,
                (Space::Host, _) => MemoryKind::Host,
                _ => MemoryKind::Device,
            };
            let len = match decl.len {
                Len::Fixed(len) => len as usize,
                Len::Launch => WORDS * cells as usize,
            };
            memory.push((decl.name.clone(), device.alloc(kind, WordWidth::of(decl.elem), len)?));
        }
        let stage = LitmusStage { cells, rounds, orders, memory };
        stage.memory("rounds")?.upload(0, &[rounds])?;
        Ok(stage)
    }

    /// The memory of a buffer.
    pub(super) fn memory(&self, name: &str) -> Result<&Memory, CliError> {
        let found = self.memory.iter().find(|(buffer, _)| buffer == name);
        found
            .map(|(_, memory)| memory)
            .ok_or_else(|| CliError::Wrong(format!("the kernel has no buffer `{name}`")))
    }

    /// The words of a buffer in memory that the host can access.
    pub(super) fn words(&self, name: &str) -> Result<&[AtomicU32], CliError> {
        let absent = || CliError::Wrong(format!("the host cannot access the buffer `{name}`"));
        self.memory(name)?.words32().ok_or_else(absent)
    }

    /// The memory order of stores that publish something.
    pub(super) fn release(&self) -> Ordering {
        if self.orders == Orders::Kept { Ordering::Release } else { Ordering::Relaxed }
    }

    /// The memory order of loads that look for what was published.
    pub(super) fn acquire(&self) -> Ordering {
        if self.orders == Orders::Kept { Ordering::Acquire } else { Ordering::Relaxed }
    }

    /// The outcomes that the lanes have counted: the first half of the tally is forbidden, the second is allowed.
    fn tally(&self) -> Result<OutcomeCounts, CliError> {
        let Some((_, tally)) = self.memory.iter().find(|(name, _)| name == "tally") else {
            return Ok(OutcomeCounts::default());
        };
        let mut words = vec![0u32; tally.len()];
        tally.download(0, &mut words)?;
        let half = self.cells as usize;
        let sum = |words: &[u32]| words.iter().copied().map(u64::from).sum();
        Ok(OutcomeCounts { bad: sum(&words[..half]), beside: sum(&words[half..2 * half]) })
    }
}

/// Launches a kernel together with its partner for at least this number of rounds in all, and waits for its end.
pub(super) fn launch_case(
    device: &Arc<dyn Device>,
    module: &Valid,
    (shape, partner): (CaseShape, Partner),
    rounds: u64,
    orders: Orders,
) -> Result<CaseResult, CliError> {
    let (groups, lanes) = shape.geometry(device.caps());
    let cells = shape.cells(groups, lanes);
    // Positions of slots are counted in 32 bits, which limits the rounds of a case.
    let each = rounds.div_ceil(cells.into()).clamp(1, u64::from(u32::MAX / cells / 2)) as u32;
    let stage = LitmusStage::new(&**device, module, cells, each, orders)?;
    let kernel = device.load(module, None, lanes)?;
    if groups > kernel.resident() {
        let held = kernel.resident();
        let why =
            format!("the case needs {groups} groups to be resident together, but the device holds {held}");
        return Err(CliError::Wrong(why));
    }
    let buffers = stage.memory.iter().map(|(_, memory)| Some(memory.clone())).collect();
    let began = Instant::now();
    let run = kernel.launch(&Launch { buffers, ..Launch::new(groups) }.deadline(LONGEST))?;
    let own = partner(&stage, &*run)?;
    wait_for_done(&*run)?;
    let seconds = began.elapsed().as_secs_f64();
    let lanes = stage.tally()?;
    let rounds = u64::from(cells) * u64::from(each);
    let mut counts = OutcomeCounts { bad: own.bad + lanes.bad, beside: own.beside + lanes.beside };
    if shape == CaseShape::Routed {
        // Each slot must be claimed exactly once.
        counts.bad += counts.beside.abs_diff(rounds);
    }
    Ok(CaseResult { rounds, counts, seconds })
}

/// Waits until the kernel has ended by itself.
fn wait_for_done(run: &dyn Run) -> Result<(), CliError> {
    loop {
        match run.wait(Some(GLANCE))? {
            None if stop::pressed() => run.stop(),
            None => {}
            Some(ended) if ended.outcome == LaunchOutcome::Done => return Ok(()),
            Some(ended) => {
                return Err(CliError::Wrong(format!("the kernel did not end by itself: {}", ended.outcome)));
            }
        }
    }
}
