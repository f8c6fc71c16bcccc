//! The interface to the devices that filetests run on, and the reference interpreter behind it.

use std::ops::ControlFlow;
use std::time::Duration;

use pelton_device::DeviceError;
use pelton_ir::interp::{self, BoundWords, InterpKernel, InterpLaunch, Schedule};
use pelton_ir::types::Need;
use pelton_ir::valid::Valid;

use crate::data::{BufferData, OutOfMemory};
use crate::line::{EndKind, Ending, LaunchGeometry};

/// A launch that a device is asked to make.
pub struct TargetJob<'a> {
    /// The module that holds the kernel.
    pub module: &'a Valid,
    /// The kernel, if the module has several.
    pub kernel: Option<&'a str>,
    /// The lanes of the launch.
    pub geometry: LaunchGeometry,
    /// The initial contents of the buffers, in the module's order; `None` for shared ones.
    pub data: &'a [Option<BufferData>],
    /// The time after which a launch that has not ended is stopped.
    pub deadline: Duration,
    /// How often and under which schedules to launch.
    pub plan: LaunchPlan,
}

/// How often and under which schedules to launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaunchPlan {
    /// Launch in a few ways that must all have the same outcome.
    Agree,
    /// Launch a number of rounds, each under another schedule, in search of every outcome that the memory model
    /// allows.
    Explore {
        /// The number of rounds.
        rounds: u64,
    },
}

/// The outcome of one launch.
pub struct TargetOutcome {
    /// How the launch was made, for messages.
    pub way: String,
    /// How the launch ended.
    pub ending: Ending,
    /// The contents of the buffers after the launch, in the module's order.
    pub data: Vec<Option<BufferData>>,
}

/// Receives each outcome of a job, and says whether to go on launching.
pub type OutcomeSink<'a> = &'a mut dyn FnMut(TargetOutcome) -> ControlFlow<()>;

/// Why a device did not launch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The module cannot be loaded.
    #[error("cannot load the module: {0}")]
    Load(#[from] interp::LoadError),
    /// The launch is refused.
    #[error("cannot launch: {0}")]
    InterpLaunch(#[from] interp::LaunchError),
    /// The device is absent.
    #[error("{0}")]
    Absent(String),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The results do not fit into memory.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
}

/// A device that filetests run on.
pub trait TestTarget: Send + Sync {
    /// The name of the device, as test names and `--device` spell it.
    fn name(&self) -> &str;

    /// The reason why the device cannot be used on this machine, if it cannot. Its tests are then listed as
    /// ignored.
    fn absent(&self) -> Option<String> {
        None
    }

    /// The first of a module's needs that the device lacks, if any, as a reason. Such a test is listed as ignored.
    fn lacking(&self, _needs: &[Need]) -> Option<String> {
        None
    }

    /// Whether the device can launch lanes grouped like this. Lines that ask for others are left out, and a file
    /// whose lines all do is listed as ignored.
    fn suits_geometry(&self, _geometry: LaunchGeometry) -> bool {
        true
    }

    /// Whether the device's rounds show every outcome that the memory model allows, so that a test can demand one.
    fn explores(&self) -> bool {
        false
    }

    /// Launches a job by its plan, and shows each outcome until the receiver has seen enough.
    fn run_job(&self, job: &TargetJob<'_>, see: OutcomeSink<'_>) -> Result<(), TargetError>;
}

/// The reference interpreter.
pub struct ReferenceTarget;

/// The number of threads for the one launch that cannot be replayed, so that real races can happen.
const THREADS: usize = 2;

/// The seeds of the replayable schedules that are compared with it.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

impl TestTarget for ReferenceTarget {
    fn name(&self) -> &str {
        "reference"
    }

    fn explores(&self) -> bool {
        true
    }

    fn run_job(&self, job: &TargetJob<'_>, see: OutcomeSink<'_>) -> Result<(), TargetError> {
        let program = InterpKernel::new(job.module, job.kernel)?;
        let schedules: Box<dyn Iterator<Item = Schedule>> = match job.plan {
            LaunchPlan::Agree => {
                Box::new(std::iter::once(Schedule::Threads(THREADS)).chain(SEEDS.map(Schedule::Seeded)))
            }
            LaunchPlan::Explore { rounds } => Box::new((0..rounds).map(Schedule::Explore)),
        };
        show_each(schedules.map(|schedule| launch_scheduled(&program, job, schedule)), see)
    }
}

/// Launches one after the other and shows each outcome, until the receiver has seen enough.
pub(crate) fn show_each(
    outcomes: impl Iterator<Item = Result<TargetOutcome, TargetError>>,
    see: OutcomeSink<'_>,
) -> Result<(), TargetError> {
    for outcome in outcomes {
        if see(outcome?).is_break() {
            break;
        }
    }
    Ok(())
}

fn launch_scheduled(
    program: &InterpKernel,
    job: &TargetJob<'_>,
    schedule: Schedule,
) -> Result<TargetOutcome, TargetError> {
    let way = match &schedule {
        Schedule::Threads(n) => format!("{n} threads"),
        Schedule::Seeded(seed) => format!("seed {seed}"),
        Schedule::Explore(seed) => format!("exploring seed {seed}"),
    };
    let data = job.data.to_vec();
    let LaunchGeometry { groups, lanes, subgroup } = job.geometry;
    let buffers = data.iter().map(|data| data.as_ref().map_or(BoundWords::None, BufferData::words)).collect();
    let deadline = Some(job.deadline);
    let report =
        program.run(&InterpLaunch { groups, lanes, subgroup, buffers, stop: None, deadline, schedule })?;
    let end = match report.end {
        interp::End::Done => EndKind::Done,
        interp::End::Stopped => EndKind::Stopped,
        interp::End::Trapped { code, .. } => EndKind::Trap(code),
    };
    Ok(TargetOutcome { way, ending: Ending { end, fault: report.fault.map(|fault| fault.code) }, data })
}
