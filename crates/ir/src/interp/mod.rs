//! The reference interpreter: what a program means, and a device that runs it while a host feeds it.
//!
//! A [`InterpKernel`] is a kernel decoded once into flat micro-ops; [`InterpKernel::run`] runs it over real atomic words, so
//! host threads may change them meanwhile.
//!
//! **Lanes.** Each lane runs by itself, a turn at a time, until it comes to an op that lanes do together. When all
//! lanes of the subgroup, or of the group, wait at that op, it is done for all of them. Subgroups of a group progress
//! independently of each other, and so do groups, as long as they are under way together ([`InterpKernel::resident_groups`]).
//!
//! **Schedules.** [`Schedule::Threads`] is for speed: groups on threads, lanes of a group in turn. The others run on
//! one thread and repeat themselves exactly: the same seed gives the same results in the same number of steps, unless
//! a host interferes. `clock` then counts steps.
//!
//! **Ends.** A launch ends when all lanes have returned, when the stop word is not zero or the deadline has passed
//! (both are looked at between turns, so every loop ends in bounded time), or when a lane traps.
//!
//! **Exploring.** The schedules above run on the memory of this machine, which forgives a great deal. Under
//! [`Schedule::Explore`] memory is a *view machine*: a word is the history of its writes, and a lane may read any of
//! them that its view does not rule out. Acquire, release, fences, barriers and scopes do nothing but pass views on, so
//! whatever the program does not order can be seen out of order. A store buffer for each lane would be simpler, but it
//! only delays stores: every load still reads the one memory there is, so an acquire or a scope that is missing on the
//! reader's side would never show. In a view machine each reader is behind on its own. Loads may also be done late,
//! which shows load buffering. Every outcome that it gives is one that the memory model allows; it does not give
//! all of them, because no value is ever made up ahead of the code that computes it.

mod code;
mod decode;
mod emit;
mod explore;
mod group;
mod lane;
mod lower;
mod machine;
mod memory;
mod random;
mod run;
mod view;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use crate::link::{UnboundImports, check_bound};
use crate::module::{BufferDecl, NoKernel, Site};
use crate::op::Op;
use crate::types::{Len, Need, Space, Type};
use crate::valid::Valid;

/// The most lanes that a group may have.
pub const MAX_LANES: u32 = 1024;

/// The most words and lanes that a launch may have under [`Schedule::Explore`].
pub const MAX_EXPLORED: (u64, u64) = (4096, 64);

/// The most 64-bit registers and shared words that are in use at once, over all groups.
const ROOM: u64 = 1 << 27;

/// A kernel, ready to run.
#[derive(Debug)]
pub struct InterpKernel {
    decoded: decode::DecodedKernel,
    buffers: Vec<BufferDecl>,
}

/// What to run a kernel with.
#[derive(Clone, Debug)]
pub struct InterpLaunch<'a> {
    /// How many groups.
    pub groups: u32,
    /// How many lanes each group has.
    pub lanes: u32,
    /// How many lanes a subgroup has, 1 to 32. The last of a group may have fewer.
    pub subgroup: u32,
    /// The module's buffers, in order.
    pub buffers: Vec<BoundWords<'a>>,
    /// Ends the launch once it is not zero.
    pub stop: Option<&'a AtomicU32>,
    /// Ends the launch after so long.
    pub deadline: Option<Duration>,
    /// Who runs when.
    pub schedule: Schedule,
}

/// The words of a buffer, each element's bits in one.
#[derive(Clone, Copy, Debug)]
pub enum BoundWords<'a> {
    /// None: the buffer is shared, so every group has its own.
    None,
    /// Elements of 32 bits.
    W32(&'a [AtomicU32]),
    /// Elements of 64 bits.
    W64(&'a [AtomicU64]),
}

/// Who runs when.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Schedule {
    /// Groups on so many threads, the caller's among them.
    Threads(usize),
    /// On the caller's thread, in an order that the seed decides, step by step.
    Seeded(u64),
    /// Likewise, on memory that shows what the program does not order. Bound words are read at the start and written
    /// at the end; what a host does to them meanwhile is not seen.
    Explore(u64),
}

/// What came of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterpReport {
    /// How it ended.
    pub end: End,
    /// The faults that were recorded, if any.
    pub fault: Option<Fault>,
    /// How many micro-ops all lanes did.
    pub steps: u64,
}

/// How a launch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// All lanes have returned.
    Done,
    /// By the stop word or the deadline.
    Stopped,
    /// By a `trap`.
    #[allow(missing_docs)]
    Trapped { code: u32, site: Site },
}

/// The faults of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The first one's code.
    pub code: u32,
    /// The instruction that recorded it.
    pub site: Site,
    /// How many there were.
    pub count: u64,
}

/// Why a kernel cannot be run here at all.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum LoadError {
    #[error(transparent)]
    Kernel(#[from] NoKernel),
    #[error("`{}` does not run on the reference device", op.row().name)]
    Refused { op: Op, site: Site },
    #[error(transparent)]
    Unbound(#[from] UnboundImports),
}

/// Why a launch was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum LaunchError {
    #[error("a launch needs at least one {what}")]
    Zero { what: &'static str },
    #[error("a group has at most {MAX_LANES} lanes, not {lanes}")]
    Lanes { lanes: u32 },
    #[error("a subgroup has 1 to 32 lanes, not {subgroup}")]
    Subgroup { subgroup: u32 },
    #[error("the module has {wanted} buffers, but {given} were given")]
    Buffers { given: usize, wanted: usize },
    #[error("buffer `{name}` is not bound")]
    Unbound { name: String },
    #[error("buffer `{name}` is shared, so nothing can be bound to it")]
    Shared { name: String },
    #[error("buffer `{name}` has elements of type {elem}, so its words have {} bits", elem.bits())]
    Width { name: String, elem: Type },
    #[error("buffer `{name}` has {wanted} elements, but {given} were given")]
    Length { name: String, given: u64, wanted: u64 },
    #[error("a group takes {words} words of registers and shared memory, and {ROOM} is the most")]
    Room { words: u64 },
    #[error(
        "exploring takes at most {} words and {} lanes, and this launch has {words} and {lanes}",
        MAX_EXPLORED.0, MAX_EXPLORED.1
    )]
    Explore { words: u64, lanes: u64 },
    /// The validator should not have passed the module.
    #[error("lanes that should meet at {} never do", site.inst)]
    Diverged { site: Site },
}

impl InterpKernel {
    /// Decodes a kernel: the one of that name, or the only one.
    pub fn new(module: &Valid, kernel: Option<&str>) -> Result<Self, LoadError> {
        check_bound(module)?;
        for need in &module.needs {
            match need {
                // Every subgroup runs by itself here.
                Need::Subgroups => {}
            }
        }
        let kernel = module.choose_kernel(kernel)?;
        let decoded = decode::decode(module, kernel)?;
        Ok(InterpKernel { decoded, buffers: module.buffers.iter().map(|(_, decl)| decl.clone()).collect() })
    }

    /// How many groups of so many lanes are under way at once. A launch of more runs the later ones as earlier ones
    /// end, so these must not wait for those.
    pub fn resident_groups(&self, lanes: u32) -> u32 {
        (ROOM / self.room(lanes).max(1)).min(u32::MAX.into()) as u32
    }

    /// The words that a group of so many lanes takes.
    fn room(&self, lanes: u32) -> u64 {
        let shared = self.buffers.iter().map(shared_len).fold(0, u64::saturating_add);
        shared.saturating_add(u64::from(lanes) * self.decoded.registers.len() as u64)
    }

    /// Runs the kernel.
    pub fn run(&self, launch: &InterpLaunch<'_>) -> Result<InterpReport, LaunchError> {
        self.check(launch)?;
        let mut registers = self.decoded.registers.clone();
        let fixed = [
            (code::fixed::LANES, launch.lanes),
            (code::fixed::GROUPS, launch.groups),
            (code::fixed::SIZE, launch.subgroup),
        ];
        let lengths = self
            .buffers
            .iter()
            .zip(&launch.buffers)
            .map(|(decl, words)| shared_len(decl) + words.len() as u64);
        fixed.iter().for_each(|(reg, value)| registers[*reg as usize] = (*value).into());
        registers[code::fixed::LENGTHS as usize..].iter_mut().zip(lengths).for_each(|(reg, len)| *reg = len);
        let board = run::LaunchBoard::new(launch);
        let job = run::InterpJob {
            code: &self.decoded.code,
            entry: self.decoded.entry,
            registers: &registers,
            buffers: &self.buffers,
            launch,
            board: &board,
            resident: self.resident_groups(launch.lanes) as usize,
        };
        let outcome = match launch.schedule {
            Schedule::Threads(count) => run::threads(&job, count),
            Schedule::Seeded(seed) => {
                run::seeded(&job, seed, |_| memory::RealMemory::new(&launch.buffers, &self.buffers))
            }
            Schedule::Explore(seed) => {
                let machine = RefCell::new(explore::start(&job, seed));
                let outcome = run::seeded(&job, seed, |index| explore::Explorer::new(&job, &machine, index));
                explore::finish(&job, &machine.borrow());
                outcome
            }
        };
        board.report(outcome)
    }

    /// Refuses what the kernel cannot be run with.
    fn check(&self, launch: &InterpLaunch<'_>) -> Result<(), LaunchError> {
        let threads = if let Schedule::Threads(count) = launch.schedule { count } else { 1 };
        let counts =
            [("group", launch.groups as usize), ("lane", launch.lanes as usize), ("thread", threads)];
        if let Some((what, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(LaunchError::Zero { what });
        }
        if launch.lanes > MAX_LANES {
            return Err(LaunchError::Lanes { lanes: launch.lanes });
        }
        if !(1..=group::SUBGROUP as u32).contains(&launch.subgroup) {
            return Err(LaunchError::Subgroup { subgroup: launch.subgroup });
        }
        let (given, wanted) = (launch.buffers.len(), self.buffers.len());
        if given != wanted {
            return Err(LaunchError::Buffers { given, wanted });
        }
        self.buffers.iter().zip(&launch.buffers).try_for_each(|(decl, words)| check_binding(decl, *words))?;
        let words = self.room(launch.lanes);
        if words > ROOM {
            return Err(LaunchError::Room { words });
        }
        if let Schedule::Explore(_) = launch.schedule {
            let bound = launch.buffers.iter().map(|words| words.len() as u64).fold(0, u64::saturating_add);
            let shared = self.buffers.iter().map(shared_len).fold(0, u64::saturating_add);
            let words = bound.saturating_add(shared.saturating_mul(launch.groups.into()));
            let lanes = u64::from(launch.groups) * u64::from(launch.lanes);
            if words > MAX_EXPLORED.0 || lanes > MAX_EXPLORED.1 {
                return Err(LaunchError::Explore { words, lanes });
            }
        }
        Ok(())
    }
}

/// The length of a shared buffer, which every group has for its own; 0 of others.
fn shared_len(decl: &BufferDecl) -> u64 {
    match (decl.space, decl.len) {
        (Space::Shared, Len::Fixed(len)) => len,
        _ => 0,
    }
}

/// Refuses words that a buffer cannot be.
fn check_binding(decl: &BufferDecl, words: BoundWords<'_>) -> Result<(), LaunchError> {
    let name = || decl.name.clone();
    let bits = match (words, decl.space) {
        (BoundWords::None, Space::Shared) => return Ok(()),
        (_, Space::Shared) => return Err(LaunchError::Shared { name: name() }),
        (BoundWords::None, _) => return Err(LaunchError::Unbound { name: name() }),
        (BoundWords::W32(_), _) => 32,
        (BoundWords::W64(_), _) => 64,
    };
    if decl.elem.bits() != bits {
        return Err(LaunchError::Width { name: name(), elem: decl.elem });
    }
    // An index has 32 bits, and so has what `len` gives.
    let given = words.len() as u64;
    let wanted = if let Len::Fixed(len) = decl.len { len } else { given.min(u32::MAX.into()) };
    if given != wanted { Err(LaunchError::Length { name: name(), given, wanted }) } else { Ok(()) }
}
