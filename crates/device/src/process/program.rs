//! Which program becomes an executor.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::DeviceError;

/// The name of Pelton's own program.
const PELTON: &str = "pelton";

/// Whether this program has called [`serve_if_asked`](super::serve_if_asked).
static SERVES: AtomicBool = AtomicBool::new(false);

/// Notes that this program can be started as an executor.
pub(super) fn note_that_this_program_serves() {
    SERVES.store(true, Ordering::Relaxed);
}

/// A program that can be started as an executor.
#[derive(Clone, Debug)]
pub(super) struct ExecutorProgram(PathBuf);

impl ExecutorProgram {
    /// Finds the program: the one that was named; or this program itself, if it has called
    /// [`serve_if_asked`](super::serve_if_asked); or `pelton`, beside this program or on the path.
    pub(super) fn find(named: Option<&Path>, device: &str) -> Result<Self, DeviceError> {
        if let Some(named) = named {
            return Ok(ExecutorProgram(named.into()));
        }
        let this = std::env::current_exe().ok();
        if SERVES.load(Ordering::Relaxed) {
            // The file may have been replaced since this program was started. This name stands for what was started.
            let running = PathBuf::from("/proc/self/exe");
            return Ok(ExecutorProgram(if running.exists() { running } else { this.unwrap_or_default() }));
        }
        let beside = this.as_deref().and_then(Path::parent).map(Path::to_path_buf);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = beside.into_iter().chain(std::env::split_paths(&path));
        let found = folders.map(|folder| folder.join(PELTON)).find(|file| file.is_file());
        found.map(ExecutorProgram).ok_or_else(|| DeviceError::Absent {
            name: format!("process:{device}"),
            why: format!(
                "there is no program to be its executor; call `process::serve_if_asked` at the top of `main`, \
                 or install the program `{PELTON}` where the path leads"
            ),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The error of a program that does not become an executor.
    pub(super) fn cannot_start(&self, why: &str) -> DeviceError {
        let path = self.0.display();
        DeviceError::Executor(format!("the program {path} does not serve as an executor: {why}"))
    }
}
