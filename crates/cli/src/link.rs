//! `--link`: binding the imports of a module to functions of libraries.

use std::path::PathBuf;

use pelton_ir::link::{LinkError, MissingImport, check_bound, link};
use pelton_ir::text::{ColorMode, Diagnostic};
use pelton_ir::valid::Valid;

use crate::error::CliError;
use crate::source::ModuleSource;
use crate::term::Term;

/// The libraries of a command line.
#[derive(clap::Args)]
pub(crate) struct Libraries {
    /// Bind imports to functions of this module; repeat the option for several libraries
    #[arg(long = "link", value_name = "LIBRARY")]
    paths: Vec<PathBuf>,
}

impl Libraries {
    /// Whether none is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Reads a module and binds all of its imports.
    pub(crate) fn link(&self, source: &ModuleSource, term: &Term) -> Result<Valid, CliError> {
        let module = source.module(term)?;
        let libraries = self.paths.iter().map(|path| ModuleSource::read(path)?.module(term));
        let libraries = libraries.collect::<Result<Vec<Valid>, CliError>>()?;
        if check_bound(&module).is_ok() {
            return Ok(module);
        }
        link(&module, &libraries).map_err(|error| match error {
            LinkError::Unbound(list) => {
                let shown: Vec<Diagnostic> =
                    list.iter().map(|unbound| self.diagnostic(&module, unbound)).collect();
                CliError::Report(source.render(&shown, term))
            }
            LinkError::Invalid(invalid) => {
                CliError::Report(invalid.report("linked module", None, ColorMode::from_flag(term.err_color)))
            }
            error => CliError::Wrong(error.to_string()),
        })
    }

    /// Shows an import that no library has a function for.
    fn diagnostic(&self, module: &Valid, unbound: &MissingImport) -> Diagnostic {
        let declared = module.function(&unbound.import.name);
        let place = declared.map(|func| module.functions[func].debug.head).unwrap_or_default();
        let message = format!("no library has a function for the import `{}`", unbound.import);
        let mut shown = Diagnostic::new("unbound", place, message);
        shown = match declared {
            Some(_) => shown.label("not bound"),
            None => shown.note("a library that was given imports it"),
        };
        match &unbound.nearest {
            Some(nearest) => shown.note(format!("did you mean `{nearest}`?")),
            None if self.paths.is_empty() => shown.note("`--link LIBRARY.pel` gives a library"),
            None => shown,
        }
    }
}
