//! The files of a `Spec`, for programs that read them again when they change.

use std::path::{Path, PathBuf};

use super::read::{SpecSource, read_spec};
use super::{TextError, load_text};
use crate::kernel::spec::Spec;

/// The files that a [`Spec`] is read from: its own, and those of the handlers and libraries that it names.
///
/// [`Spec::from_file`] is enough for a program that reads a `Spec` once. One that [hands a session
/// over](crate::Session::hand_over) when a file was saved has to know which files there are, even while one of them has
/// mistakes.
#[derive(Clone, Debug)]
pub struct SpecFiles {
    /// The file of the `Spec`, and then the others, in the order in which they are named.
    paths: Vec<PathBuf>,
}

impl SpecFiles {
    /// Names the file of a `Spec`. The files that it names are looked up relative to its folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        SpecFiles { paths: vec![path.into()] }
    }

    /// Returns the file of the `Spec`, and then the files that it named when it was last read.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Reads the `Spec`. A handler whose opcode the text leaves open gets the opcode that a handler of the same name has in
    /// `before`, so that operations keep their numbers in masks and graphs when handlers are added and removed.
    ///
    /// # Errors
    ///
    /// [`TextError`] if the file of the `Spec` cannot be read, or if there are mistakes in any of the texts.
    pub fn read(&mut self, before: &Spec) -> Result<Spec, TextError> {
        self.paths.truncate(1);
        let path = self.paths[0].clone();
        let text = load_text(&path).map_err(|source| TextError::Read { path: path.clone(), source })?;
        let source = SpecSource {
            name: &path.display().to_string(),
            text: &text,
            folder: path.parent().unwrap_or(Path::new("")),
            before,
        };
        read_spec(source, &mut self.paths)
    }
}
