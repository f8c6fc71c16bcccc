//! Makes the scanner for the device that `--device` names.

use std::sync::Arc;

use pelton_scan::catalog::CatalogCache;
use pelton_scan::session::{SessionConfig, SessionEngine};
use pelton_scan::{RuleSet, ScanError, Scanner};

use crate::error::CliError;

/// A scanner, and what is to be said about its device.
pub(super) struct OpenedScanner {
    /// The scanner.
    pub scanner: Scanner,
    /// Why `auto` has chosen no GPU; `None` if it has, or if another device was named.
    pub no_gpu: Option<String>,
}

/// Makes a scanner that searches for candidates on a device.
///
/// `cpu` is the native loop over the tables, which on CPUs is faster than the kernel that other devices run. `auto` is a
/// GPU if there is one, and otherwise the native loop. Any other name is that of a device that runs the kernel: `cpu:2`,
/// for example, runs the kernel on two CPU threads.
pub(super) fn open_scanner(rules: RuleSet, device: &str, threads: usize) -> Result<OpenedScanner, CliError> {
    let cache = CatalogCache::from_environment();
    let scanner = Scanner::with_cache(rules, cache.as_ref())
        .map_err(|error| CliError::Wrong(format!("cannot prepare the rules: {error}")))?;
    let engine = match device {
        "cpu" => return Ok(OpenedScanner { scanner, no_gpu: None }),
        "auto" => open_engine("cuda", &scanner, threads),
        name => open_engine(name, &scanner, threads),
    };
    match engine {
        Ok(engine) => Ok(OpenedScanner { scanner: scanner.with_engine(Box::new(engine)), no_gpu: None }),
        Err(error) if device == "auto" => Ok(OpenedScanner { scanner, no_gpu: Some(error.to_string()) }),
        Err(error) => Err(CliError::Wrong(format!("cannot scan on {device}: {error}"))),
    }
}

/// Opens a device and launches a session on it that serves all threads at once.
fn open_engine(name: &str, scanner: &Scanner, threads: usize) -> Result<SessionEngine, ScanError> {
    let device = pelton_device::open(name).map_err(|error| ScanError::Engine(error.to_string()))?;
    let config = SessionConfig { callers: threads.clamp(1, CALLERS_MAX) as u32, ..SessionConfig::default() };
    SessionEngine::launch(device, Arc::clone(scanner.catalog()), config)
}

/// The largest number of threads that a session serves at once. Each takes memory of the device.
const CALLERS_MAX: usize = 16;
