//! A module with a launch: what a differential test runs, and what comes of it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use pelton_ir::interp::{End, Launch, LaunchError, LoadError, Program, Schedule, Words};
use pelton_ir::module::{BufferDecl, Module};
use pelton_ir::types::{Const, Len, Space, Type};
use pelton_ir::valid::Valid;

use crate::choose::{Choose, Seed};
use crate::config::Config;
use crate::constant::constant;
use crate::make;

/// When the launch of a generated kernel is given up. It ends long before, so one that does not has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The bits of a buffer's elements, each in a word.
pub type Data = Vec<u64>;

/// How many lanes a launch has and how they stand together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Geometry {
    /// Groups.
    pub groups: u32,
    /// Lanes in a group.
    pub lanes: u32,
    /// Lanes in a subgroup.
    pub subgroup: u32,
}

/// A module and what to launch it with.
#[derive(Clone, Debug)]
pub struct Case {
    /// The module. Its only kernel is the one to launch.
    pub module: Module,
    /// The launch's lanes.
    pub geometry: Geometry,
    /// Decides what the buffers hold.
    pub seed: u64,
    /// When the launch is stopped.
    pub deadline: Duration,
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

impl CaseError {
    /// Whether lanes that must meet never did, which the validator should have seen.
    pub fn diverged(&self) -> bool {
        matches!(self, CaseError::Launch(LaunchError::Diverged { .. }))
    }
}

impl Case {
    /// A case that choices decide.
    pub fn new(choose: &mut dyn Choose, config: &Config) -> Case {
        let lanes = choose.pick(&[1, 4, 32, 33]);
        let groups = choose.pick(&[1, 2, 3]);
        let subgroup = choose.pick(&[32, 4, 32, 1, 5]);
        let seed = choose.below(256) as u64;
        let module = make::module(choose, config);
        Case { module, geometry: Geometry { groups, lanes, subgroup }, seed, deadline: PATIENCE }
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
            0 => seed.draw(),
            1 => seed.below(64) as u64,
            _ => constant(seed, decl.elem).bits(),
        };
        Some((0..len).map(bits).map(|bits| Const::new(decl.elem, bits).bits()).collect())
    }

    /// Runs a module in the place of the case's own, which has the same buffers.
    pub fn run(&self, module: &Valid, schedule: Schedule) -> Result<Outcome, CaseError> {
        let decls = self.module.buffers.iter().map(|(_, decl)| decl);
        let memory: Vec<Memory> =
            decls.zip(self.data()).map(|(decl, data)| Memory::new(decl, data)).collect();
        let Geometry { groups, lanes, subgroup } = self.geometry;
        let buffers = memory.iter().map(Memory::words).collect();
        let deadline = Some(self.deadline);
        let launch = Launch { groups, lanes, subgroup, buffers, stop: None, deadline, schedule };
        let report = Program::new(module, None)?.run(&launch)?;
        let end = match report.end {
            End::Done => Ended::Done,
            End::Stopped => Ended::Stopped,
            End::Trapped { code, .. } => Ended::Trapped(code),
        };
        let (faults, code) = report.fault.map_or((0, None), |fault| (fault.count, Some(fault.code)));
        Ok(Outcome { end, faults, code, data: memory.iter().map(Memory::data).collect() })
    }
}

/// Words that a launch works on.
enum Memory {
    None,
    W32(Vec<AtomicU32>),
    W64(Vec<AtomicU64>),
}

impl Memory {
    fn new(decl: &BufferDecl, data: Option<Data>) -> Self {
        match data {
            None => Memory::None,
            Some(data) if decl.elem.bits() == 64 => {
                Memory::W64(data.into_iter().map(AtomicU64::new).collect())
            }
            Some(data) => Memory::W32(data.into_iter().map(|bits| AtomicU32::new(bits as u32)).collect()),
        }
    }

    fn words(&self) -> Words<'_> {
        match self {
            Memory::None => Words::None,
            Memory::W32(words) => Words::W32(words),
            Memory::W64(words) => Words::W64(words),
        }
    }

    /// What it holds. Relaxed, since whoever asks has joined the launch.
    fn data(&self) -> Option<Data> {
        match self {
            Memory::None => None,
            Memory::W32(words) => Some(words.iter().map(|w| w.load(Ordering::Relaxed).into()).collect()),
            Memory::W64(words) => Some(words.iter().map(|w| w.load(Ordering::Relaxed)).collect()),
        }
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
            let (name, elem) = (&decl.name, decl.elem);
            if this.len() != that.len() {
                return Some(format!("`{name}` has {} elements, not {}", that.len(), this.len()));
            }
            let mut pairs = this.iter().zip(that).map(|(a, b)| (Const::new(elem, *a), Const::new(elem, *b)));
            let (at, (this, that)) = pairs.by_ref().enumerate().find(|(_, (a, b))| !same(*a, *b))?;
            Some(format!("`{name}[{at}]` is {that}, not {this}"))
        })
    }
}

/// Whether two elements are equal: by bits, but any NaN is any NaN.
fn same(a: Const, b: Const) -> bool {
    let nan = |c: Const| c.ty() == Type::F32 && f32::from_bits(c.bits() as u32).is_nan();
    a == b || (nan(a) && nan(b))
}
