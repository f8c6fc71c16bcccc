//! The validator, which turns a module into a [`Valid`] one or reports everything that is wrong with it.
//!
//! Later layers accept only [`Valid`] modules, and only the validator makes them, so what is checked here is checked
//! nowhere else. All rules are in one table, [`Rule`].
//!
//! **Two rounds.** The first walks needs, buffers and functions in the order of the text and holds each instruction
//! to the rules of structure, types and memory. The second, [`uniform`], asks which lanes meet where; it runs only
//! on modules that passed the first, since levels of a broken function mean nothing.
//!
//! **Nothing is trusted.** A [`FunctionWriter`](crate::write::FunctionWriter) makes modules with any handles in any
//! place, and deep ones. The walk looks at no handle before it knows that there is such a thing, and at no region
//! below the limit of depth.
//!
//! **One mistake, one error.** An instruction gives at most one error. What it would have computed is *unsure* from
//! there on, and nothing that depends on an unsure type is held against it. Where two jumps give a loop the same
//! wrong types, the first is told.
//!
//! **Linear.** Each instruction is looked at once a round, so a module is checked in time and memory linear in its
//! size.

mod build;
mod declare;
mod ends;
mod error;
mod flow;
mod memory;
mod report;
mod rule;
mod types;
pub mod uniform;
mod walk;
mod why;

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::arena::{Func, Handle};
use crate::module::Module;
use crate::text::{self, Diagnostic, PartialModule, UnsureInsts};

pub use error::{ErrorNote, ErrorSite, Invalid, ValidationError};
pub use rule::{Reach, Rule};
pub use uniform::{UniformLevel, Uniformity};

/// A module that the validator has accepted. Later layers accept no other modules. Cloning is cheap, because clones
/// share the module.
#[derive(Clone, Debug)]
pub struct Valid(Arc<CheckedModule>);

#[derive(Clone, Debug)]
struct CheckedModule {
    module: Module,
    uniformity: Vec<Uniformity>,
}

impl Valid {
    /// Returns which values and which control flow of a function are the same across lanes. If the function is called
    /// from several places, the answer holds for all of them.
    pub fn uniformity(&self, func: Func) -> &Uniformity {
        &self.0.uniformity[func.index()]
    }

    /// Returns the module, which can be changed and validated again.
    pub fn into_module(self) -> Module {
        Arc::unwrap_or_clone(self.0).module
    }
}

impl Deref for Valid {
    type Target = Module;
    fn deref(&self) -> &Module {
        &self.0.module
    }
}

// Only the modules are compared, because everything else follows from them.
impl PartialEq for Valid {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.module == other.0.module
    }
}

impl Eq for Valid {}

impl Hash for Valid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.module.hash(state);
    }
}

/// Checks a module against every [`Rule`].
pub fn validate(module: Module) -> Result<Valid, Invalid> {
    let mut errors = error::Errors::default();
    if declare::check_module(&module, &mut errors) {
        let (mut names, none) = (HashSet::new(), UnsureInsts::new());
        for func in module.functions.handles() {
            declare::check_function_head(&module, func, &mut names, &mut errors);
            walk::check_function(&module, func, &none, &mut errors);
        }
    }
    let uniformity = if errors.is_empty() { uniform::check(&module, &mut errors) } else { Vec::new() };
    if errors.is_empty() {
        Ok(Valid(Arc::new(CheckedModule { module, uniformity })))
    } else {
        Err(errors.into_invalid(module))
    }
}

/// Parses a module and checks it against every [`Rule`].
///
/// A mistake in the text does not hide mistakes elsewhere: everything that could be parsed is checked, except what
/// depends on something that could not. The rules about what lanes do together are checked only if there is no other
/// error.
///
/// ```
/// let source = "fn f() {\n  %a = add 1, 2.0\n}\n\nfn g() {\n  %b = ad 1, 2\n}\n";
/// let errors = pelton_ir::valid::validate_text(source).unwrap_err();
/// assert_eq!(errors.iter().map(|error| error.code).collect::<Vec<_>>(), ["operand-type", "unknown"]);
/// ```
pub fn validate_text(source: &str) -> Result<Valid, Vec<Diagnostic>> {
    let PartialModule { module, errors: mut list, doubts } = text::partial(source);
    if list.is_empty() {
        return validate(module).map_err(|invalid| invalid.diagnostics());
    }
    let mut errors = error::Errors::default();
    if declare::check_module(&module, &mut errors) {
        let mut names = HashSet::new();
        for (func, doubts) in module.functions.handles().zip(&doubts) {
            let Some(doubts) = doubts else { continue };
            declare::check_function_head(&module, func, &mut names, &mut errors);
            walk::check_function(&module, func, doubts, &mut errors);
        }
    }
    list.extend(errors.into_invalid(module).diagnostics());
    list.sort_by_key(|error| error.place.start);
    Err(list)
}

#[cfg(test)]
mod tests;
