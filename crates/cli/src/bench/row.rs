//! Rows of figures, which have the same shape in every benchmark. The program in `benches/peers` includes this
//! file.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::ratio::{self, Ratio};

/// A row: one figure, and what it is compared with.
#[derive(Clone, Debug)]
pub(crate) struct BenchRow {
    /// The group of benchmarks.
    pub group: &'static str,
    /// The name of the case.
    pub case: String,
    /// The device that was measured.
    pub device: String,
    /// The unit.
    pub metric: Cow<'static, str>,
    /// The figure in that unit.
    pub value: f64,
    /// The percentiles 50, 99 and 99.9, if the figure comes from a distribution.
    pub spread: Option<[f64; 3]>,
    /// The limit or peer that the figure is compared with.
    pub against: Option<Against>,
}

/// A limit or peer that was measured in the same rounds.
#[derive(Clone, Debug)]
pub(crate) struct Against {
    /// The name of the limit or peer.
    pub name: String,
    /// The figure of the limit or peer.
    pub value: f64,
    /// The ratio of the row's figure to this one, round by round; `None` if no round has one. The median ratio is
    /// not the quotient of the two figures, and may be far from it on a busy machine.
    pub ratio: Option<Ratio>,
}

impl BenchRow {
    fn ratio(&self) -> Option<Ratio> {
        self.against.as_ref()?.ratio
    }

    fn json(&self) -> Value {
        let spread = |at: usize| self.spread.map(|spread| spread[at]);
        let ratio = self.ratio();
        json!({
            "group": self.group,
            "case": self.case,
            "device": self.device,
            "metric": self.metric,
            "value": self.value,
            "p50": spread(0),
            "p99": spread(1),
            "p999": spread(2),
            "against": self.against.as_ref().map(|against| &against.name),
            "against_value": self.against.as_ref().map(|against| against.value),
            "ratio": ratio.map(|ratio| ratio.median),
            "ratio_low": ratio.map(|ratio| ratio.low),
            "ratio_high": ratio.map(|ratio| ratio.high),
            "rounds": ratio.map(|ratio| ratio.rounds),
            "steady": ratio.map(|ratio| ratio.is_steady()),
        })
    }
}

/// The rows for programs: one JSON object per line.
pub(super) fn rows_json(rows: &[BenchRow]) -> String {
    rows.iter().map(|row| format!("{}\n", row.json())).collect()
}

/// The rows for people: the head of a table, its lines, and a footnote if one is needed.
pub(super) fn rows_table(rows: &[BenchRow]) -> (String, Vec<String>) {
    let cells: Vec<[String; 9]> = rows.iter().map(row_cells).collect();
    let width = |column: usize, least: usize| {
        cells.iter().map(|cells| cells[column].chars().count()).fold(least, usize::max)
    };
    let (case, against, quartiles) = (width(0, 38), width(4, 24), width(6, 14));
    let line = |[name, device, value, metric, peer, ratio, spread, rounds, rest]: [&str; 9]| {
        let line = format!(
            "{name:<case$} {device:<12} {value:>10} {metric:<9} {peer:<against$} {ratio:>9} {spread:<quartiles$} {rounds:>6} {rest}"
        );
        line.trim_end().to_owned()
    };
    let head = line(["case", "device", "value", "", "against", "ratio ", "quartiles", "rounds", ""]);
    let mut lines: Vec<String> =
        cells.iter().map(|cells| line(cells.each_ref().map(String::as_str))).collect();
    if rows.iter().filter_map(BenchRow::ratio).any(|ratio| !ratio.is_steady()) {
        lines.push(ratio::footnote());
    }
    (head, lines)
}

/// The cells of a row, column by column.
fn row_cells(row: &BenchRow) -> [String; 9] {
    let ratio = row.ratio();
    let mark = |ratio: Ratio| if ratio.is_steady() { ' ' } else { '~' };
    let cell = |text: Option<String>| text.unwrap_or_default();
    [
        row.case.clone(),
        row.device.clone(),
        three_digits(row.value),
        row.metric.to_string(),
        cell(row.against.as_ref().map(|against| format!("{} {}", against.name, three_digits(against.value)))),
        cell(ratio.map(|ratio| format!("{}×{}", three_digits(ratio.median), mark(ratio)))),
        cell(ratio.map(|ratio| format!("{} to {}", three_digits(ratio.low), three_digits(ratio.high)))),
        cell(ratio.map(|ratio| ratio.rounds.to_string())),
        cell(row.spread.map(|[p50, p99, p999]| {
            format!(" p50 {} p99 {} p99.9 {}", three_digits(p50), three_digits(p99), three_digits(p999))
        })),
    ]
}

/// A number with three digits, and no more zeros than needed.
fn three_digits(x: f64) -> String {
    match x.abs() {
        a if a >= 1e6 => format!("{:.3e}", x),
        a if a >= 100.0 => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        a if a >= 1.0 => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Against, BenchRow, Ratio, rows_json, rows_table};

    fn row(against: Option<Against>) -> BenchRow {
        let (group, case, device) = ("session", "batched".into(), "cpu".into());
        BenchRow { group, case, device, metric: "tasks/s".into(), value: 6e7, spread: None, against }
    }

    fn against(low: f64, high: f64) -> BenchRow {
        let ratio = Some(Ratio { low, median: 4.0, high, rounds: 9 });
        row(Some(Against { name: "crossbeam".into(), value: 1.5e7, ratio }))
    }

    #[test]
    fn programs_get_the_spread_of_a_ratio() {
        let value: serde_json::Value =
            serde_json::from_str(&rows_json(&[against(3.5, 4.5)])).expect("it is JSON");
        let wanted = serde_json::json!({
            "group": "session", "case": "batched", "device": "cpu", "metric": "tasks/s", "value": 6e7,
            "p50": null, "p99": null, "p999": null,
            "against": "crossbeam", "against_value": 1.5e7,
            "ratio": 4.0, "ratio_low": 3.5, "ratio_high": 4.5, "rounds": 9, "steady": true,
        });
        assert_eq!(value, wanted);
    }

    #[test]
    fn what_is_held_against_nothing_has_no_ratio() {
        let silent = Against { name: "silent".into(), value: 0.0, ratio: None };
        for row in [row(None), row(Some(silent))] {
            let value: serde_json::Value = serde_json::from_str(&rows_json(&[row])).expect("it is JSON");
            for field in ["ratio", "ratio_low", "ratio_high", "rounds", "steady"] {
                assert_eq!(value.get(field), Some(&serde_json::Value::Null), "{field}");
            }
        }
    }

    #[test]
    fn a_wide_spread_is_marked_and_explained() {
        let (_, steady) = rows_table(&[row(None), against(3.5, 4.5)]);
        assert_eq!(steady.len(), 2, "{steady:?}");
        assert!(steady[1].contains("4.00×  3.50 to 4.50"), "{steady:?}");
        let (_, wide) = rows_table(&[against(3.5, 4.5), against(3.0, 5.0)]);
        assert_eq!(wide.len(), 3, "{wide:?}");
        assert!(!wide[0].contains('~') && wide[1].contains("4.00×~ 3.00 to 5.00"), "{wide:?}");
        assert!(wide[2].starts_with("~ "), "{wide:?}");
    }

    #[test]
    fn columns_are_as_wide_as_what_they_hold() {
        let long =
            BenchRow { case: "a case with a name that is longer than most others are".into(), ..row(None) };
        let (head, lines) = rows_table(&[long, row(None)]);
        let place = |line: &str, word: &str| line.find(word).expect("it is there");
        assert_eq!(place(&lines[0], "cpu"), place(&lines[1], "cpu"));
        assert_eq!(place(&lines[0], "cpu"), place(&head, "device"));
    }
}
