//! Why a `Spec` cannot be assembled.

use pelton_ir::link::LinkError;

use crate::protocol::Opcode;

/// A name that no opcode has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no opcode {name:?}{}", nearest.as_ref().map_or(String::new(), |near| format!("; did you mean {near:?}?")))]
pub struct UnknownOpcode {
    /// The name that was asked for.
    pub name: String,
    /// The known name that is nearest to it, if one is near.
    pub nearest: Option<String>,
}

/// Why a `Spec` cannot be assembled.
#[allow(missing_docs)]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// A value of an axis that does not work here.
    #[error("{axis} = {value}: {why}")]
    Axis { axis: &'static str, value: &'static str, why: &'static str },
    /// A number out of range.
    #[error("{what} is {found}; it must be at least 1 and at most {most}")]
    Size { what: &'static str, found: u64, most: u64 },
    /// Rings wrap by masking.
    #[error("a ring has {found} slots, which is not a power of two")]
    Slots { found: u32 },
    /// Nobody could use it.
    #[error("there are no producers: a tenant needs at least one")]
    Producers,
    /// A tenant that cannot be.
    #[error("tenant {id}: {why}")]
    Tenant { id: u32, why: String },
    /// A region that cannot be.
    #[error("region {name:?}: {why}")]
    Region { name: String, why: String },
    /// A handler that cannot be.
    #[error("handler {name:?} ({op}): {why}")]
    Handler { name: String, op: Opcode, why: String },
    /// A handler imports something that cannot be bound.
    #[error("handler {name:?} ({op}): {source}")]
    Import { name: String, op: Opcode, source: LinkError },
    /// A library that cannot be; the first has index 0.
    #[error("library {}: {why}", index + 1)]
    Library { index: usize, why: String },
    /// A format that PRINTF cannot say.
    #[error("format {id}: {why}")]
    Format { id: usize, why: String },
    /// The kernel that came out is not valid: a defect of Pelton.
    #[error("the assembled kernel is not valid:\n{0}")]
    Kernel(String),
}
