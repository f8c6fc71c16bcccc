//! What emitted kernels and their driver share: the words of the two records of a launch.

/// The launch record, which a kernel is given as its only parameter: words of 64 bits.
pub mod launch {
    /// The address of the notice.
    pub const NOTICE: usize = 0;
    /// The address of the end record.
    pub const RECORD: usize = 1;
    /// The address of the lease word, or 0.
    pub const LEASE: usize = 2;
    /// Until when the kernel may run, by the GPU's clock in nanoseconds; all ones is for ever.
    pub const LIMIT: usize = 3;
    /// The first word of the buffers, which have an address and a length each.
    pub const BUFFERS: usize = 4;
}

/// The end record, in device memory, all zero before a launch: words of 32 bits.
pub mod record {
    /// Whether a lane trapped.
    pub const TRAP: usize = 0;
    /// The code of the first trap; its site follows.
    pub const TRAP_CODE: usize = 1;
    /// The code of the first fault; its site follows.
    pub const FAULT_CODE: usize = 3;
    /// How many faults there were.
    pub const FAULTS: usize = 5;
    /// Whether a lane left because it was told to.
    pub const STOPPED: usize = 6;
    /// Whoever sees this set leaves.
    pub const STOP: usize = 7;
    /// How many words there are.
    pub const WORDS: usize = 8;
}
