//! Scans the files that are named on the command line, or a text of its own, with the starter rules.
//!
//! ```console
//! cargo run --release -p pelton-scan --example find-secrets -- FILE…
//! ```

use std::path::Path;
use std::{env, fs};

use pelton_scan::{Scanner, rules};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scanner = Scanner::new(rules::starter())?;
    println!("{} rules, {}", scanner.rules().rules.len(), scanner.engine().describe());
    let files: Vec<_> = env::args_os().skip(1).collect();
    if files.is_empty() {
        // The token is put together here, so that scanners do not find it in this file.
        let text = format!("# settings\ntoken = ghp_{}\n", "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5");
        assert_eq!(report(&scanner, Path::new("settings.ini"), text.as_bytes())?, 1);
    }
    for file in &files {
        report(&scanner, Path::new(file), &fs::read(file)?)?;
    }
    Ok(())
}

/// Prints the findings in a text. Returns their number.
fn report(scanner: &Scanner, path: &Path, text: &[u8]) -> Result<usize, pelton_scan::ScanError> {
    let findings = scanner.scan_bytes(path, text)?;
    for finding in &findings {
        let rule = &scanner.rules().rules[finding.found.rule as usize];
        println!("{}:{}:{}: {}", path.display(), finding.line, finding.column, rule.description);
    }
    Ok(findings.len())
}
