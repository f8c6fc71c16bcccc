//! Opcodes, which say what a slot asks for.

use std::collections::HashSet;
use std::fmt;
use std::ops::RangeInclusive;

use super::Malformed;

/// What a slot asks for: a built-in operation, or a handler that the user wrote.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Opcode(u32);

/// One row of the table of built-in opcodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpcodeRow {
    /// The opcode that the row describes.
    pub opcode: Opcode,
    /// The name of the operation.
    pub name: &'static str,
    /// The names of the arguments, starting with argument word 0.
    pub args: &'static [&'static str],
    /// What the operation does.
    pub doc: &'static str,
}

macro_rules! opcodes {
    ($($name:ident $code:literal ($($arg:ident),*) $text:literal;)*) => {
        impl Opcode {
            $(#[doc = $text] pub const $name: Opcode = Opcode($code);)*
        }

        /// Every built-in opcode.
        pub const TABLE: &[OpcodeRow] = &[$(OpcodeRow {
            opcode: Opcode::$name,
            name: stringify!($name),
            args: &[$(stringify!($arg)),*],
            doc: $text,
        },)*];
    };
}

opcodes! {
    NOP          0           () "Nothing.";
    STORE_U32    1           (value, index) "`data[index]` ← value.";
    ATOMIC_ADD   2           (delta, index) "`data[index]` += delta. The result is the previous value.";
    LOAD_U32     3           (index, observable) "The tenant's observable ← `data[index]`. The result is the same value.";
    COMPARE_SWAP 4           (index, expected, desired) "`data[index]` ← desired if its value is the expected one. The result is the previous value.";
    MEMCPY       5           (source, destination, words) "Copies words within data. The ranges may overlap, and both are checked first.";
    DFA_STEP     6           (rule, state, byte) "Makes one step of an automaton. The result is the next state. Only kernels with a catalog of rules have it. A rule, a state or a byte that does not exist is a fault with the code for arguments.";
    BATCH_FENCE  7           (count, tag) "Waits until the `count` slots before it in its own ring have ended, well or not. Then the epoch rises by one, which is the result, and the tenant's observable 0 ← tag.";
    LAUNCH_GRAPH 0xfffb      (graph, p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10) "Launches a graph with its parameters. The result is that of the node that the graph names. Only kernels with graphs have it. A graph that does not exist is a fault with the code for arguments, and a graph of another tenant is denied.";
    SIGNAL       0xfffc      (event, times) "Signals an event of the tenant so many times. Only kernels with events have it. An event that does not exist is a fault with the code for arguments.";
    LOAD_MISS    0xfffd      (resource, prefetch) "Asks the host for data, and waits without holding a lane.";
    PRINTF       0xfffe      (format, a1, a2) "Writes a debug record.";
    PACKED_SLOT  0x8000_0001 () "Runs several small operations that share one slot.";
    CANCEL       0x8000_0002 () "In a live ring, the host writes this opcode over a published slot to ask that its task not be run.";
    SHUTDOWN     0xffff_ffff () "In a drained batch, ends the pass.";
}

/// The ranges of opcodes that belong to the protocol, both ends included. Handlers cannot have them, except those of
/// [`PROVIDED_OPS`](crate::kernel::PROVIDED_OPS).
pub const RESERVED: &[(u32, u32)] = &[(0, 7), (0xfff0, 0xffff), (0x8000_0000, 0xffff_ffff)];

/// The first range of opcodes that belong to users, its end excluded. It lies between the first two reserved ranges.
const LOW_USER: (u32, u32) = (RESERVED[0].1 + 1, RESERVED[1].0);

/// Returns the reserved ranges as text for messages.
pub(crate) fn reserved_ranges() -> String {
    RESERVED.iter().map(|(first, last)| format!("{first:#x}-{last:#x}")).collect::<Vec<_>>().join(", ")
}

impl Opcode {
    /// The opcodes that are assigned to handlers which do not ask for one. Those beyond are never assigned.
    pub const ASSIGNED: RangeInclusive<u32> = LOW_USER.0..=LOW_USER.1 - 1;

    /// The lowest opcode that can be assigned and is not among these; `None` if all are taken.
    pub(crate) fn lowest_free(taken: impl Iterator<Item = Opcode>) -> Option<Opcode> {
        let taken: HashSet<Opcode> = taken.collect();
        Opcode::ASSIGNED.map(Opcode).find(|op| !taken.contains(op))
    }

    /// Returns the opcode with this number for a handler, or an error if the number is reserved.
    pub fn user(code: u32) -> Result<Opcode, Malformed> {
        let opcode = Opcode(code);
        if opcode.is_reserved() { Err(Malformed::Reserved(opcode)) } else { Ok(opcode) }
    }

    /// Returns the opcode with this number, as a slot may hold it. It may be reserved, and there need not be a handler
    /// for it.
    pub const fn from_code(code: u32) -> Opcode {
        Opcode(code)
    }

    /// Returns the number of the opcode on the wire.
    pub const fn code(self) -> u32 {
        self.0
    }

    /// Returns whether the opcode is reserved, so that no handler of a user can have it.
    pub fn is_reserved(self) -> bool {
        RESERVED.iter().any(|&(first, last)| (first..=last).contains(&self.0))
    }

    /// Returns whether the opcode lies in the first range that belongs to users. Almost every opcode of a user does,
    /// and one comparison tells.
    #[inline]
    pub(crate) const fn is_low_user(self) -> bool {
        self.0.wrapping_sub(LOW_USER.0) < LOW_USER.1 - LOW_USER.0
    }

    /// Returns the row of a built-in opcode, or `None` for any other.
    pub fn builtin_row(self) -> Option<&'static OpcodeRow> {
        TABLE.iter().find(|row| row.opcode == self)
    }

    /// Returns how many arguments a built-in opcode takes, or `None` for any other.
    pub fn builtin_arity(self) -> Option<u32> {
        self.builtin_row().map(|row| row.args.len() as u32)
    }

    /// Returns the built-in opcode with this name. Upper and lower case are the same.
    pub fn from_name(name: &str) -> Option<Opcode> {
        TABLE.iter().find(|row| row.name.eq_ignore_ascii_case(name)).map(|row| row.opcode)
    }

    /// Returns the opcode's bit in the mask of a tenant: bit i for opcode i up to 30, and bit 31 for all others.
    pub const fn mask_bit(self) -> u32 {
        1 << if self.0 < 31 { self.0 } else { 31 }
    }

    /// Returns the mask of a tenant that may use only these opcodes. All opcodes from 31 on share one bit, so allowing
    /// one of them allows them all.
    pub fn mask_of(ops: &[Opcode]) -> u32 {
        ops.iter().fold(0, |mask, op| mask | op.mask_bit())
    }
}

/// Prints the name of a built-in opcode, and the number of any other.
impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.builtin_row() {
            Some(row) => f.pad(row.name),
            None => f.pad(&format!("{:#x}", self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_are_assigned_from_the_lowest_on_until_all_are_taken() {
        let free =
            |taken: &[u32]| Opcode::lowest_free(taken.iter().map(|code| Opcode(*code))).map(Opcode::code);
        assert_eq!(free(&[]), Some(8));
        assert_eq!(free(&[8, 9, 11]), Some(10));
        assert_eq!(free(&[0x1_0000]), Some(8));
        let mut all: Vec<u32> = Opcode::ASSIGNED.collect();
        assert!(all.iter().all(|code| !Opcode(*code).is_reserved()));
        assert_eq!(free(&all), None);
        assert_eq!(free(&all[..all.len() - 1]), all.pop());
    }
}
