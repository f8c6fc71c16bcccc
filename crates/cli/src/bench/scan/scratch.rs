//! A folder with the text as one file and as a tree of files, which is removed afterwards.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use super::text::BenchText;
use crate::error::CliError;

/// The number of files in one folder of the tree.
const FILES_PER_FOLDER: usize = 100;

/// The text on disk, or rather in the page cache.
pub(super) struct ScratchText {
    folder: PathBuf,
    large_file: PathBuf,
    tree_files: Vec<PathBuf>,
}

impl ScratchText {
    /// Writes the text into a new folder among the system's temporary files.
    pub(super) fn write(text: &BenchText) -> Result<ScratchText, CliError> {
        let folder = env::temp_dir().join(format!("pelton-bench-scan-{}", process::id()));
        let large_file = folder.join("all.txt");
        // The value exists before anything is written, so that a failure leaves nothing behind.
        let mut scratch = ScratchText { large_file, tree_files: Vec::new(), folder };
        make_folder(&scratch.folder)?;
        write_file(&scratch.large_file, &text.bytes)?;
        for (number, file) in text.files.iter().enumerate() {
            let folder = scratch.tree().join((number / FILES_PER_FOLDER).to_string());
            if number % FILES_PER_FOLDER == 0 {
                make_folder(&folder)?;
            }
            let path = folder.join(&file.name);
            write_file(&path, text.file(number))?;
            scratch.tree_files.push(path);
        }
        Ok(scratch)
    }

    /// Writes another file into the folder, and returns its path.
    pub(super) fn add_file(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, CliError> {
        let path = self.folder.join(name);
        write_file(&path, bytes)?;
        Ok(path)
    }

    /// The file that holds all files.
    pub(super) fn large_file(&self) -> &Path {
        &self.large_file
    }

    /// The folder of the tree.
    pub(super) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// The files of the tree, in the order of the text.
    pub(super) fn tree_files(&self) -> &[PathBuf] {
        &self.tree_files
    }

    /// A folder for a cache of catalogs, which does not exist at first.
    pub(super) fn cache_folder(&self) -> PathBuf {
        self.folder.join("cache")
    }
}

impl Drop for ScratchText {
    fn drop(&mut self) {
        // What cannot be removed is left to the system, which cleans this folder up.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn make_folder(path: &Path) -> Result<(), CliError> {
    fs::create_dir_all(path).map_err(|source| CliError::Write { path: path.into(), source })
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    fs::write(path, bytes).map_err(|source| CliError::Write { path: path.into(), source })
}
