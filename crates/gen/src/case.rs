//! A module with a launch, which is what a differential test runs, and the outcome of running it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use pelton_ir::interp::{BoundWords, End, InterpKernel, InterpLaunch, LaunchError, LoadError, Schedule};
use pelton_ir::module::{BufferDecl, Module};
use pelton_ir::types::{Const, Len, Space, Type};
use pelton_ir::valid::Valid;

use crate::choose::{Choose, Seed};
use crate::config::GeneratorConfig;
use crate::constant::constant;
use crate::make;

/// The deadline of a generated kernel. Such a kernel ends long before it, so one that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The bits of a buffer's elements, one word per element.
pub type ElementBits = Vec<u64>;

/// The lanes of a launch and how they are grouped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CaseGeometry {
    /// The number of groups.
    pub groups: u32,
    /// The number of lanes per group.
    pub lanes: u32,
    /// The number of lanes per subgroup.
    pub subgroup: u32,
}

/// A generated module, and what to launch it with.
#[derive(Clone, Debug)]
pub struct GeneratedCase {
    /// The module. The case launches its only kernel.
    pub module: Module,
    /// The lanes of the launch.
    pub geometry: CaseGeometry,
    /// The seed of the buffers' initial contents.
    pub seed: u64,
    /// The time after which the launch is stopped.
    pub deadline: Duration,
}

/// The outcome of a launch.
#[derive(Clone, Debug)]
pub struct CaseOutcome {
    /// How the launch ended.
    pub end: CaseEnd,
    /// The number of faults that were recorded.
    pub faults: u64,
    /// The code of the first recorded fault.
    pub code: Option<u32>,
    /// What the buffers hold afterwards, in the module's order; `None` for shared ones.
    pub data: Vec<Option<ElementBits>>,
}

/// How a launch ended. The place of a trap is left out, because passes move instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaseEnd {
    /// All lanes returned.
    Done,
    /// The launch was stopped at its deadline.
    Stopped,
    /// A lane trapped with this code.
    Trapped(u32),
}

/// The reason why a launch has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum CaseError {
    #[error("cannot load the module: {0}")]
    Load(#[from] LoadError),
    #[error("cannot launch: {0}")]
    InterpLaunch(#[from] LaunchError),
}

impl CaseError {
    /// Whether lanes that must meet did not, which the validator should have refused.
    pub fn diverged(&self) -> bool {
        matches!(self, CaseError::InterpLaunch(LaunchError::Diverged { .. }))
    }
}

impl GeneratedCase {
    /// Makes a case from choices.
    pub fn new(choose: &mut dyn Choose, config: &GeneratorConfig) -> GeneratedCase {
        let lanes = choose.pick(&[1, 4, 32, 33]);
        let groups = choose.pick(&[1, 2, 3]);
        let subgroup = choose.pick(&[32, 4, 32, 1, 5]);
        let seed = choose.below(256) as u64;
        let module = make::module(choose, config);
        GeneratedCase { module, geometry: CaseGeometry { groups, lanes, subgroup }, seed, deadline: PATIENCE }
    }

    /// The initial contents of the buffers, in the module's order.
    pub fn data(&self) -> Vec<Option<ElementBits>> {
        let mut seed = Seed(self.seed);
        self.module.buffers.iter().map(|(_, decl)| self.initial_data(decl, &mut seed)).collect()
    }

    fn initial_data(&self, decl: &BufferDecl, seed: &mut Seed) -> Option<ElementBits> {
        if decl.space == Space::Shared {
            return None;
        }
        let lanes = u64::from(self.geometry.groups) * u64::from(self.geometry.lanes);
        // The buffer usually has all the own slots of the lanes, and sometimes fewer.
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

    /// Runs a module with this case's launch. The module must have the same buffers as the case's own.
    pub fn run(&self, module: &Valid, schedule: Schedule) -> Result<CaseOutcome, CaseError> {
        let decls = self.module.buffers.iter().map(|(_, decl)| decl);
        let memory: Vec<CaseMemory> =
            decls.zip(self.data()).map(|(decl, data)| CaseMemory::new(decl, data)).collect();
        let CaseGeometry { groups, lanes, subgroup } = self.geometry;
        let buffers = memory.iter().map(CaseMemory::words).collect();
        let deadline = Some(self.deadline);
        let launch = InterpLaunch { groups, lanes, subgroup, buffers, stop: None, deadline, schedule };
        let report = InterpKernel::new(module, None)?.run(&launch)?;
        let end = match report.end {
            End::Done => CaseEnd::Done,
            End::Stopped => CaseEnd::Stopped,
            End::Trapped { code, .. } => CaseEnd::Trapped(code),
        };
        let (faults, code) = report.fault.map_or((0, None), |fault| (fault.count, Some(fault.code)));
        Ok(CaseOutcome { end, faults, code, data: memory.iter().map(CaseMemory::read_back).collect() })
    }
}

/// The memory of one buffer during a launch.
enum CaseMemory {
    None,
    W32(Vec<AtomicU32>),
    W64(Vec<AtomicU64>),
}

impl CaseMemory {
    fn new(decl: &BufferDecl, data: Option<ElementBits>) -> Self {
        match data {
            None => CaseMemory::None,
            Some(data) if decl.elem.bits() == 64 => {
                CaseMemory::W64(data.into_iter().map(AtomicU64::new).collect())
            }
            Some(data) => CaseMemory::W32(data.into_iter().map(|bits| AtomicU32::new(bits as u32)).collect()),
        }
    }

    fn words(&self) -> BoundWords<'_> {
        match self {
            CaseMemory::None => BoundWords::None,
            CaseMemory::W32(words) => BoundWords::W32(words),
            CaseMemory::W64(words) => BoundWords::W64(words),
        }
    }

    /// Reads the contents. Relaxed loads suffice, because the launch has been joined.
    fn read_back(&self) -> Option<ElementBits> {
        match self {
            CaseMemory::None => None,
            CaseMemory::W32(words) => Some(words.iter().map(|w| w.load(Ordering::Relaxed).into()).collect()),
            CaseMemory::W64(words) => Some(words.iter().map(|w| w.load(Ordering::Relaxed)).collect()),
        }
    }
}

impl CaseOutcome {
    /// Describes how another outcome differs from this one, or returns `None` if it does not. Only the end of a
    /// launch that trapped is compared, because nothing else is promised.
    pub fn differs(&self, other: &CaseOutcome, module: &Module) -> Option<String> {
        if self.end != other.end {
            return Some(format!("it ends as {:?}, not {:?}", other.end, self.end));
        }
        if let CaseEnd::Trapped(_) = self.end {
            return None;
        }
        if (self.faults, self.code) != (other.faults, other.code) {
            let show =
                |outcome: &CaseOutcome| format!("{} faults with code {:?}", outcome.faults, outcome.code);
            return Some(format!("it records {}, not {}", show(other), show(self)));
        }
        module.buffers.iter().zip(self.data.iter().zip(&other.data)).find_map(|((_, decl), data)| {
            let (Some(this), Some(that)) = data else { return None };
            let (name, elem) = (&decl.name, decl.elem);
            if this.len() != that.len() {
                return Some(format!("`{name}` has {} elements, not {}", that.len(), this.len()));
            }
            let mut pairs = this.iter().zip(that).map(|(a, b)| (Const::new(elem, *a), Const::new(elem, *b)));
            let (at, (this, that)) = pairs.by_ref().enumerate().find(|(_, (a, b))| !same_element(*a, *b))?;
            Some(format!("`{name}[{at}]` is {that}, not {this}"))
        })
    }
}

/// Whether two elements have equal bits or are both NaN.
fn same_element(a: Const, b: Const) -> bool {
    let nan = |c: Const| c.ty() == Type::F32 && f32::from_bits(c.bits() as u32).is_nan();
    a == b || (nan(a) && nan(b))
}
