//! A peer in another process: ripgrep over the tree of files.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use pelton_scan::Scanner;

use super::scratch::ScratchText;
use crate::error::CliError;

/// ripgrep, and a file of patterns for it.
pub(super) struct RipgrepPeer {
    patterns: PathBuf,
}

/// Whether ripgrep can be run.
pub(super) fn is_installed() -> bool {
    let mut command = Command::new("rg");
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl RipgrepPeer {
    /// Writes the patterns.
    pub(super) fn new(scanner: &Scanner, scratch: &ScratchText) -> Result<RipgrepPeer, CliError> {
        let expressions = scanner.rules().rules.iter().filter_map(|rule| rule.expression.as_ref());
        let lines: Vec<&str> = expressions
            .filter(|expression| !expression.unicode())
            .map(|expression| expression.text())
            .collect();
        Ok(RipgrepPeer { patterns: scratch.add_file("patterns.txt", (lines.join("\n") + "\n").as_bytes())? })
    }

    /// Searches files on one thread. Returns the seconds, and the files in which something was found.
    pub(super) fn scan(&self, files: &[PathBuf]) -> Result<(f64, BTreeSet<PathBuf>), CliError> {
        let mut command = Command::new("rg");
        command.args(["--no-config", "-uuu", "--text", "--multiline", "--no-unicode", "--threads", "1"]);
        command.args([
            "--regex-size-limit",
            "2G",
            "--dfa-size-limit",
            "1G",
            "--files-with-matches",
            "--file",
        ]);
        let start = Instant::now();
        let output = command.arg(&self.patterns).args(files).stdin(Stdio::null()).output();
        let seconds = start.elapsed().as_secs_f64();
        let output = output.map_err(|error| CliError::Wrong(format!("ripgrep cannot be run: {error}")))?;
        // 1 says that nothing was found.
        if !matches!(output.status.code(), Some(0 | 1)) {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(CliError::Wrong(format!(
                "ripgrep failed: {}",
                why.lines().next().unwrap_or_default()
            )));
        }
        let names = String::from_utf8_lossy(&output.stdout);
        Ok((seconds, names.lines().map(PathBuf::from).collect()))
    }
}
