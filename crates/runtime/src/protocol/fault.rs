//! Fault codes: why a task did not end well.

use std::fmt;

use super::Malformed;

/// Why a task faulted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FaultCode(u32);

/// The first code that is a handler's own.
pub const FIRST_USER: u32 = 0x100;

/// The greatest code: the inner index of a packed fault stands above it.
pub const MAX_CODE: u32 = (1 << INNER_SHIFT) - 1;

/// Where the inner index stands in the fault of a packed slot.
pub const INNER_SHIFT: u32 = 24;

macro_rules! faults {
    ($($name:ident $code:literal $word:literal $text:literal $clause:literal;)*) => {
        impl FaultCode {
            $(#[doc = $text] pub const $name: FaultCode = FaultCode($code);)*

            /// What happened to the task, as a clause, if the code is the protocol's.
            fn clause(self) -> Option<&'static str> {
                match self {
                    $(FaultCode::$name => Some($clause),)*
                    _ => None,
                }
            }
        }

        /// The protocol's own codes: each with its name and meaning.
        pub const TABLE: &[(FaultCode, &str, &str)] = &[$((FaultCode::$name, $word, $text),)*];
    };
}

faults! {
    UNKNOWN   1 "unknown opcode" "Nobody handles the opcode."
        "nobody handles its opcode";
    REGION    2 "out of region"  "An access left the tenant's region. It gave zero or did nothing."
        "it left its tenant's region";
    DENIED    3 "denied"         "The tenant may not use the opcode."
        "its tenant may not use its opcode";
    MALFORMED 4 "malformed"      "The slot is not what its opcode asks for. Nothing was done."
        "its slot is not what its opcode asks for";
    ARGUMENTS 5 "arguments"      "The handler refuses its arguments."
        "its handler refuses its arguments";
    FUEL      6 "fuel"           "The handler ran for too long."
        "its handler ran for too long";
}

impl FaultCode {
    /// A handler's own code, 0x100 to 0xffffff.
    pub const fn user(code: u32) -> Result<FaultCode, Malformed> {
        if code < FIRST_USER || code > MAX_CODE { Err(Malformed::Fault(code)) } else { Ok(FaultCode(code)) }
    }

    /// Its number on the wire.
    pub const fn code(self) -> u32 {
        self.0
    }

    /// The code of that number: one of the protocol's, or a handler's own.
    pub fn from_code(code: u32) -> Option<FaultCode> {
        match code {
            FIRST_USER..=MAX_CODE => Some(FaultCode(code)),
            _ => TABLE.iter().map(|row| row.0).find(|known| known.0 == code),
        }
    }
}

/// By name if it is the protocol's, else its number.
impl fmt::Display for FaultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match TABLE.iter().find(|row| row.0 == *self) {
            Some(row) => f.pad(row.1),
            None => f.pad(&format!("{:#x}", self.0)),
        }
    }
}

/// The value of a record whose status is FAULT.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TaskFault {
    /// Why.
    pub code: FaultCode,
    /// Which operation of a packed slot faulted; 0 in other slots.
    pub inner: u8,
}

impl TaskFault {
    /// The word: the code in bits 0-23, the inner index in bits 24-31.
    pub const fn word(self) -> u32 {
        self.code.0 | (self.inner as u32) << INNER_SHIFT
    }

    /// The fault of a word, if its code is one.
    pub fn from_word(word: u32) -> Option<TaskFault> {
        Some(TaskFault { code: FaultCode::from_code(word & MAX_CODE)?, inner: (word >> INNER_SHIFT) as u8 })
    }
}

/// As a clause whose subject is the task: what happened, and the code.
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
