//! From named contents to the buffers of a module.

use pelton_ir::module::{BufferDecl, Module};
use pelton_ir::types::{Len, Space};

use crate::data::Data;
use crate::init::{Init, InitError};
use crate::near::hint;

/// Bytes that the buffers of one launch may take together.
pub const MAX_BYTES: u64 = 4 << 30;

/// Why buffers cannot be bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The module has no buffer of that name.
    #[error("the module has no buffer `{name}`; {hint}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        hint: String,
    },
    /// A buffer is named more than once.
    #[error("buffer `{0}` is given twice")]
    Twice(String),
    /// A shared buffer is a group's own.
    #[error("buffer `{0}` is shared: it is a group's own and starts as zeros")]
    Shared(String),
    /// A buffer whose length is bound at launch is not named.
    #[error("buffer `{0}` has its length bound at launch, so it must be given")]
    Missing(String),
    /// What is given does not fit.
    #[error("buffer `{name}`: {source}")]
    Init {
        /// Which buffer.
        name: String,
        /// Why.
        source: InitError,
    },
    /// All of them together are too large.
    #[error("the buffers take {0} bytes together, more than the {MAX_BYTES} that a launch may have")]
    TooLarge(u64),
}

/// The declaration of a buffer that a launch binds.
pub fn find<'m>(module: &'m Module, name: &str) -> Result<&'m BufferDecl, BindError> {
    let bound = || module.buffers.iter().map(|(_, b)| b).filter(|b| b.space != Space::Shared);
    match module.buffer(name).map(|b| &module.buffers[b]) {
        Some(decl) if decl.space == Space::Shared => Err(BindError::Shared(name.into())),
        Some(decl) => Ok(decl),
        None => {
            let names: Vec<&str> = bound().map(|b| b.name.as_str()).collect();
            Err(BindError::Unknown { name: name.into(), hint: hint(name, &names) })
        }
    }
}

/// The words of every buffer of the module, in its order; shared ones have none. Buffers of fixed length that are
/// not given are zeros.
pub fn bind(module: &Module, given: &[(String, Init)]) -> Result<Vec<Option<Data>>, BindError> {
    for (k, (name, _)) in given.iter().enumerate() {
        find(module, name)?;
        if given[..k].iter().any(|(other, _)| other == name) {
            return Err(BindError::Twice(name.clone()));
        }
    }
    let mut chosen = Vec::new();
    let mut bytes = 0u64;
    for (_, decl) in module.buffers.iter() {
        let given = given.iter().find(|(name, _)| *name == decl.name).map(|(_, init)| init);
        let init = match given {
            _ if decl.space == Space::Shared => None,
            None if decl.len == Len::Launch => return Err(BindError::Missing(decl.name.clone())),
            given => Some(given.unwrap_or(&Init::Zero(None))),
        };
        let len = init.map_or(Ok(0), |init| init.len(decl)).map_err(|source| fail(decl, source))?;
        bytes = bytes.saturating_add(len.saturating_mul(Data::size(decl.elem)));
        chosen.push((decl, init));
    }
    // All lengths are known and allowed before any memory is taken.
    if bytes > MAX_BYTES {
        return Err(BindError::TooLarge(bytes));
    }
    let data = chosen.into_iter().map(|(decl, init)| {
        init.map(|init| init.data(decl)).transpose().map_err(|source| fail(decl, source))
    });
    data.collect()
}

fn fail(decl: &BufferDecl, source: InitError) -> BindError {
    BindError::Init { name: decl.name.clone(), source }
}
