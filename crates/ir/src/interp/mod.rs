//! The reference interpreter, which defines what a kernel means and can run it while a host feeds it.
//!
//! An [`InterpKernel`] is a kernel that has been decoded into flat micro-ops. [`InterpKernel::run`] runs it on real
//! atomic words, so host threads may change them while it runs.
//!
//! **Lanes.** Each lane runs by itself, a turn at a time, until it comes to an op that lanes do together. When all
//! lanes of the subgroup, or of the group, wait at that op, it is done for all of them. Subgroups of a group progress
//! independently of each other, and so do groups, as long as they are under way together
//! ([`InterpKernel::resident_groups`]).
//!
//! **Schedules.** [`Schedule::Threads`] is for speed: groups on threads, lanes of a group in turn. The others run on
//! one thread and repeat themselves exactly: the same seed gives the same results in the same number of steps, unless
//! a host interferes. `clock` then counts steps. A [`SteppedRun`] runs in such an order too, but advances only when it is
//! told to, so that a host on the same thread can do something in between.
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
mod stepped;
mod view;

pub use stepped::{LaunchWords, SteppedRun};

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

/// A kernel that is ready to run in the interpreter.
#[derive(Debug)]
pub struct InterpKernel {
    decoded: decode::DecodedKernel,
    buffers: Vec<BufferDecl>,
}

/// The geometry, the buffers and the schedule of a launch in the interpreter.
#[derive(Clone, Debug)]
pub struct InterpLaunch<'a> {
    /// The number of groups.
    pub groups: u32,
    /// The number of lanes of each group.
    pub lanes: u32,
    /// The number of lanes of a subgroup, from 1 to 32. The last subgroup of a group may have fewer.
    pub subgroup: u32,
    /// The words of the module's buffers, in the order of the module.
    pub buffers: Vec<BoundWords<'a>>,
    /// The stop word. The launch ends once it is not zero.
    pub stop: Option<&'a AtomicU32>,
    /// The longest time that the launch may run.
    pub deadline: Option<Duration>,
    /// The order in which lanes run.
    pub schedule: Schedule,
}

/// The words that are bound to a buffer. Each word holds the bits of one element.
#[derive(Clone, Copy, Debug)]
pub enum BoundWords<'a> {
    /// No words. The buffer is shared, so every group has its own.
    None,
    /// Words for elements of 32 bits.
    W32(&'a [AtomicU32]),
    /// Words for elements of 64 bits.
    W64(&'a [AtomicU64]),
}

/// The order in which the lanes of a launch run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Schedule {
    /// Groups run on this many threads, of which the caller's is one.
    Threads(usize),
    /// All lanes run on the caller's thread, in an order that the seed decides step by step.
    Seeded(u64),
    /// All lanes run on the caller's thread in an order that the seed decides, on a memory that shows every reordering
    /// that the program does not rule out. The bound words are read at the start and written at the end, so changes
    /// that a host makes in between are not seen.
    Explore(u64),
}

/// The outcome of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterpReport {
    /// How the launch ended.
    pub end: End,
    /// The faults that were recorded, if any.
    pub fault: Option<Fault>,
    /// The number of micro-ops that all lanes together executed.
    pub steps: u64,
}

/// How a launch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// All lanes have returned.
    Done,
    /// The stop word or the deadline ended the launch.
    Stopped,
    /// A `trap` ended the launch.
    #[allow(missing_docs)]
    Trapped { code: u32, site: Site },
}

/// The faults that a launch recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The code of the first fault.
    pub code: u32,
    /// The instruction that recorded the first fault.
    pub site: Site,
    /// The number of faults.
    pub count: u64,
}

/// Why the interpreter cannot load a kernel.
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

/// Why the interpreter refuses a launch, or gives up on it.
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
    #[error("a group takes {words} words of registers and shared memory, but at most {ROOM} are allowed")]
    Room { words: u64 },
    #[error(
        "an exploring launch has at most {} words and {} lanes, but this one has {words} and {lanes}",
        MAX_EXPLORED.0, MAX_EXPLORED.1
    )]
    Explore { words: u64, lanes: u64 },
    /// Lanes wait for each other in a way that the validator should have refused.
    #[error("lanes that should meet at {} never do", site.inst)]
    Diverged { site: Site },
}

impl InterpKernel {
    /// Decodes the kernel with the given name or, if no name is given, the module's only kernel.
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

    /// Returns how many groups of `lanes` lanes are resident, that is, run at the same time. A launch with more groups
    /// starts the later ones as earlier ones end, so earlier groups must not wait for later ones.
    pub fn resident_groups(&self, lanes: u32) -> u32 {
        (ROOM / self.room(lanes).max(1)).min(u32::MAX.into()) as u32
    }

    /// Returns the words of registers and shared memory that a group of `lanes` lanes takes.
    fn room(&self, lanes: u32) -> u64 {
        let shared = self.buffers.iter().map(shared_len).fold(0, u64::saturating_add);
        shared.saturating_add(u64::from(lanes) * self.decoded.registers.len() as u64)
    }

    /// Runs the kernel until the launch ends.
    pub fn run(&self, launch: &InterpLaunch<'_>) -> Result<InterpReport, LaunchError> {
        self.check(launch)?;
        let registers = self.first_registers(launch);
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
                run::seeded(&job, seed, |_| memory::RealMemory::new(&launch.buffers[..], &self.buffers))
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

    /// Returns the initial content of a lane's registers, except for the numbers of the lane and its group.
    fn first_registers(&self, launch: &InterpLaunch<'_>) -> Vec<u64> {
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
        registers
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

/// Returns the length of a shared buffer, of which every group has its own copy, and 0 for other buffers.
fn shared_len(decl: &BufferDecl) -> u64 {
    match (decl.space, decl.len) {
        (Space::Shared, Len::Fixed(len)) => len,
        _ => 0,
    }
}

/// Checks that words can be bound to a buffer.
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
