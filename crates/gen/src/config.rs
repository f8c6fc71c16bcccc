//! What a generated module may be like.

/// What a generated module promises besides being valid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Promise {
    /// It ends soon, and gives the same under every schedule and on every device; see [`crate::make`].
    Same,
    /// Nothing: it may race, read the clock and start copies that no device runs. For laws about text and passes.
    Nothing,
}

/// The bounds of a generated module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Config {
    /// About how many instructions it has at most.
    pub insts: usize,
    /// How deep regions nest at most, the function's body included.
    pub depth: usize,
    /// How many statements a nested region has at most.
    pub width: usize,
    /// How many functions it has at most besides the kernel.
    pub functions: usize,
    /// How many buffers it has at most.
    pub buffers: usize,
    /// About how many instructions a lane runs at most.
    pub steps: u64,
    /// What it promises.
    pub promise: Promise,
}

impl Config {
    /// Modules that a person can still read when they fail.
    pub const DEFAULT: Config = Config {
        insts: 160,
        depth: 6,
        width: 5,
        functions: 3,
        buffers: 10,
        steps: 20_000,
        promise: Promise::Same,
    };
}
