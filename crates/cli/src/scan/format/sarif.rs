//! Findings as a report in the format SARIF 2.1.0, which is written as the scan goes.

use std::fmt::Write as _;
use std::path::Path;

use pelton_scan::{Finding, Rule};
use serde_json::{Map, Value, json};

use crate::scan::format::{FindingView, lossy_text, path_rule_text};
use crate::scan::redact::{SecretMode, redacted};

/// The name of our fingerprints in `partialFingerprints`.
pub(in crate::scan) const FINGERPRINT_NAME: &str = "peltonFindingHash/v1";

/// Returns what stands before the results: the tool with its rules.
pub(super) fn header(rules: &[Rule]) -> Vec<u8> {
    let rules: Vec<Value> = rules.iter().map(rule_object).collect();
    let driver = json!({ "name": "pelton", "version": env!("CARGO_PKG_VERSION"), "rules": rules });
    let schema = "https://json.schemastore.org/sarif-2.1.0.json";
    let text = format!(
        "{{\"version\":\"2.1.0\",\"$schema\":\"{schema}\",\"runs\":[{{\"tool\":{{\"driver\":{driver}}},\
         \"columnKind\":\"unicodeCodePoints\",\"results\":["
    );
    text.into_bytes()
}

fn rule_object(rule: &Rule) -> Value {
    let mut object = json!({ "id": rule.id, "defaultConfiguration": { "level": "error" } });
    if !rule.description.is_empty() {
        object["shortDescription"] = json!({ "text": rule.description });
    }
    if !rule.tags.is_empty() {
        object["properties"] = json!({ "tags": rule.tags });
    }
    object
}

/// Appends a result, after a comma.
pub(super) fn push_result(out: &mut Vec<u8>, view: &FindingView<'_>, secrets: SecretMode) {
    let (index, rule) = view.rule;
    let finding = view.finding;
    let shown = if rule.expression.is_none() {
        path_rule_text(rule).to_string()
    } else if secrets == SecretMode::Redacted {
        lossy_text(&redacted(finding)).0
    } else {
        lossy_text(&finding.text).0
    };
    let what = if rule.description.is_empty() { &rule.id } else { rule.description.trim_end_matches('.') };
    let object = json!({
        "ruleId": rule.id,
        "ruleIndex": index,
        "level": "error",
        "message": { "text": format!("{what}: {shown}") },
        "locations": [{
            "physicalLocation": {
                "artifactLocation": { "uri": path_uri(view.path) },
                "region": region_object(finding, shown),
            },
        }],
        "partialFingerprints": { FINGERPRINT_NAME: view.fingerprint.to_string() },
    });
    out.extend_from_slice(format!(",\n{object}").as_bytes());
}

/// Returns what stands behind the results.
pub(super) fn footer(complete: bool) -> Vec<u8> {
    format!("\n],\"invocations\":[{{\"executionSuccessful\":{complete}}}]}}]}}\n").into_bytes()
}

/// Returns the place of a finding. Columns count characters, as editors do, where the beginning of the line is known.
fn region_object(finding: &Finding, snippet: String) -> Value {
    let start_column = character_column(finding);
    let mut region = Map::new();
    region.insert("startLine".into(), finding.line.into());
    region.insert("startColumn".into(), start_column.into());
    region.insert("endLine".into(), finding.end_line.into());
    region.insert("endColumn".into(), end_column(finding, start_column).into());
    region.insert("byteOffset".into(), finding.found.start.into());
    region.insert("byteLength".into(), (finding.found.end - finding.found.start).into());
    region.insert("snippet".into(), json!({ "text": snippet }));
    Value::Object(region)
}

/// Returns the column at which a match begins, in characters.
fn character_column(finding: &Finding) -> u64 {
    let bytes = finding.column.saturating_sub(1);
    let start = finding.context_start.min(finding.context.len());
    let known = usize::try_from(bytes).ok().and_then(|bytes| start.checked_sub(bytes));
    known.map_or(finding.column, |line| character_count(&finding.context[line..start]) + 1)
}

/// Returns the column after the last character of a match, in the line in which the match ends.
fn end_column(finding: &Finding, start_column: u64) -> u64 {
    let kept = finding.text.len() as u64;
    let rest = finding.found.end - finding.found.start - kept;
    match finding.text.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => character_count(&finding.text[at + 1..]) + 1 + rest,
        None => start_column + character_count(&finding.text) + rest,
    }
}

fn character_count(bytes: &[u8]) -> u64 {
    String::from_utf8_lossy(bytes).chars().count() as u64
}

/// Returns a path as a URI reference. It is relative if the path is.
fn path_uri(path: &Path) -> String {
    let mut uri = String::new();
    if path.is_absolute() {
        uri.push_str("file://");
    }
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(*byte));
            }
            byte => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::fingerprint::Fingerprint;
    use crate::scan::format::{sample_finding, sample_rule};

    fn report(findings: &[Finding]) -> Value {
        let rules = [sample_rule("one"), sample_rule("two")];
        let path = Path::new("a b/ü.rs");
        let mut out = Vec::new();
        for finding in findings {
            let fingerprint = Fingerprint::of("two", path, finding);
            let view = FindingView { path, rule: (1, &rules[1]), finding, fingerprint };
            push_result(&mut out, &view, SecretMode::Shown);
        }
        let out = out.strip_prefix(b",").unwrap_or(&out);
        let whole = [header(&rules), out.to_vec(), footer(true)].concat();
        serde_json::from_slice(&whole).expect("it is JSON")
    }

    #[test]
    fn a_report_is_json_whatever_is_in_it() {
        for count in 0..3 {
            let report = report(&vec![sample_finding(b"\"x\xff"); count]);
            assert_eq!(report["version"], "2.1.0");
            assert_eq!(report["runs"][0]["results"].as_array().map(Vec::len), Some(count));
            let driver = &report["runs"][0]["tool"]["driver"];
            assert_eq!((&driver["name"], &driver["rules"][1]["id"]), (&json!("pelton"), &json!("two")));
        }
    }

    #[test]
    fn a_result_has_rule_place_and_fingerprint() {
        let finding =
            Finding { context: "ü = abc".into(), context_start: 5, column: 6, ..sample_finding(b"abc") };
        let result = &report(&[finding])["runs"][0]["results"][0];
        assert_eq!((&result["ruleId"], &result["ruleIndex"]), (&json!("two"), &json!(1)));
        assert_eq!(result["message"]["text"], "A sample: abc");
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "a%20b/%C3%BC.rs");
        let region = &place["region"];
        let columns = (region["startColumn"].as_u64(), region["endColumn"].as_u64());
        assert_eq!(columns, (Some(5), Some(8)), "{region}");
        assert!(result["partialFingerprints"][FINGERPRINT_NAME].is_string());
    }

    #[test]
    fn a_match_of_several_lines_ends_in_its_last() {
        let report = report(&[sample_finding(b"ab\ncd\nefg")]);
        let region = &report["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"];
        assert_eq!((region["endLine"].as_u64(), region["endColumn"].as_u64()), (Some(5), Some(4)));
    }

    #[test]
    fn an_absolute_path_is_a_file() {
        assert_eq!(path_uri(Path::new("/a#b")), "file:///a%23b");
    }
}
