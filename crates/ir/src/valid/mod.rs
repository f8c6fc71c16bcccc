//! The validator (placeholder until the real one lands).

use crate::module::Module;

/// A module that the validator has accepted: the only thing that later layers take.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Valid {
    module: Module,
}

impl std::ops::Deref for Valid {
    type Target = Module;
    fn deref(&self) -> &Module {
        &self.module
    }
}

/// Why a module was refused.
#[derive(Clone, Debug)]
pub struct Invalid;

/// Checks a module.
pub fn validate(module: Module) -> Result<Valid, Invalid> {
    Ok(Valid { module })
}
