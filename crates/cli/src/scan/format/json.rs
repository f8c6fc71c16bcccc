//! Findings as JSON objects, one per line.

use serde::Serialize;

use crate::scan::format::{FindingView, lossy_text, path_text};
use crate::scan::redact::{SecretMode, redacted, secret_bytes};

/// A finding as `--json` prints it.
#[derive(Serialize)]
struct FindingObject<'f> {
    path: &'f str,
    /// The bytes of a path that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    line: u64,
    column: u64,
    end_line: u64,
    start: u64,
    end: u64,
    rule: &'f str,
    #[serde(rename = "match")]
    matched: String,
    /// The bytes of a match that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    match_base64: Option<String>,
    /// The secret, where it is not the whole match.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    redacted: bool,
    entropy: f64,
    fingerprint: String,
}

/// Appends the object of a finding, with a line break.
pub(super) fn push_object(out: &mut Vec<u8>, view: &FindingView<'_>, secrets: SecretMode) {
    let finding = view.finding;
    let (path, path_base64) = path_text(view.path);
    let redact = secrets == SecretMode::Redacted && view.rule.1.expression.is_some();
    let (matched, match_base64) =
        if redact { lossy_text(&redacted(finding)) } else { lossy_text(&finding.text) };
    let part = !redact && finding.secret != (0..finding.text.len());
    let object = FindingObject {
        path: &path,
        path_base64,
        line: finding.line,
        column: finding.column,
        end_line: finding.end_line,
        start: finding.found.start,
        end: finding.found.end,
        rule: &view.rule.1.id,
        matched,
        match_base64,
        secret: part.then(|| String::from_utf8_lossy(secret_bytes(finding)).into_owned()),
        redacted: redact,
        entropy: (finding.entropy * 1000.0).round() / 1000.0,
        fingerprint: view.fingerprint.to_string(),
    };
    serde_json::to_writer(&mut *out, &object).expect("strings and numbers can be written to memory");
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::scan::fingerprint::Fingerprint;
    use crate::scan::format::{sample_finding, sample_rule};
    use pelton_scan::Finding;

    fn object(finding: &Finding, secrets: SecretMode) -> Value {
        let path = Path::new("src/a b.rs");
        let rule = sample_rule("key");
        let fingerprint = Fingerprint::of("key", path, finding);
        let mut out = Vec::new();
        push_object(&mut out, &FindingView { path, rule: (0, &rule), finding, fingerprint }, secrets);
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
        serde_json::from_slice(&out).expect("it is JSON")
    }

    #[test]
    fn an_object_has_the_fields() {
        let finding = sample_finding(b"abcd\nefgh");
        let print = Fingerprint::of("key", Path::new("src/a b.rs"), &finding).to_string();
        assert_eq!(
            object(&finding, SecretMode::Shown),
            json!({
                "path": "src/a b.rs", "line": 3, "column": 1, "end_line": 4, "start": 10, "end": 19, "rule": "key",
                "match": "abcd\nefgh", "redacted": false, "entropy": 3.0, "fingerprint": print,
            })
        );
        let hidden = object(&finding, SecretMode::Redacted);
        assert_eq!((&hidden["match"], &hidden["redacted"]), (&json!("ab…(9 bytes)"), &json!(true)));
        assert_eq!(hidden["fingerprint"], print);
    }

    #[test]
    fn bytes_that_are_not_text_are_kept_too() {
        let found = object(&sample_finding(b"a\xff"), SecretMode::Shown);
        assert_eq!((&found["match"], &found["match_base64"]), (&json!("a\u{fffd}"), &json!("Yf8=")));
        let found = object(&Finding { secret: 2..4, ..sample_finding(b"x=ab") }, SecretMode::Shown);
        assert_eq!((&found["match"], &found["secret"]), (&json!("x=ab"), &json!("ab")));
    }
}
