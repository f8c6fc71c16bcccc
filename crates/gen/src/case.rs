//! A module with a launch: what a differential test runs, and what comes of it.

use std::time::Duration;

use pelton_filetest::data::Data;
use pelton_filetest::line::Geometry;
use pelton_ir::interp::{End, Launch, LaunchError, LoadError, Program, Schedule, Words};
use pelton_ir::module::{BufferDecl, Module};
use pelton_ir::types::{Len, Space};
use pelton_ir::valid::Valid;

use crate::choose::{Choose, Seed};
use crate::config::Config;
use crate::constant::constant;
use crate::make;

/// When a launch is given up. A generated kernel ends long before, so one that does not has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A module and what to launch it with.
#[derive(Clone, Debug)]
pub struct Case {
    /// The module. Its only kernel is the one to launch.
    pub module: Module,
    /// The launch's lanes.
    pub geometry: Geometry,
    /// Decides what the buffers hold.
    pub seed: u64,
}

/// What came of a launch.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended: with the code if it trapped.
    pub end: Ended,
    /// How many faults were recorded.
    pub faults: u64,
    /// The code of the first of them.
    pub code: Option<u32>,
    /// What the buffers hold, in the module's order; shared ones are gone.
    pub data: Vec<Option<Data>>,
}

/// How a launch ended. Where it trapped is not told: passes move instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// All lanes returned.
    Done,
    /// It was stopped.
    Stopped,
    /// It trapped with this code.
    Trapped(u32),
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum CaseError {
    #[error("cannot load the module: {0}")]
    Load(#[from] LoadError),
    #[error("cannot launch: {0}")]
    Launch(#[from] LaunchError),
}

impl Case {
    /// A case that choices decide.
    pub fn new(choose: &mut dyn Choose, config: &Config) -> Case {
        let lanes = choose.pick(&[1, 4, 32, 33]);
        let groups = choose.pick(&[1, 2, 3]);
        let subgroup = choose.pick(&[32, 4, 32, 1, 5]);
        let seed = choose.below(256) as u64;
        let module = make::module(choose, config);
        Case { module, geometry: Geometry { groups, lanes, subgroup }, seed }
    }

    /// What the buffers start with, in the module's order.
    pub fn data(&self) -> Vec<Option<Data>> {
        let mut seed = Seed(self.seed);
        self.module.buffers.iter().map(|(_, decl)| self.contents(decl, &mut seed)).collect()
    }

    fn contents(&self, decl: &BufferDecl, seed: &mut Seed) -> Option<Data> {
        if decl.space == Space::Shared {
            return None;
        }
        let lanes = u64::from(self.geometry.groups) * u64::from(self.geometry.lanes);
        // Mostly all slots that lanes have of their own, and sometimes not.
        let len = match (decl.len, seed.below(6)) {
            (Len::Fixed(len), _) => len,
            (Len::Launch, 0) => lanes * 4 - 1,
            (Len::Launch, 1) => 5,
            _ => lanes * 4,
        };
        let bits = |_| match seed.below(3) {
            0 => seed.next(),
            1 => seed.below(64) as u64,
            _ => constant(seed, decl.elem).bits(),
        };
        Data::new(decl.elem, len, bits).ok()
    }

    /// Runs a module in the place of the case's own, which has the same buffers.
    pub fn run(&self, module: &Valid, schedule: Schedule) -> Result<Outcome, CaseError> {
        let data = self.data();
        let Geometry { groups, lanes, subgroup } = self.geometry;
        let buffers = data.iter().map(|data| data.as_ref().map_or(Words::None, Data::words)).collect();
        let deadline = Some(PATIENCE);
        let launch = Launch { groups, lanes, subgroup, buffers, stop: None, deadline, schedule };
        let report = Program::new(module, None)?.run(&launch)?;
        let end = match report.end {
            End::Done => Ended::Done,
            End::Stopped => Ended::Stopped,
            End::Trapped { code, .. } => Ended::Trapped(code),
        };
        let (faults, code) = report.fault.map_or((0, None), |fault| (fault.count, Some(fault.code)));
        Ok(Outcome { end, faults, code, data })
    }
}

impl Outcome {
    /// In what two outcomes differ. Of a launch that trapped only its end is promised.
    pub fn differs(&self, other: &Outcome, module: &Module) -> Option<String> {
        if self.end != other.end {
            return Some(format!("it ends as {:?}, not {:?}", other.end, self.end));
        }
        if let Ended::Trapped(_) = self.end {
            return None;
        }
        if (self.faults, self.code) != (other.faults, other.code) {
            let show = |outcome: &Outcome| format!("{} faults with code {:?}", outcome.faults, outcome.code);
            return Some(format!("it records {}, not {}", show(other), show(self)));
        }
        module.buffers.iter().zip(self.data.iter().zip(&other.data)).find_map(|((_, decl), data)| {
            let (Some(this), Some(that)) = data else { return None };
            let at = this.differs(that)?;
            let (this, that) = (this.get(at), that.get(at));
            Some(format!("`{}[{at}]` is {that}, not {this}", decl.name))
        })
    }
}
