//! Opcodes: what a slot asks for.

use std::fmt;

use super::Malformed;

/// What a slot asks for: a built-in operation, or a handler of the user's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Opcode(u32);

/// A row of the table of built-in opcodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpcodeRow {
    /// The opcode.
    pub opcode: Opcode,
    /// What it is called.
    pub name: &'static str,
    /// The names of its arguments, from argument word 0 on.
    pub args: &'static [&'static str],
    /// What it does.
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
    ATOMIC_ADD   2           (delta, index) "`data[index]` += delta; the old value is the result.";
    LOAD_U32     3           (index, observable) "The tenant's observable ← `data[index]`, which is also the result.";
    COMPARE_SWAP 4           (index, expected, desired) "`data[index]` ← desired if it is as expected; the previous value is the result.";
    MEMCPY       5           (source, destination, words) "Copies words within data; the ranges may overlap, and both are checked first.";
    DFA_STEP     6           (rule, state, byte) "One step of an automaton; the next state is the result.";
    BATCH_FENCE  7           (count, tag) "Once the `count` slots before it in its own ring have ended, well or not: the epoch rises by one, which is the result, and the tenant's observable 0 ← tag.";
    LOAD_MISS    0xfffd      (resource, prefetch) "Asks the host for data, and waits without holding a lane.";
    PRINTF       0xfffe      (format, a1, a2) "Writes a debug record.";
    PACKED_SLOT  0x8000_0001 () "Several small operations in one slot.";
    CANCEL       0x8000_0002 () "In a live ring: written over a published slot to ask that its task be not run.";
    SHUTDOWN     0xffff_ffff () "In a drained batch: ends the pass.";
}

/// The ranges of opcodes that are not the user's, ends included.
pub const RESERVED: &[(u32, u32)] = &[(0, 7), (0xfff0, 0xffff), (0x8000_0000, 0xffff_ffff)];

/// The first range of opcodes that belong to users, its end excluded. It lies between the first two reserved ranges.
const LOW_USER: (u32, u32) = (RESERVED[0].1 + 1, RESERVED[1].0);

/// Those ranges, for people.
pub(crate) fn reserved_ranges() -> String {
    RESERVED.iter().map(|(first, last)| format!("{first:#x}-{last:#x}")).collect::<Vec<_>>().join(", ")
}

impl Opcode {
    /// An opcode for a handler of the user's.
    pub fn user(code: u32) -> Result<Opcode, Malformed> {
        let opcode = Opcode(code);
        if opcode.is_reserved() { Err(Malformed::Reserved(opcode)) } else { Ok(opcode) }
    }

    /// What a slot asks for, whether anybody knows it or not.
    pub const fn from_code(code: u32) -> Opcode {
        Opcode(code)
    }

    /// Its number on the wire.
    pub const fn code(self) -> u32 {
        self.0
    }

    /// Whether it is not the user's to give.
    pub fn is_reserved(self) -> bool {
        RESERVED.iter().any(|&(first, last)| (first..=last).contains(&self.0))
    }

    /// Whether the opcode lies in the first range that belongs to users. Almost every opcode of a user does, and one comparison finds out.
    #[inline]
    pub(crate) const fn is_low_user(self) -> bool {
        self.0.wrapping_sub(LOW_USER.0) < LOW_USER.1 - LOW_USER.0
    }

    /// Its row, if it is built in.
    pub fn builtin_row(self) -> Option<&'static OpcodeRow> {
        TABLE.iter().find(|row| row.opcode == self)
    }

    /// How many arguments it takes, if it is built in.
    pub fn builtin_arity(self) -> Option<u32> {
        self.builtin_row().map(|row| row.args.len() as u32)
    }

    /// The built-in opcode of that name, in capitals or not.
    pub fn from_name(name: &str) -> Option<Opcode> {
        TABLE.iter().find(|row| row.name.eq_ignore_ascii_case(name)).map(|row| row.opcode)
    }

    /// Its bit in a tenant's mask: bit i for opcode i up to 30, bit 31 for all others.
    pub const fn mask_bit(self) -> u32 {
        1 << if self.0 < 31 { self.0 } else { 31 }
    }

    /// The mask of a tenant that may use these opcodes and no others, but for those that share bit 31.
    pub fn mask_of(ops: &[Opcode]) -> u32 {
        ops.iter().fold(0, |mask, op| mask | op.mask_bit())
    }
}

/// By name if it is built in, else its number.
impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.builtin_row() {
            Some(row) => f.pad(row.name),
            None => f.pad(&format!("{:#x}", self.0)),
        }
    }
}
