//! The reader of plain files: one expression per line.

use std::path::Path;

use crate::rule::RuleOrigin;
use crate::rules::draft::{ExpressionDraft, ExpressionSyntax, RuleDraft, RuleDrafts};

/// Reads expressions. Lines that are blank and lines whose first character is `#` are skipped; in other lines every
/// character belongs to the expression. A rule has the name `FILE:LINE`.
pub(super) fn read(path: &Path, text: &str) -> RuleDrafts {
    let mut drafts = RuleDrafts::default();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let origin = RuleOrigin { file: Some(path.to_path_buf()), line: Some(number) };
        let regex =
            ExpressionDraft { text: line.into(), syntax: ExpressionSyntax::Regex, origin: origin.clone() };
        let id = format!("{}:{number}", path.display());
        // Names are distinct, since lines are.
        drafts.rules.push(RuleDraft { id, regex: Some(regex), origin, ..RuleDraft::default() });
    }
    drafts
}
