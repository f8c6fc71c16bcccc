//! Makes the scanner for the device that was asked for.

use pelton_filetest::hint::name_hint;
use pelton_scan::{RuleSet, Scanner};

use crate::error::CliError;

/// The names of devices that can scan.
const NAMES: [&str; 2] = ["cpu", "auto"];

/// Makes a scanner that searches for candidates on a device.
pub(super) fn open_scanner(rules: RuleSet, device: &str) -> Result<Scanner, CliError> {
    match device {
        "cpu" | "auto" => {
            Scanner::new(rules).map_err(|error| CliError::Wrong(format!("cannot prepare the rules: {error}")))
        }
        name => Err(CliError::Unknown {
            kind: "device that can scan",
            name: name.into(),
            hint: name_hint(name, &NAMES),
        }),
    }
}
