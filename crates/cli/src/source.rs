//! The texts that commands work on.

use std::io;
use std::path::{Path, PathBuf};

use pelton_filetest::file;
use pelton_ir::text::{self, Diagnostic};
use pelton_ir::valid::{Valid, validate_text};

use crate::error::CliError;

/// A text with the name that diagrams give it.
pub struct ModuleSource {
    /// Its file's path as given, or `<stdin>`.
    pub name: String,
    /// The text.
    pub text: String,
}

/// Whether a path means standard input.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl ModuleSource {
    /// Reads a file, or standard input if the path is `-`.
    pub fn read(path: &Path) -> Result<ModuleSource, CliError> {
        if is_stdin(path) {
            let name = PathBuf::from("<stdin>");
            let text = file::read_text_from(io::stdin().lock(), &name)?;
            return Ok(ModuleSource { name: name.display().to_string(), text });
        }
        Ok(ModuleSource { name: path.display().to_string(), text: file::read_text(path)? })
    }

    /// The module, if there is nothing wrong with it.
    pub fn validate(&self) -> Result<Valid, Vec<Diagnostic>> {
        validate_text(&self.text)
    }

    /// The module; what is wrong with it is an error that shows it.
    pub fn module(&self, color: bool) -> Result<Valid, CliError> {
        self.validate().map_err(|list| CliError::Report(self.render(&list, color)))
    }

    /// Diagrams of what is wrong.
    pub fn render(&self, list: &[Diagnostic], color: bool) -> String {
        text::render(&self.name, &self.text, list, color)
    }
}
