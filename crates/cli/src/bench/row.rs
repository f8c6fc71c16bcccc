//! Rows of figures, in one shape for every benchmark, and for the program in `benches/peers`, which includes this file.

use serde_json::{Value, json};

/// A figure.
#[derive(Clone, Debug)]
pub struct Row {
    /// The benchmark.
    pub group: &'static str,
    /// What was measured.
    pub case: String,
    /// On what.
    pub device: String,
    /// The unit.
    pub metric: &'static str,
    /// The figure.
    pub value: f64,
    /// Percentiles 50, 99 and 99.9, where it is a distribution.
    pub spread: Option<[f64; 3]>,
    /// A limit or peer measured in the same run, and its figure.
    pub against: Option<(String, f64)>,
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        self.against.as_ref().map(|(_, other)| self.value / other)
    }

    fn json(&self) -> Value {
        let spread = |at: usize| self.spread.map(|spread| spread[at]);
        json!({
            "group": self.group,
            "case": self.case,
            "device": self.device,
            "metric": self.metric,
            "value": self.value,
            "p50": spread(0),
            "p99": spread(1),
            "p999": spread(2),
            "against": self.against.as_ref().map(|(name, _)| name),
            "against_value": self.against.as_ref().map(|(_, value)| value),
            "ratio": self.ratio(),
        })
    }
}

/// The rows for programs: one JSON object a line.
pub fn json(rows: &[Row]) -> String {
    rows.iter().map(|row| format!("{}\n", row.json())).collect()
}

/// The rows for people: the head of a table, and its lines.
pub fn table(rows: &[Row]) -> (String, Vec<String>) {
    let head =
        format!("{:<38} {:<12} {:>10} {:<9} {:<24} {:>8}", "case", "device", "value", "", "against", "ratio");
    (head.trim_end().to_owned(), rows.iter().map(line).collect())
}

fn line(row: &Row) -> String {
    let against =
        row.against.as_ref().map(|(name, value)| format!("{name} {}", figure(*value))).unwrap_or_default();
    let ratio = row.ratio().map(|ratio| format!("{}×", figure(ratio))).unwrap_or_default();
    let spread = row
        .spread
        .map(|[p50, p99, p999]| format!("  p50 {} p99 {} p99.9 {}", figure(p50), figure(p99), figure(p999)));
    let line = format!(
        "{:<38} {:<12} {:>10} {:<9} {against:<24} {ratio:>8}{}",
        row.case,
        row.device,
        figure(row.value),
        row.metric,
        spread.unwrap_or_default()
    );
    line.trim_end().to_owned()
}

/// Three digits, and no more zeros than needed.
fn figure(x: f64) -> String {
    match x.abs() {
        a if a >= 1e6 => format!("{:.3e}", x),
        a if a >= 100.0 => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        a if a >= 1.0 => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
}
