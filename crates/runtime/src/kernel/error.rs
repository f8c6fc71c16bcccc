//! The error of a `Spec` that cannot be assembled.

use pelton_ir::link::LinkError;

use crate::graph::GraphError;
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

/// Why a `Spec` cannot be assembled into a kernel.
#[allow(missing_docs)]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// The value of an axis is impossible with this device or with the rest of the `Spec`.
    #[error("{axis} = {value}: {why}")]
    Axis { axis: &'static str, value: &'static str, why: &'static str },
    /// A number is out of range.
    #[error("{what} is {found}; it must be {}at most {most}", if *.found == 0 { "at least 1 and " } else { "" })]
    Size { what: &'static str, found: u64, most: u64 },
    /// The number of slots is not a power of two, so positions cannot be reduced to slots by masking.
    #[error("a ring has {found} slots, which is not a power of two")]
    Slots { found: u32 },
    /// The number of cells of a producer is not a power of two, or is too large.
    #[error("a producer has {found} cells; the number must be a power of two up to {most}", most = super::Geometry::MAX_SLOTS)]
    Cells { found: u32 },
    /// The number of cells for spawned tasks is not a power of two, or is too small or too large.
    #[error("a tenant has {found} cells for spawned tasks; the number must be a power of two from {least} up to {most}", least = super::Spec::MIN_SPAWN_CELLS, most = super::Geometry::MAX_SLOTS)]
    SpawnCells { found: u32 },
    /// No tenant has a producer, so nobody could use the kernel.
    #[error("there are no producers: a tenant needs at least one")]
    Producers,
    /// A tenant is not possible.
    #[error("tenant {id}: {why}")]
    Tenant { id: u32, why: String },
    /// A region is not possible.
    #[error("region {name:?}: {why}")]
    Region { name: String, why: String },
    /// A handler is not possible.
    #[error("handler {name:?} ({op}): {why}")]
    Handler { name: String, op: Opcode, why: String },
    /// A handler imports something that cannot be bound.
    #[error("handler {name:?} ({op}): {source}")]
    Import { name: String, op: Opcode, source: LinkError },
    /// A library is not possible. The first library has index 0.
    #[error("library {}: {why}", index + 1)]
    Library { index: usize, why: String },
    /// A format of PRINTF cannot be parsed.
    #[error("format {id}: {why}")]
    Format { id: usize, why: String },
    /// A graph is not possible.
    #[error("graph {name:?}: {source}")]
    Graph { name: String, source: GraphError },
    /// Two graphs have the same name.
    #[error("two graphs are named {name:?}")]
    DuplicateGraph { name: String },
    /// The assembled kernel is not valid, which is a defect of Pelton.
    #[error("the assembled kernel is not valid:\n{0}")]
    Kernel(String),
}
