//! Binds named contents to the buffers of a module.

use pelton_ir::module::{BufferDecl, Module};
use pelton_ir::types::{Len, Space};

use crate::data::BufferData;
use crate::hint::name_hint;
use crate::init::{Init, InitError};

/// The largest number of bytes that the buffers of one launch may have together.
pub const MAX_BYTES: u64 = 4 << 30;

/// The reason why buffers cannot be bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The module has no buffer of that name.
    #[error("the module has no buffer `{name}`; {hint}")]
    Unknown {
        /// The name that was given.
        name: String,
        /// The names of the module's buffers.
        hint: String,
    },
    /// A buffer is named more than once.
    #[error("buffer `{0}` is given twice; give it once")]
    Twice(String),
    /// A shared buffer belongs to a group, so it cannot be bound.
    #[error("buffer `{0}` is shared memory of a group, which always starts as zeros; leave it out")]
    Shared(String),
    /// A buffer whose length is bound at launch is not named.
    #[error("buffer `{0}` has no fixed length, so its contents must be given, as in `{0}=zero:64`")]
    Missing(String),
    /// The given contents do not fit.
    #[error("buffer `{name}`: {source}")]
    Init {
        /// The name of the buffer.
        name: String,
        /// The cause.
        source: InitError,
    },
    /// The buffers are too large together.
    #[error("the buffers have {0} bytes together, but a launch may have at most {MAX_BYTES}")]
    TooLarge(u64),
}

/// Finds the declaration of a buffer that a launch binds.
pub fn find_buffer<'m>(module: &'m Module, name: &str) -> Result<&'m BufferDecl, BindError> {
    let bound = || module.buffers.iter().map(|(_, b)| b).filter(|b| b.space != Space::Shared);
    match module.buffer(name).map(|b| &module.buffers[b]) {
        Some(decl) if decl.space == Space::Shared => Err(BindError::Shared(name.into())),
        Some(decl) => Ok(decl),
        None => {
            let names: Vec<&str> = bound().map(|b| b.name.as_str()).collect();
            Err(BindError::Unknown { name: name.into(), hint: name_hint(name, &names) })
        }
    }
}

/// Creates the contents of every buffer of the module, in its order; `None` for shared ones. Buffers of fixed
/// length that are not given are zeros.
pub fn bind_buffers(module: &Module, given: &[(String, Init)]) -> Result<Vec<Option<BufferData>>, BindError> {
    for (k, (name, _)) in given.iter().enumerate() {
        find_buffer(module, name)?;
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
        let len =
            init.map_or(Ok(0), |init| init.element_count(decl)).map_err(|source| bind_error(decl, source))?;
        bytes = bytes.saturating_add(len.saturating_mul(BufferData::element_bytes(decl.elem)));
        chosen.push((decl, init));
    }
    // All lengths are checked before any memory is allocated.
    if bytes > MAX_BYTES {
        return Err(BindError::TooLarge(bytes));
    }
    let data = chosen.into_iter().map(|(decl, init)| {
        init.map(|init| init.make_data(decl)).transpose().map_err(|source| bind_error(decl, source))
    });
    data.collect()
}

fn bind_error(decl: &BufferDecl, source: InitError) -> BindError {
    BindError::Init { name: decl.name.clone(), source }
}
