//! The forms in which findings are printed.

mod json;
mod sarif;
mod text;

use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use pelton_scan::{Finding, Rule};

use crate::scan::args::OutputArgs;
use crate::scan::fingerprint::Fingerprint;
use crate::scan::redact::SecretMode;

pub(super) use self::sarif::FINGERPRINT_NAME;

/// What is printed about findings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OutputFormat {
    /// A line per finding, for people.
    Text,
    /// A JSON object per finding.
    Json,
    /// A report in the format SARIF.
    Sarif,
    /// The number of findings per file.
    Count,
    /// The paths of files with findings.
    Paths,
}

impl OutputFormat {
    /// Returns the format that the options ask for.
    pub(super) fn from_args(args: &OutputArgs) -> OutputFormat {
        match args {
            OutputArgs { json: true, .. } => OutputFormat::Json,
            OutputArgs { sarif: true, .. } => OutputFormat::Sarif,
            OutputArgs { count: true, .. } => OutputFormat::Count,
            OutputArgs { files_with_matches: true, .. } => OutputFormat::Paths,
            _ => OutputFormat::Text,
        }
    }
}

/// A finding with what is needed to print it.
#[derive(Clone, Copy)]
pub(super) struct FindingView<'f> {
    /// The path of the input, as it is shown to users.
    pub path: &'f Path,
    /// The rule, and its index among all rules.
    pub rule: (u32, &'f Rule),
    /// The finding.
    pub finding: &'f Finding,
    /// The fingerprint, by which later scans recognise the finding.
    pub fingerprint: Fingerprint,
}

/// Turns findings into bytes for standard output. Several threads may share it.
pub(super) struct FindingFormatter {
    /// What is printed.
    pub format: OutputFormat,
    /// Whether secrets are printed in full.
    pub secrets: SecretMode,
    /// Whether the text has colour.
    pub color: bool,
}

impl FindingFormatter {
    /// Returns what stands before all findings.
    pub(super) fn header(&self, rules: &[Rule]) -> Vec<u8> {
        if self.format == OutputFormat::Sarif { sarif::header(rules) } else { Vec::new() }
    }

    /// Appends a finding.
    pub(super) fn push_finding(&self, out: &mut Vec<u8>, view: &FindingView<'_>) {
        match self.format {
            OutputFormat::Text => text::push_line(out, view, self.secrets, self.color),
            OutputFormat::Json => json::push_object(out, view, self.secrets),
            OutputFormat::Sarif => sarif::push_result(out, view, self.secrets),
            OutputFormat::Count | OutputFormat::Paths => {}
        }
    }

    /// Appends what is said about an input at its end.
    pub(super) fn push_input_end(&self, out: &mut Vec<u8>, path: &Path, found: u64) {
        if found == 0 {
            return;
        }
        match self.format {
            OutputFormat::Count => {
                text::push_path(out, path, self.color);
                out.extend_from_slice(format!(":{found}\n").as_bytes());
            }
            OutputFormat::Paths => {
                text::push_path(out, path, self.color);
                out.push(b'\n');
            }
            OutputFormat::Text | OutputFormat::Json | OutputFormat::Sarif => {}
        }
    }

    /// Removes what stands between findings from the beginning of the first of them.
    pub(super) fn trim_first<'o>(&self, out: &'o [u8]) -> &'o [u8] {
        if self.format == OutputFormat::Sarif { out.strip_prefix(b",").unwrap_or(out) } else { out }
    }

    /// Returns what stands behind all findings. `complete` is false if something could not be scanned.
    pub(super) fn footer(&self, complete: bool) -> Vec<u8> {
        if self.format == OutputFormat::Sarif { sarif::footer(complete) } else { Vec::new() }
    }
}

/// Returns the text of a path for JSON, and its bytes in Base64 if the path is not UTF-8.
fn path_text(path: &Path) -> (String, Option<String>) {
    lossy_text(path.as_os_str().as_encoded_bytes())
}

/// Returns bytes as text, and in Base64 if they are not UTF-8.
fn lossy_text(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.into(), None),
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Some(BASE64_STANDARD.encode(bytes))),
    }
}

/// What is said about a finding of a rule that has no expression.
fn path_rule_text(rule: &Rule) -> &str {
    if rule.description.is_empty() { "the path matches" } else { &rule.description }
}

/// A finding whose match is a whole line.
#[cfg(test)]
pub(super) fn sample_finding(text: &[u8]) -> Finding {
    Finding {
        found: pelton_scan::finding::Match { rule: 0, start: 10, end: 10 + text.len() as u64 },
        line: 3,
        column: 1,
        end_line: 3 + text.iter().filter(|byte| **byte == b'\n').count() as u64,
        text: text.into(),
        secret: 0..text.len(),
        entropy: 3.0,
        context: text.into(),
        context_start: 0,
    }
}

/// A rule with an expression.
#[cfg(test)]
pub(super) fn sample_rule(id: &str) -> Rule {
    Rule {
        id: id.into(),
        description: "A sample".into(),
        expression: Some(pelton_scan::Expression::parse("x").expect("it is an expression")),
        tags: vec!["sample".into()],
        ..Rule::default()
    }
}
