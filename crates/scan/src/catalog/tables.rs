//! The tables of a catalog, as engines read them.

use crate::factor::{ByteSet, LITERAL_MAX};

/// An automaton of stage one, which reads every byte and says where literals end.
///
/// A byte is first mapped to its class, in which both cases of an ASCII letter are one. State 0 is the initial state.
/// States from [`first_accepting`](Self::first_accepting) on are accepting: a literal ends at the byte that led there.
/// The state depends on the last [`Catalog::lead`](super::Catalog::lead) bytes at most.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FactorTable {
    /// The class of each byte.
    pub classes: Vec<u8>,
    /// The number of classes.
    pub class_count: u32,
    /// The number of states, at most 65,536.
    pub state_count: u32,
    /// The first accepting state.
    pub first_accepting: u32,
    /// The next state for `state * class_count + class`.
    pub next: Vec<u16>,
    /// For each accepting state the index of its first output; one more entry is the number of outputs.
    pub output_rows: Vec<u32>,
    /// The literals that end at accepting states.
    pub outputs: Vec<FactorOutput>,
}

/// A literal that ends where an accepting state was reached.
///
/// The automaton does not distinguish upper and lower case, so the literal itself must still be compared with the bytes
/// `end - 15 ..= end` of the text, where `end` is the position of the byte that led to the state. Bytes before the
/// literal have mask 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FactorOutput {
    /// The branch that the literal belongs to.
    pub branch: u32,
    /// The number of bytes from the beginning of the part to the end of the literal: the part begins at
    /// `end + 1 - back`.
    pub back: u32,
    /// What the bytes must be in the bits that the mask selects.
    pub value: [u8; LITERAL_MAX],
    /// The bits that are compared.
    pub mask: [u8; LITERAL_MAX],
}

/// The automaton of stage two for one branch, which reads from the beginning of the part on.
///
/// In state [`WINDOW_NO`] the answer is *no*: no match is possible. In state [`WINDOW_MAYBE`] it is *maybe*. Both are never
/// left. If neither is reached within `limit` bytes, `at_limit` says which answer holds. If the text ends earlier, the answer is *maybe*.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WindowInfo {
    /// The index of the automaton's first entry in [`WindowTables::next`].
    pub base: u32,
    /// The number of its byte classes; 0 if the branch has no automaton, so that the answer is always *maybe*.
    pub class_count: u32,
    /// The number of its map from bytes to classes: byte `b` has the class `classes[class_map * 256 + b]` in
    /// [`WindowTables::classes`].
    pub class_map: u32,
    /// The largest number of bytes that are read.
    pub limit: u32,
    /// Whether the answer after `limit` bytes is *maybe* rather than *no*.
    pub at_limit: bool,
}

/// The state in which a window answers *no*.
pub const WINDOW_NO: u16 = 0;
/// The state in which a window answers *maybe*.
pub const WINDOW_MAYBE: u16 = 1;
/// The state in which a window begins.
pub const WINDOW_START: u16 = 2;

/// The automata of stage two.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WindowTables {
    /// One window per branch.
    pub windows: Vec<WindowInfo>,
    /// Maps of bytes to classes, 256 entries each.
    pub classes: Vec<u8>,
    /// The next state for `base + state * class_count + class`.
    pub next: Vec<u16>,
}

impl WindowTables {
    /// Returns how many states the automaton of each window has; 0 if a branch has none. The tables lie one after the
    /// other without gaps, so each ends where the next begins.
    pub fn state_counts(&self) -> Vec<u32> {
        let present = self.windows.iter().filter(|window| window.class_count != 0);
        let mut bases: Vec<u32> = present.map(|window| window.base).collect();
        bases.sort_unstable();
        bases.dedup();
        let end = |base: u32| {
            let next = bases.get(bases.partition_point(|other| *other <= base));
            next.map_or(self.next.len() as u32, |next| *next)
        };
        let count = |window: &WindowInfo| (end(window.base) - window.base).checked_div(window.class_count);
        self.windows.iter().map(|window| count(window).unwrap_or(0)).collect()
    }
}

/// A factor that is a run of bytes of one class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClassRun {
    /// The branch that the run belongs to.
    pub branch: u32,
    /// The class.
    pub class: ByteSet,
    /// The smallest number of bytes.
    pub length: u32,
}
