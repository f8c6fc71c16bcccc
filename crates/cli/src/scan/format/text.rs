//! Findings as lines for people: `path:line:column: rule: text`.

use std::path::Path;

use anstyle::{AnsiColor, Style};

use crate::scan::escape::{TabMode, push_escaped, shown_path, shown_text};
use crate::scan::format::{FindingView, path_rule_text};
use crate::scan::redact::{SecretMode, redacted};

/// The largest number of bytes of the line that are shown before a match, and after it.
const AROUND_MAX: usize = 60;

/// The largest number of bytes of a match that are shown.
const MATCH_MAX: usize = 200;

/// The styles of the parts of a line.
struct LineStyle {
    path: Style,
    place: Style,
    rule: Style,
    matched: Style,
}

impl LineStyle {
    fn new(color: bool) -> LineStyle {
        if !color {
            let plain = Style::new();
            return LineStyle { path: plain, place: plain, rule: plain, matched: plain };
        }
        LineStyle {
            path: AnsiColor::Magenta.on_default(),
            place: AnsiColor::Green.on_default(),
            rule: AnsiColor::Cyan.on_default(),
            matched: AnsiColor::Red.on_default().bold(),
        }
    }
}

/// Appends a path.
pub(super) fn push_path(out: &mut Vec<u8>, path: &Path, color: bool) {
    let style = LineStyle::new(color).path;
    out.extend_from_slice(format!("{style}{}{style:#}", shown_path(path)).as_bytes());
}

/// Appends the line of a finding.
pub(super) fn push_line(out: &mut Vec<u8>, view: &FindingView<'_>, secrets: SecretMode, color: bool) {
    push_path(out, view.path, color);
    let LineStyle { place, rule, matched, .. } = LineStyle::new(color);
    let finding = view.finding;
    let id = shown_text(&view.rule.1.id);
    let mut line =
        format!(":{place}{}{place:#}:{place}{}{place:#}: {rule}{id}{rule:#}: ", finding.line, finding.column);
    if view.rule.1.expression.is_none() {
        line.push_str(&shown_text(path_rule_text(view.rule.1)));
    } else if secrets == SecretMode::Redacted {
        line.push_str(&styled(matched, &redacted(finding)));
    } else {
        let length = usize::try_from(finding.found.end - finding.found.start).unwrap_or(usize::MAX);
        let start = finding.context_start.min(finding.context.len());
        let before = finding.context[..start].trim_ascii_start();
        let after = finding.context.get(start.saturating_add(length)..).unwrap_or(&[]).trim_ascii_end();
        push_last(&mut line, before, AROUND_MAX);
        let shown = first_bytes(&finding.text, MATCH_MAX);
        line.push_str(&styled(matched, shown));
        if shown.len() < length {
            line.push('…');
        }
        let shown = first_bytes(after, AROUND_MAX);
        push_escaped(&mut line, shown, TabMode::Keep);
        if shown.len() < after.len() {
            line.push('…');
        }
    }
    line.push('\n');
    out.extend_from_slice(line.as_bytes());
}

/// Returns bytes as text in a style.
fn styled(style: Style, bytes: &[u8]) -> String {
    let mut text = style.render().to_string();
    push_escaped(&mut text, bytes, TabMode::Keep);
    text + &style.render_reset().to_string()
}

/// Returns the first bytes, without a part of a character at their end.
fn first_bytes(bytes: &[u8], most: usize) -> &[u8] {
    if bytes.len() <= most {
        return bytes;
    }
    let inside = |at: &usize| bytes[*at] & 0xc0 == 0x80;
    let cut = (0..4).map(|back| most - back).find(|at| !inside(at)).unwrap_or(most);
    &bytes[..cut]
}

/// Appends the last bytes, without a part of a character at their beginning.
fn push_last(line: &mut String, bytes: &[u8], most: usize) {
    let mut rest = bytes;
    if bytes.len() > most {
        line.push('…');
        rest = &bytes[bytes.len() - most..];
        let inside = rest.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
        rest = &rest[inside..];
    }
    push_escaped(line, rest, TabMode::Keep);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::fingerprint::Fingerprint;
    use crate::scan::format::{sample_finding, sample_rule};
    use pelton_scan::Finding;

    fn line(finding: &Finding, secrets: SecretMode, color: bool) -> String {
        let path = Path::new("src/a\x1b.rs");
        let rule = sample_rule("key");
        let fingerprint = Fingerprint::of("key", path, finding);
        let mut out = Vec::new();
        push_line(&mut out, &FindingView { path, rule: (0, &rule), finding, fingerprint }, secrets, color);
        String::from_utf8(out).expect("it is UTF-8")
    }

    fn with_context(context: &[u8], start: usize, text: &[u8]) -> Finding {
        Finding { context: context.into(), context_start: start, ..sample_finding(text) }
    }

    #[test]
    fn the_line_is_shown_around_the_match() {
        let finding = with_context(b"  key = \"abcd\";\r", 9, b"abcd");
        assert_eq!(line(&finding, SecretMode::Shown, false), "src/a\\x1b.rs:3:1: key: key = \"abcd\";\n");
        assert_eq!(line(&finding, SecretMode::Redacted, false), "src/a\\x1b.rs:3:1: key: a…(4 bytes)\n");
        let colored = line(&finding, SecretMode::Shown, true);
        assert!(colored.contains("key = \"\x1b[1m\x1b[31mabcd\x1b[0m\";\n"), "{colored:?}");
    }

    #[test]
    fn a_finding_is_one_short_line() {
        let text = line(&sample_finding(b"-----BEGIN\nKEY\x1b\n-----"), SecretMode::Shown, false);
        assert!(text.ends_with(": -----BEGIN\\nKEY\\x1b\\n-----\n"), "{text}");
        assert_eq!(text.lines().count(), 1);
        let long = "é".repeat(1000);
        let context = format!("{long}match{long}");
        let text = line(&with_context(context.as_bytes(), 2000, b"match"), SecretMode::Shown, false);
        assert!(text.ends_with(&format!(": …{0}match{0}…\n", "é".repeat(30))), "{text}");
        let text = line(&sample_finding(long.as_bytes()), SecretMode::Shown, false);
        assert!(text.ends_with(&format!(": {}…\n", "é".repeat(100))), "{text}");
    }

    #[test]
    fn cuts_leave_whole_characters() {
        assert_eq!(first_bytes("aé".as_bytes(), 2), b"a");
        assert_eq!(first_bytes("aé".as_bytes(), 3), "aé".as_bytes());
        assert_eq!(first_bytes(&[0x80; 9], 5), [0x80; 5]);
        let mut text = String::new();
        push_last(&mut text, "éa".as_bytes(), 2);
        assert_eq!(text, "…a");
    }
}
