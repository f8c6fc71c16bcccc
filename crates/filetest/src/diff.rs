//! The difference of two texts, line by line.

use std::fmt::Write;

/// Lines shown around a change.
const CONTEXT: usize = 3;

/// Beyond so many pairs of lines the changed middle is shown whole, old then new, instead of being aligned.
const MAX_PAIRS: usize = 1 << 22;

/// A line of a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Line<'a> {
    Same(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// What turns `old` into `new`: `-` lines go, `+` lines come, others stand around them. Empty if they are equal.
pub fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let lines = align(&old, &new);
    let changed: Vec<usize> = (0..lines.len()).filter(|k| !matches!(lines[*k], Line::Same(_))).collect();
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
            Line::Same(line) => (' ', line),
            Line::Old(line) => ('-', line),
            Line::New(line) => ('+', line),
        };
        let _ = writeln!(text, "{mark} {line}");
    }
    text
}

/// All lines of both, the common ones once.
fn align<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let mut lines: Vec<Line<'a>> = old[..head].iter().map(|line| Line::Same(line)).collect();
    middle(&old[head..old.len() - tail], &new[head..new.len() - tail], &mut lines);
    lines.extend(old[old.len() - tail..].iter().map(|line| Line::Same(line)));
    lines
}

/// Aligns two lists of lines along their longest common subsequence.
fn middle<'a>(old: &[&'a str], new: &[&'a str], lines: &mut Vec<Line<'a>>) {
    let (rows, columns) = (old.len(), new.len());
    if rows.saturating_mul(columns) > MAX_PAIRS {
        lines.extend(old.iter().map(|line| Line::Old(line)));
        lines.extend(new.iter().map(|line| Line::New(line)));
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
            lines.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == columns || (i < rows && common[i + 1][j] >= common[i][j + 1]) {
            lines.push(Line::Old(old[i]));
            i += 1;
        } else {
            lines.push(Line::New(new[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::diff;

    #[test]
    fn changes_stand_in_their_context() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm";
        let new = "a\nB\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nx\nm";
        let shown = "  a\n- b\n+ B\n  c\n  d\n  e\n  …\n  j\n  k\n  l\n+ x\n  m\n";
        assert_eq!(diff(old, new), shown);
    }

    #[test]
    fn equal_texts_have_none() {
        assert_eq!(diff("a\nb", "a\nb"), "");
        assert_eq!(diff("", "a"), "+ a\n");
        assert_eq!(diff("a", ""), "- a\n");
    }
}
