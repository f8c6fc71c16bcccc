//! The results of the cases: a table for people, rows for programs, and the verdict.

use serde_json::{Value, json};

use super::stage::{CaseResult, Orders};
use crate::error::CliError;
use crate::term::{Term, TextRole};

/// The result of a case.
pub(super) struct LitmusRow {
    pub case: &'static str,
    /// The allowed outcome that is counted as well.
    pub beside: &'static str,
    pub orders: Orders,
    /// What was seen, or why the case was left out.
    pub result: Result<CaseResult, String>,
}

impl LitmusRow {
    fn orders(&self) -> &'static str {
        match self.orders {
            Orders::Kept => "kept",
            Orders::Relaxed => "relaxed",
        }
    }

    fn json(&self, device: &str) -> Value {
        let seen = self.result.as_ref().ok();
        json!({
            "group": "litmus",
            "case": self.case,
            "device": device,
            "orders": self.orders(),
            "rounds": seen.map(|seen| seen.rounds),
            "forbidden": seen.map(|seen| seen.counts.bad),
            "beside": self.beside,
            "beside_count": seen.map(|seen| seen.counts.beside),
            "seconds": seen.map(|seen| seen.seconds),
            "skipped": self.result.as_ref().err(),
        })
    }

    fn line(&self, term: &Term) -> String {
        let head = format!("{:<38} {:<8}", self.case, self.orders());
        match &self.result {
            Err(why) => format!("{head} {}", term.paint(TextRole::Faint, format!("left out: {why}"))),
            Ok(CaseResult { rounds, counts, seconds }) => {
                let bad = format!("{:>10}", counts.bad);
                let bad = match (counts.bad, self.orders) {
                    (0, _) => bad,
                    (_, Orders::Kept) => term.paint(TextRole::Bad, bad),
                    (_, Orders::Relaxed) => term.paint(TextRole::Strong, bad),
                };
                format!(
                    "{head} {rounds:>12} {bad} {:>12} {:<11} {seconds:>8.3} s",
                    counts.beside, self.beside
                )
            }
        }
    }
}

/// The rows for programs: one JSON object per line.
pub(super) fn rows_json(rows: &[LitmusRow], device: &str) -> String {
    rows.iter().map(|row| format!("{}\n", row.json(device))).collect()
}

/// Prints a table.
pub(super) fn show_rows(rows: &[LitmusRow], device: &str, term: &Term) -> Result<(), CliError> {
    let head =
        format!("{:<38} {:<8} {:>12} {:>10} {:>12}", "case", "orders", "rounds", "forbidden", "beside");
    term.line(term.paint(TextRole::Strong, head))?;
    rows.iter().try_for_each(|row| term.line(row.line(term)))?;
    let seen = |orders| {
        rows.iter().filter(move |row| row.orders == orders).filter_map(|row| row.result.as_ref().ok())
    };
    let sum = |orders, of: fn(&CaseResult) -> u64| seen(orders).map(of).sum::<u64>();
    term.line(format_args!(
        "{} rounds on {device}: {} forbidden outcomes; {} in {} without orders",
        sum(Orders::Kept, |seen| seen.rounds),
        sum(Orders::Kept, |seen| seen.counts.bad),
        sum(Orders::Relaxed, |seen| seen.counts.bad),
        sum(Orders::Relaxed, |seen| seen.rounds),
    ))
}

/// Returns an error that names the cases in which a forbidden outcome was seen, if there are any.
pub(super) fn judge_rows(rows: &[LitmusRow]) -> Result<(), String> {
    let wrong = |row: &&LitmusRow| {
        row.orders == Orders::Kept && row.result.as_ref().is_ok_and(|seen| seen.counts.bad > 0)
    };
    let names: Vec<&str> = rows.iter().filter(wrong).map(|row| row.case).collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "the device broke the memory model: forbidden outcomes were seen in: {}",
            names.join("; ")
        )),
    }
}
