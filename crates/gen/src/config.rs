//! Settings of the generator: how large a module may become, and what it promises.

/// What a generated module promises besides being valid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Promise {
    /// The module ends soon, and gives the same results under every schedule and on every device; [`crate::make`]
    /// says why.
    Same,
    /// The module promises nothing: it may race, read the clock and start copies that no device runs. Laws about
    /// text and passes use such modules.
    Nothing,
}

/// The bounds of a generated module, and its promise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GeneratorConfig {
    /// The largest number of instructions, approximately.
    pub insts: usize,
    /// The deepest nesting of regions, counting the function's body.
    pub depth: usize,
    /// The largest number of statements in a nested region.
    pub width: usize,
    /// The largest number of functions, not counting the kernel.
    pub functions: usize,
    /// The largest number of buffers.
    pub buffers: usize,
    /// The largest number of instructions that one lane runs, approximately.
    pub steps: u64,
    /// What the module promises besides being valid.
    pub promise: Promise,
}

impl GeneratorConfig {
    /// Settings for modules that a person can still read when they fail.
    pub const DEFAULT: GeneratorConfig = GeneratorConfig {
        insts: 160,
        depth: 6,
        width: 5,
        functions: 3,
        buffers: 10,
        steps: 20_000,
        promise: Promise::Same,
    };
}
