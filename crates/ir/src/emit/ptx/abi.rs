//! What emitted kernels and the host that launches them agree on: the words of the launch record and of the end record.

/// The launch record, which a kernel is given by value as its only parameter. It consists of words of 64 bits.
///
/// The record ends with the address and the length of each of [`Ptx::params`](super::Ptx::params). Addresses of
/// buffers are multiples of 16, lengths count elements and are below 2³², and a length that the module declares is the
/// one that is given.
pub mod launch {
    /// The address of the *notice*: a word of 32 bits in host memory that is zero before the launch. It is not zero
    /// afterwards if the kernel has put anything into its end record that the host did not ask for: a trap, a fault or
    /// a stop of its own. So the host need not read the end record of a launch without a notice.
    pub const NOTICE: usize = 0;
    /// The address of the [end record](super::record) in device memory.
    pub const RECORD: usize = 1;
    /// The address of the lease word in host memory, or 0 if there is none. The lease word has 64 bits, and the host
    /// writes there until when the kernel may run; 0 means for ever.
    pub const LEASE: usize = 2;
    /// Until when the kernel may run, by the GPU's clock in nanoseconds; all ones means for ever.
    pub const LIMIT: usize = 3;
    /// The first word of the buffers, and so the number of words before them.
    pub const BUFFERS: usize = 4;
}

/// The end record, which a kernel writes in device memory. It consists of words of 32 bits, all zero before a launch.
///
/// A *site* is an index into [`Ptx::sites`](super::Ptx::sites).
pub mod record {
    /// Whether a lane trapped.
    pub const TRAP: usize = 0;
    /// The code of the first trap.
    pub const TRAP_CODE: usize = 1;
    /// The site of the first trap, right behind its code.
    pub const TRAP_SITE: usize = 2;
    /// The code of the first fault.
    pub const FAULT_CODE: usize = 3;
    /// The site of the first fault, right behind its code.
    pub const FAULT_SITE: usize = 4;
    /// How many faults there were.
    pub const FAULTS: usize = 5;
    /// Whether a lane left because [`STOP`] was set.
    pub const STOPPED: usize = 6;
    /// Every lane that sees this word set leaves. The host sets it by a copy, and a lane that traps sets it too.
    pub const STOP: usize = 7;
    /// How many words the record has.
    pub const WORDS: usize = 8;
}
