//! Baselines: reports of earlier scans, whose findings are not reported again.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::error::CliError;
use crate::scan::escape::shown_path;
use crate::scan::fingerprint::Fingerprint;
use crate::scan::format::FINGERPRINT_NAME;
use crate::scan::ignore_file::FindingPlace;

/// What gitleaks writes instead of a secret that it redacts.
const GITLEAKS_REDACTED: &str = "REDACTED";

/// The findings of earlier reports.
#[derive(Default)]
pub(super) struct Baseline {
    /// How many earlier reports of each finding no finding of this scan has been matched with yet.
    known: Mutex<HashMap<Fingerprint, u64>>,
    /// The places of findings whose secret is redacted in the report, so that there is no fingerprint.
    places: HashSet<FindingPlace>,
}

impl Baseline {
    /// Reads a report and adds its findings: the output of `--json` or `--sarif`, or a JSON report of gitleaks.
    pub(super) fn read(&mut self, path: &Path) -> Result<(), CliError> {
        let fail =
            |why: String| CliError::Wrong(format!("cannot use the baseline {}: {why}", shown_path(path)));
        let text = fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        let mut report = Baseline::default();
        report.add(text.trim_start_matches('\u{feff}')).map_err(fail)?;
        self.merge(report);
        Ok(())
    }

    /// Adds what another baseline knows. Two reports may be about the same findings, so the larger number counts.
    fn merge(&mut self, other: Baseline) {
        let known = self.known.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (print, count) in other.known.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let own = known.entry(print).or_default();
            *own = count.max(*own);
        }
        self.places.extend(other.places);
    }

    /// Adds the findings of a report.
    fn add(&mut self, text: &str) -> Result<(), String> {
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Array(findings)) => findings.iter().try_for_each(|finding| self.add_gitleaks(finding)),
            Ok(Value::Object(report)) if report.contains_key("runs") => self.add_sarif(&report["runs"]),
            _ => {
                let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
                for (number, line) in lines {
                    self.add_line(line).map_err(|why| format!("line {}: {why}", number + 1))?;
                }
                Ok(())
            }
        }
    }

    /// Adds a line of `--json`.
    fn add_line(&mut self, line: &str) -> Result<(), String> {
        let finding: Value = serde_json::from_str(line).map_err(|_| "this is not JSON")?;
        let print = finding["fingerprint"].as_str().and_then(Fingerprint::parse);
        self.add_known(
            print.ok_or("it has no valid `fingerprint`, so it is not an output of `pelton scan --json`")?,
        );
        Ok(())
    }

    /// Adds the results of all runs of a SARIF report.
    fn add_sarif(&mut self, runs: &Value) -> Result<(), String> {
        let results = runs.as_array().into_iter().flatten().filter_map(|run| run["results"].as_array());
        for result in results.flatten() {
            let print = result["partialFingerprints"][FINGERPRINT_NAME].as_str().and_then(Fingerprint::parse);
            self.add_known(
                print
                    .ok_or("a result has no fingerprint, so it is not an output of `pelton scan --sarif`")?,
            );
        }
        Ok(())
    }

    /// Adds a finding of a JSON report of gitleaks.
    fn add_gitleaks(&mut self, finding: &Value) -> Result<(), String> {
        let missing = |name: &str| format!("a finding has no `{name}`, so it is not a report of gitleaks");
        let field = |name: &str| finding[name].as_str().ok_or_else(|| missing(name));
        let (rule, path, secret) = (field("RuleID")?, field("File")?, field("Secret")?);
        if secret.contains(GITLEAKS_REDACTED) {
            let line = finding["StartLine"].as_u64().ok_or_else(|| missing("StartLine"))?;
            self.places.insert(FindingPlace { path: PathBuf::from(path), rule: rule.into(), line });
        } else {
            self.add_known(Fingerprint::from_parts(rule, Path::new(path), secret.as_bytes()));
        }
        Ok(())
    }

    fn add_known(&mut self, print: Fingerprint) {
        *self.known.get_mut().unwrap_or_else(PoisonError::into_inner).entry(print).or_default() += 1;
    }

    /// Returns whether a finding was reported before. Each earlier report accounts for one finding of this scan.
    pub(super) fn takes(&self, print: Fingerprint, place: &FindingPlace) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get_mut(&print).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                true
            }
            None => self.places.contains(place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u64) -> FindingPlace {
        FindingPlace { path: "a.rs".into(), rule: "key".into(), line }
    }

    fn print(secret: &str) -> Fingerprint {
        Fingerprint::from_parts("key", Path::new("a.rs"), secret.as_bytes())
    }

    fn baseline(text: &str) -> Baseline {
        let mut baseline = Baseline::default();
        baseline.add(text).expect("it is a report");
        baseline
    }

    #[test]
    fn a_finding_is_known_as_often_as_it_was_reported() {
        let line = format!("{{\"fingerprint\": \"{}\"}}\n", print("x"));
        for (times, report) in [(1, line.clone()), (2, format!("{line}\n{line}"))] {
            let baseline = baseline(&report);
            for _ in 0..times {
                assert!(baseline.takes(print("x"), &place(9)));
            }
            assert!(!baseline.takes(print("x"), &place(9)), "after {times}");
            assert!(!baseline.takes(print("y"), &place(9)));
        }
        assert!(!baseline("").takes(print("x"), &place(9)));
    }

    #[test]
    fn two_reports_of_the_same_finding_count_once() {
        let line = format!("{{\"fingerprint\": \"{}\"}}\n", print("x"));
        let mut both = baseline(&line);
        both.merge(baseline(&line));
        assert!(both.takes(print("x"), &place(9)));
        assert!(!both.takes(print("x"), &place(9)));
    }

    #[test]
    fn reports_of_other_formats_are_read() {
        let sarif = format!(
            "{{\"runs\": [{{\"results\": [{{\"partialFingerprints\": {{\"{FINGERPRINT_NAME}\": \"{}\"}}}}]}}]}}",
            print("x")
        );
        assert!(baseline(&sarif).takes(print("x"), &place(1)));
        let gitleaks = r#"[{"RuleID": "key", "File": "a.rs", "Secret": "x", "StartLine": 4},
            {"RuleID": "key", "File": "a.rs", "Secret": "REDACTED", "StartLine": 7}]"#;
        let baseline = baseline(gitleaks);
        assert!(baseline.takes(print("x"), &place(1)));
        assert!(baseline.takes(print("hidden"), &place(7)));
        assert!(!baseline.takes(print("hidden"), &place(8)));
    }

    #[test]
    fn what_is_no_report_says_why() {
        for (text, why) in [
            ("{\"fingerprint\": \"00\"}", "line 1: it has no valid `fingerprint`"),
            ("{}\nx", "line 1: it has no valid"),
            ("nonsense", "line 1: this is not JSON"),
            ("[{}]", "a finding has no `RuleID`"),
            ("{\"runs\": [{\"results\": [{}]}]}", "a result has no fingerprint"),
        ] {
            let error = Baseline::default().add(text).unwrap_err();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}
