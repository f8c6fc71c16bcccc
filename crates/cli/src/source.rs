//! Reads the texts that commands work on.

use std::io;
use std::path::{Path, PathBuf};

use pelton_filetest::file;
use pelton_ir::text::{self, ColorMode, Diagnostic};
use pelton_ir::valid::{Valid, validate_text};

use crate::error::CliError;
use crate::term::Term;

/// The text of a module, with the name that diagrams use.
pub(crate) struct ModuleSource {
    /// The path of the file as it was given, or `<stdin>`.
    pub name: String,
    /// The text of the module.
    pub text: String,
}

/// Whether a path means standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl ModuleSource {
    /// Reads a file, or standard input if the path is `-`.
    pub(crate) fn read(path: &Path) -> Result<ModuleSource, CliError> {
        if is_stdin(path) {
            let name = PathBuf::from("<stdin>");
            let text = file::read_text_from(io::stdin().lock(), &name)?;
            return Ok(ModuleSource { name: name.display().to_string(), text });
        }
        Ok(ModuleSource { name: path.display().to_string(), text: file::read_text(path)? })
    }

    /// Validates the module, or returns everything that is wrong with it.
    pub(crate) fn validate(&self) -> Result<Valid, Vec<Diagnostic>> {
        validate_text(&self.text)
    }

    /// Validates the module; the error shows what is wrong with it.
    pub(crate) fn module(&self, term: &Term) -> Result<Valid, CliError> {
        self.validate().map_err(|list| CliError::Report(self.render(&list, term)))
    }

    /// Draws diagrams of what is wrong.
    pub(crate) fn render(&self, list: &[Diagnostic], term: &Term) -> String {
        text::render_diagnostics(&self.name, &self.text, list, ColorMode::from_flag(term.err_color))
    }
}
