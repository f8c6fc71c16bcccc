//! Linking, which binds the imports of a module to functions of libraries.
//!
//! A module may call functions that it only declares: `import fn hash(%x: u32) -> u32`. Such a module is valid, prints
//! and parses, but no device loads it. [`link`] binds every import to the function of the same name in one of the given
//! libraries, which are ordinary modules, and returns a module without imports:
//!
//! ```
//! use pelton_ir::link::link;
//! use pelton_ir::valid::validate_text;
//!
//! let module = validate_text(
//!     "import fn square(%x: u32) -> u32
//!      buffer data: [u32; ?] global read_write
//!      kernel squares {
//!        %at = lane
//!        %x = load @data[%at]
//!        %y = call square(%x)
//!        store @data[%at], %y
//!      }",
//! )
//! .unwrap();
//! let library = validate_text("fn square(%x: u32) -> u32 { %y = mul %x, %x return %y }").unwrap();
//! let linked = link(&module, &[library])?;
//! assert_eq!(linked.imports().count(), 0);
//! # Ok::<(), pelton_ir::link::LinkError>(())
//! ```
//!
//! # Rules
//!
//! - **One definition.** Exactly one of the libraries has a function of the import's name, and its parameters and results
//!   have the import's types. Kernels of a library cannot be imported.
//! - **Flow.** An import that is not `uniform` may be called by some lanes of a group alone. So the function that it is
//!   bound to holds nothing that lanes must meet at: no barrier, no subgroup op, and no call of a uniform import.
//! - **Buffers belong to the module.** A library function may use a buffer if the module declares one of the same name in
//!   the same words: element, length, space and access. A library never adds a buffer.
//! - **Libraries may import too**, from one another but not from the module. Functions that end up calling themselves this
//!   way are refused, since the language has no recursion.
//! - **Only what is called is taken**, with the needs of the libraries that it comes from. A function that no import of
//!   the module names keeps its name if that is free, and gets a number after a dot otherwise.

mod bind;
mod error;

pub use error::{LinkError, MissingImport, Signature, UnboundImports};

use crate::module::Module;
use crate::valid::{Valid, validate};

/// Binds every import of a module to a function of a library. A module without imports is returned unchanged.
pub fn link(module: &Valid, libraries: &[Valid]) -> Result<Valid, LinkError> {
    let linked = bind_imports(module, libraries)?;
    match check_bound(&linked) {
        Ok(()) => Ok(linked),
        Err(UnboundImports { imports }) => Err(LinkError::Unbound(bind::with_nearest(imports, libraries))),
    }
}

/// Binds those imports of a module for which a library has a function. All other imports stay, including those of the
/// libraries, so that a caller can define them by other means than a library.
pub fn bind_imports(module: &Valid, libraries: &[Valid]) -> Result<Valid, LinkError> {
    if module.imports().next().is_none() {
        return Ok(module.clone());
    }
    let linked = bind::bind(module, libraries)?;
    validate(linked).map_err(|invalid| LinkError::Invalid(Box::new(invalid)))
}

/// Returns an error that lists the imports of a module if it has any. Everything that runs or emits a module checks
/// this first.
pub fn check_bound(module: &Module) -> Result<(), UnboundImports> {
    let imports: Vec<Signature> =
        module.imports().map(|func| Signature::from_function(&module.functions[func])).collect();
    if imports.is_empty() { Ok(()) } else { Err(UnboundImports { imports }) }
}
