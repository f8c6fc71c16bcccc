//! What host and handler agree on: the regions, the arguments of a task, headers of automata, and the shape of a kernel.

use pelton::device::Caps;

/// How many bytes a lane loads at once.
pub(super) const BLOCK_BYTES: u32 = 16;
/// Strips are multiples of this.
pub(super) const STRIP_STEP: u32 = 8 * BLOCK_BYTES;

/// How the lanes of a group work together in the scan kernel, and what they keep in the memory of the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelShape {
    /// How many blocks of 16 bytes a lane reads before the group synchronises: 1, 2, 4 or 8.
    pub turn_blocks: u32,
    /// How many windows of stage two the group's list holds, at least four for each lane.
    pub window_room: u32,
    /// How many words of the automaton's first rows are copied to the group's memory, at least 1.
    pub hot_words: u32,
}

impl KernelShape {
    /// Returns the shape that suits a device. A CPU has no group memory that is faster than its caches.
    pub fn suiting(device: &Caps) -> KernelShape {
        let hot_words = if device.memory_bytes.is_some() { 8192 } else { 1 };
        KernelShape { turn_blocks: 4, window_room: 2048, hot_words }
    }

    /// The nearest shape that a handler for groups of so many lanes can have.
    pub(super) fn checked(self, lanes: u32) -> KernelShape {
        KernelShape {
            turn_blocks: self.turn_blocks.clamp(1, 8).next_power_of_two(),
            window_room: self.window_room.clamp(lanes * 4, 8192),
            hot_words: self.hot_words.clamp(1, 53248),
        }
    }
}

/// The name of the region with the images of catalogs.
pub(super) const TABLES: &str = "scan_tables";
/// The name of the region with texts.
pub(super) const TEXT: &str = "scan_text";
/// The name of the region with candidates.
pub(super) const FOUND: &str = "scan_found";

/// How many words of the found region stand before the candidates of a list. The first of them counts the candidates.
pub(super) const FOUND_HEADER: u32 = 4;
/// How many words a candidate has: its branch and where its part begins.
pub(super) const FOUND_WORDS: u32 = 2;

/// The arguments of a task, in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ScanTaskArgs {
    /// The word of the text region at which the text begins, a multiple of four.
    pub text: u32,
    /// The number of bytes of the text.
    pub len: u32,
    /// Where lane 0 begins, a multiple of 16 bytes from the start of the text.
    pub begin: u32,
    /// The number of bytes of a strip, a multiple of [`STRIP_STEP`].
    pub strip: u32,
    /// Hits from here on are taken.
    pub own_start: u32,
    /// Hits before here are taken.
    pub own_end: u32,
    /// How many blocks a lane reads before its strip begins.
    pub lead_blocks: u32,
    /// The word of the table region at which the automaton's header begins.
    pub automaton: u32,
    /// The word of the found region at which the list of candidates begins.
    pub found: u32,
    /// What the list's counter showed when it was empty.
    pub found_base: u32,
    /// How many candidates the list holds.
    pub found_room: u32,
}

impl ScanTaskArgs {
    /// The arguments as words.
    pub(super) fn words(self) -> [u32; 11] {
        [
            self.text,
            self.len,
            self.begin,
            self.strip,
            self.own_start,
            self.own_end,
            self.lead_blocks,
            self.automaton,
            self.found,
            self.found_base,
            self.found_room,
        ]
    }
}

/// The words of an automaton's header.
#[derive(Clone, Copy)]
pub(super) enum HeaderWord {
    /// The word at which 256 words with the column of each byte begin.
    Columns,
    /// The word at which the rows begin.
    Rows,
    /// The first entry that is an accepting state.
    FirstAccepting,
    /// The word at which the column of outputs begins.
    Outputs,
    /// The number of words of a row.
    RowWords,
    /// The word at which the windows of branches begin.
    Windows,
    /// The word at which the classes of runs begin that the columns know: for each its smallest length and its number.
    RunClasses,
}

/// How many words a header has.
pub(super) const HEADER_WORDS: u32 = 8;

/// The words with which an image begins. Tasks that make a step of an automaton find its tables by them.
#[derive(Clone, Copy)]
pub(super) enum StepHeaderWord {
    /// The stamp of the version that lies here.
    Stamp,
    /// The number of branches.
    Branches,
    /// The word at which the windows of branches begin.
    Windows,
    /// The word at which the numbers of states of the branches' windows begin.
    StateCounts,
}

/// How many words an image begins with.
pub(super) const STEP_HEADER_WORDS: u32 = 4;

/// The numbers of words of the regions that are only read. They are powers of two, so that a masked index is known to be
/// in range and needs no check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RegionSizes {
    pub tables: u32,
    pub text: u32,
}
