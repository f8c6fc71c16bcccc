//! Shows the difference between two texts, line by line.

use std::fmt::Write;

/// The number of unchanged lines that are shown around a change.
const CONTEXT: usize = 3;

/// The largest number of pairs of lines to align. Beyond it, the changed middle is shown whole, first the old lines
/// and then the new ones.
const MAX_PAIRS: usize = 1 << 22;

/// A line of a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DiffLine<'a> {
    Same(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// Shows how `old` becomes `new`: `-` lines are removed, `+` lines are added, others are context. Empty if the
/// texts are equal.
pub fn diff_lines(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let lines = align_lines(&old, &new);
    let changed: Vec<usize> = (0..lines.len()).filter(|k| !matches!(lines[*k], DiffLine::Same(_))).collect();
    let mut text = String::new();
    let mut last = None;
    for (k, line) in lines.iter().enumerate() {
        let at = changed.partition_point(|c| c + CONTEXT < k);
        if changed.get(at).is_none_or(|c| *c > k + CONTEXT) {
            continue;
        }
        if last.is_some_and(|last| last + 1 != k) {
            text.push_str("  …\n");
        }
        last = Some(k);
        let (mark, line) = match line {
            DiffLine::Same(line) => (' ', line),
            DiffLine::Old(line) => ('-', line),
            DiffLine::New(line) => ('+', line),
        };
        let _ = writeln!(text, "{mark} {line}");
    }
    text
}

/// All lines of both texts, with common lines once.
fn align_lines<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<DiffLine<'a>> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let mut lines: Vec<DiffLine<'a>> = old[..head].iter().map(|line| DiffLine::Same(line)).collect();
    align_middle(&old[head..old.len() - tail], &new[head..new.len() - tail], &mut lines);
    lines.extend(old[old.len() - tail..].iter().map(|line| DiffLine::Same(line)));
    lines
}

/// Aligns two lists of lines along their longest common subsequence.
fn align_middle<'a>(old: &[&'a str], new: &[&'a str], lines: &mut Vec<DiffLine<'a>>) {
    let (rows, columns) = (old.len(), new.len());
    if rows.saturating_mul(columns) > MAX_PAIRS {
        lines.extend(old.iter().map(|line| DiffLine::Old(line)));
        lines.extend(new.iter().map(|line| DiffLine::New(line)));
        return;
    }
    // common[i][j]: how many lines old[i..] and new[j..] have in common.
    let mut common = vec![vec![0u32; columns + 1]; rows + 1];
    for i in (0..rows).rev() {
        for j in (0..columns).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < rows || j < columns {
        if i < rows && j < columns && old[i] == new[j] {
            lines.push(DiffLine::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == columns || (i < rows && common[i + 1][j] >= common[i][j + 1]) {
            lines.push(DiffLine::Old(old[i]));
            i += 1;
        } else {
            lines.push(DiffLine::New(new[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::diff_lines;

    #[test]
    fn changes_stand_in_their_context() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm";
        let new = "a\nB\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nx\nm";
        let shown = "  a\n- b\n+ B\n  c\n  d\n  e\n  …\n  j\n  k\n  l\n+ x\n  m\n";
        assert_eq!(diff_lines(old, new), shown);
    }

    #[test]
    fn equal_texts_have_none() {
        assert_eq!(diff_lines("a\nb", "a\nb"), "");
        assert_eq!(diff_lines("", "a"), "+ a\n");
        assert_eq!(diff_lines("a", ""), "- a\n");
    }
}
