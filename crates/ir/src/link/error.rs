//! The errors of linking, and the error of loading a module that has not been linked.

use std::fmt;

use crate::module::{BufferDecl, Function};
use crate::types::Type;
use crate::valid::Invalid;

/// The name of a function with the types of its parameters and results. It prints as `spawn(u32, u32) -> u32`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Signature {
    /// The name of the function.
    pub name: String,
    /// The types of the parameters.
    pub params: Vec<Type>,
    /// The types of the results.
    pub results: Vec<Type>,
}

impl Signature {
    /// Returns the signature of a function.
    pub fn from_function(function: &Function) -> Self {
        let (name, results) = (function.name.clone(), function.results.clone());
        Signature { name, params: function.param_types(), results }
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |types: &[Type]| types.iter().map(|ty| ty.word()).collect::<Vec<_>>().join(", ");
        write!(f, "{}({})", self.name, words(&self.params))?;
        match &self.results[..] {
            [] => Ok(()),
            [one] => write!(f, " -> {one}"),
            several => write!(f, " -> ({})", words(several)),
        }
    }
}

/// A module has imports that are not bound to anything, so no device loads it. [`link`](super::link) binds them.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the module has unbound imports: {}", list(imports))]
pub struct UnboundImports {
    /// The unbound imports, in the order of the module. There is at least one.
    pub imports: Vec<Signature>,
}

/// An import for which no library has a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MissingImport {
    /// The signature that the module asks for.
    pub import: Signature,
    /// The name of a library's function that is spelled so similarly that it may have been meant.
    pub nearest: Option<String>,
}

impl fmt::Display for MissingImport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.import)?;
        match &self.nearest {
            Some(nearest) => write!(f, " (did you mean `{nearest}`?)"),
            None => Ok(()),
        }
    }
}

/// Why imports cannot be bound.
#[allow(missing_docs)]
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// No library has a function of that name.
    #[error("no library has a function for the import{} {}", plural(.0.len()), list(.0))]
    Unbound(Vec<MissingImport>),
    /// The function of that name takes or gives something else, or two imports of that name differ.
    #[error("the import `{import}` does not fit `{found}`")]
    Signature { import: Box<Signature>, found: Box<Signature> },
    /// Lanes must meet in the function, and the import may be called by some of them alone.
    #[error(
        "lanes of a group meet in `{import}`, so it can be bound only to `import uniform fn {}`",
        import.name
    )]
    Uniform { import: Signature },
    /// Several libraries have a function of that name.
    #[error("several libraries have a function `{name}`")]
    Ambiguous { name: String },
    /// A library imports a name that is a function of the module: libraries do not call back.
    #[error(
        "a library imports `{import}`, which only the module itself has: libraries import from one another"
    )]
    CallsBack { import: Signature },
    /// A library function uses a buffer that the module does not declare in the same words.
    #[error("`{function}` uses `{}`, and {}", declaration(wanted), other(found.as_deref()))]
    Buffer { function: String, wanted: Box<BufferDecl>, found: Option<Box<BufferDecl>> },
    /// Functions would call themselves.
    #[error("linking would make `{}` call itself: {}", chain[0], chain.join(" calls "))]
    Recursion { chain: Vec<String> },
    /// The linked module breaks a rule: it is too large, or a function needs operands that are the same in all lanes.
    #[error("linking gives an {0}")]
    Invalid(#[source] Box<Invalid>),
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// A buffer's declaration as the text has it.
fn declaration(decl: &BufferDecl) -> String {
    let BufferDecl { name, elem, len, space, access, .. } = decl;
    format!("buffer {name}: [{elem}; {len}] {space} {access}")
}

fn other(found: Option<&BufferDecl>) -> String {
    match found {
        Some(found) => format!("the module has `{}` instead", declaration(found)),
        None => "the module has no buffer of that name".into(),
    }
}
