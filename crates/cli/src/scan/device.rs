//! Makes the scanner for the device that was asked for.

use std::sync::Arc;

use pelton_scan::catalog::CatalogCache;
use pelton_scan::session::SessionEngine;
use pelton_scan::{RuleSet, Scanner};

use crate::error::CliError;

/// Makes a scanner that searches for candidates on a device.
///
/// `cpu` is the native loop over the tables, which on CPUs is faster than the kernel that other devices run. `auto` is a
/// GPU if there is one, and otherwise the native loop. Any other name is that of a device for the kernel, so that
/// `cpu:2` runs the kernel on two threads.
pub(super) fn open_scanner(rules: RuleSet, device: &str) -> Result<Scanner, CliError> {
    let cache = CatalogCache::from_environment();
    let scanner = Scanner::with_cache(rules, cache.as_ref())
        .map_err(|error| CliError::Wrong(format!("cannot prepare the rules: {error}")))?;
    match device {
        "cpu" => Ok(scanner),
        "auto" => match SessionEngine::open("cuda", Arc::clone(scanner.catalog())) {
            Ok(engine) => Ok(scanner.with_engine(Box::new(engine))),
            Err(_) => Ok(scanner),
        },
        name => {
            let engine = SessionEngine::open(name, Arc::clone(scanner.catalog()))
                .map_err(|error| CliError::Wrong(format!("cannot scan on {name}: {error}")))?;
            Ok(scanner.with_engine(Box::new(engine)))
        }
    }
}
