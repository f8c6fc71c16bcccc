//! Fault codes, which say why a task did not end well.

use std::fmt;

use super::Malformed;

/// The code of a fault: one of the protocol's, or one that a handler defines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FaultCode(u32);

/// The first code that a handler may define.
pub const FIRST_USER: u32 = 0x100;

/// The greatest code. The bits above it hold the index of the inner operation.
pub const MAX_CODE: u32 = (1 << INNER_SHIFT) - 1;

/// The position of the index of the inner operation in the fault of a packed slot.
pub const INNER_SHIFT: u32 = 24;

macro_rules! faults {
    ($($name:ident $code:literal $word:literal $text:literal $clause:literal;)*) => {
        impl FaultCode {
            $(#[doc = $text] pub const $name: FaultCode = FaultCode($code);)*

            /// Returns what happened to the task as a clause, if the protocol defines the code.
            fn clause(self) -> Option<&'static str> {
                match self {
                    $(FaultCode::$name => Some($clause),)*
                    _ => None,
                }
            }
        }

        /// The codes that the protocol defines, each with its name and its meaning.
        pub const TABLE: &[(FaultCode, &str, &str)] = &[$((FaultCode::$name, $word, $text),)*];
    };
}

faults! {
    UNKNOWN   1 "unknown opcode" "There is no handler for the opcode."
        "there is no handler for its opcode";
    REGION    2 "out of region"  "An access was outside the tenant's region. A load gave zero, and a store did nothing."
        "it accessed memory outside its tenant's region";
    DENIED    3 "denied"         "The tenant may not use the opcode."
        "its tenant may not use its opcode";
    MALFORMED 4 "malformed"      "The slot does not have the form that its opcode asks for. Nothing was done."
        "its slot does not have the form that its opcode asks for";
    ARGUMENTS 5 "arguments"      "The handler rejected its arguments."
        "its handler rejected its arguments";
    FUEL      6 "fuel"           "The handler ran for too long."
        "its handler ran for too long";
    CHILD     7 "child"          "A task that it spawned ended with a fault."
        "a task that it spawned ended with a fault";
    POOL      8 "no room"        "The handler tried to spawn tasks too often although there was no room for them, or more tasks than it had reserved room for."
        "it found no room for the tasks that it wanted to spawn";
    UNREACHABLE 9 "unreachable"  "A spawned task called `park`, and nobody could resume it."
        "it was spawned and called `park`, and nobody could resume it";
}

/// How many codes kernels know whose tasks have nothing to do with each other.
pub(crate) const PLAIN_CODES: u32 = FaultCode::FUEL.0;

impl FaultCode {
    /// Returns a code that a handler may define, from 0x100 to 0xffffff, or an error for any other number.
    pub const fn user(code: u32) -> Result<FaultCode, Malformed> {
        if code < FIRST_USER || code > MAX_CODE { Err(Malformed::Fault(code)) } else { Ok(FaultCode(code)) }
    }

    /// Returns the number of the code on the wire.
    pub const fn code(self) -> u32 {
        self.0
    }

    /// Returns the code with this number, or `None` if neither the protocol nor a handler can define it.
    pub fn from_code(code: u32) -> Option<FaultCode> {
        match code {
            FIRST_USER..=MAX_CODE => Some(FaultCode(code)),
            _ => TABLE.iter().map(|row| row.0).find(|known| known.0 == code),
        }
    }
}

/// Prints the name of a code that the protocol defines, and the number of any other.
impl fmt::Display for FaultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match TABLE.iter().find(|row| row.0 == *self) {
            Some(row) => f.pad(row.1),
            None => f.pad(&format!("{:#x}", self.0)),
        }
    }
}

/// Why a task faulted: the value of a completion record whose status is FAULT.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TaskFault {
    /// The code of the fault.
    pub code: FaultCode,
    /// The index of the operation of a packed slot that faulted. It is 0 for other slots.
    pub inner: u8,
}

impl TaskFault {
    /// Returns the fault as a word: the code in bits 0-23, and the index of the inner operation in bits 24-31.
    pub const fn word(self) -> u32 {
        self.code.0 | (self.inner as u32) << INNER_SHIFT
    }

    /// Returns the fault of a word, or `None` if the word holds no fault code.
    pub fn from_word(word: u32) -> Option<TaskFault> {
        Some(TaskFault { code: FaultCode::from_code(word & MAX_CODE)?, inner: (word >> INNER_SHIFT) as u8 })
    }
}

/// Prints a clause whose subject is the task: what happened, and the code.
impl fmt::Display for TaskFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code.clause() {
            Some(clause) => write!(f, "{clause} (fault {})", self.code.0)?,
            None => write!(f, "its handler ended with fault {}", self.code)?,
        }
        match self.inner {
            0 => Ok(()),
            inner => write!(f, ", in inner operation {inner}"),
        }
    }
}
