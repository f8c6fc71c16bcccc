//! The devices that filetests run on.

use std::ops::ControlFlow;
use std::time::Duration;

use pelton_device::DeviceError;
use pelton_ir::interp::{self, Launch, Program, Schedule, Words};
use pelton_ir::types::Need;
use pelton_ir::valid::Valid;

use crate::data::{Data, OutOfMemory};
use crate::line::{End, Ending, Geometry};

/// A launch to be made.
pub struct Job<'a> {
    /// The program.
    pub module: &'a Valid,
    /// The kernel, if the module has several.
    pub kernel: Option<&'a str>,
    /// Its lanes.
    pub geometry: Geometry,
    /// What the buffers start with, in the module's order; shared ones have none.
    pub data: &'a [Option<Data>],
    /// When a launch that has not ended is stopped.
    pub deadline: Duration,
}

/// How often and under which schedules to launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plan {
    /// In a few ways that must all give the same.
    Agree,
    /// So many rounds, each under another schedule, in search of every outcome that the memory model allows.
    Explore {
        /// How many.
        rounds: u64,
    },
}

/// What one launch gave.
pub struct Outcome {
    /// How it was launched, for people.
    pub way: String,
    /// How it ended.
    pub ending: Ending,
    /// What the buffers hold, in the module's order.
    pub data: Vec<Option<Data>>,
}

/// Why a device did not launch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// It cannot load the program.
    #[error("cannot load the module: {0}")]
    Load(#[from] interp::LoadError),
    /// It refuses the launch.
    #[error("cannot launch: {0}")]
    Launch(#[from] interp::LaunchError),
    /// It is not there.
    #[error("{0}")]
    Absent(String),
    /// It failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Its results do not fit here.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
}

/// A device.
pub trait Target: Send + Sync {
    /// What tests and people call it.
    fn name(&self) -> &str;

    /// Why it cannot be used here, if it cannot; its tests are then ignored by name.
    fn absent(&self) -> Option<String> {
        None
    }

    /// What it lacks of what a module needs, if anything; such a test is ignored by name.
    fn lacks(&self, _needs: &[Need]) -> Option<String> {
        None
    }

    /// Whether it has lanes of that kind; lines that ask for others are left out, and a file without any that it has is
    /// ignored by name.
    fn suits(&self, _geometry: Geometry) -> bool {
        true
    }

    /// Whether its rounds show every outcome that the memory model allows, so that an outcome can be demanded.
    fn explores(&self) -> bool {
        false
    }

    /// Launches by a plan and shows each outcome until told to stop.
    fn run(
        &self,
        job: &Job<'_>,
        plan: Plan,
        see: &mut dyn FnMut(Outcome) -> ControlFlow<()>,
    ) -> Result<(), TargetError>;
}

/// The reference interpreter.
pub struct Reference;

/// Threads for the one run that is not replayable, to have real races where there are any.
const THREADS: usize = 2;

/// Replayable schedules that a run is held against.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

impl Target for Reference {
    fn name(&self) -> &str {
        "reference"
    }

    fn explores(&self) -> bool {
        true
    }

    fn run(
        &self,
        job: &Job<'_>,
        plan: Plan,
        see: &mut dyn FnMut(Outcome) -> ControlFlow<()>,
    ) -> Result<(), TargetError> {
        let program = Program::new(job.module, job.kernel)?;
        let schedules: Box<dyn Iterator<Item = Schedule>> = match plan {
            Plan::Agree => {
                Box::new(std::iter::once(Schedule::Threads(THREADS)).chain(SEEDS.map(Schedule::Seeded)))
            }
            Plan::Explore { rounds } => Box::new((0..rounds).map(Schedule::Explore)),
        };
        for schedule in schedules {
            if see(launch(&program, job, schedule)?).is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn launch(program: &Program, job: &Job<'_>, schedule: Schedule) -> Result<Outcome, TargetError> {
    let way = match &schedule {
        Schedule::Threads(n) => format!("{n} threads"),
        Schedule::Seeded(seed) => format!("seed {seed}"),
        Schedule::Explore(seed) => format!("exploring seed {seed}"),
    };
    let data = job.data.to_vec();
    let Geometry { groups, lanes, subgroup } = job.geometry;
    let buffers = data.iter().map(|data| data.as_ref().map_or(Words::None, Data::words)).collect();
    let deadline = Some(job.deadline);
    let report = program.run(&Launch { groups, lanes, subgroup, buffers, stop: None, deadline, schedule })?;
    let end = match report.end {
        interp::End::Done => End::Done,
        interp::End::Stopped => End::Stopped,
        interp::End::Trapped { code, .. } => End::Trap(code),
    };
    Ok(Outcome { way, ending: Ending { end, fault: report.fault.map(|fault| fault.code) }, data })
}
