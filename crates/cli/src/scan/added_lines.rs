//! The lines that a change adds, taken from the output of `git diff`.

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::ops::RangeInclusive;

/// Which lines of a file are new.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct AddedLines {
    /// Ranges of lines from 1, in ascending order.
    ranges: Vec<RangeInclusive<u64>>,
}

impl AddedLines {
    /// Returns whether one of the lines from `first` to `last` is new.
    pub(super) fn touch(&self, first: u64, last: u64) -> bool {
        let next = self.ranges.partition_point(|range| *range.end() < first);
        self.ranges.get(next).is_some_and(|range| *range.start() <= last)
    }
}

/// The names of a file's content before and after a change.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct BlobPair {
    /// The object before; only zeros if there was none.
    pub before: String,
    /// The object after.
    pub after: String,
}

/// Reads the output of `git diff --full-index -U0 --text`. Files are told apart by their contents rather than their
/// names, which git quotes in ways that depend on its configuration.
pub(super) fn read_diff(mut diff: impl BufRead) -> io::Result<HashMap<BlobPair, AddedLines>> {
    let mut changes: HashMap<BlobPair, AddedLines> = HashMap::new();
    let mut pair = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        if diff.read_until(b'\n', &mut line)? == 0 {
            return Ok(changes);
        }
        // Lines of files begin with a sign, so a line that begins with one of these words is git's own.
        if line.starts_with(b"diff ") {
            pair = None;
        } else if let Some(rest) = line.strip_prefix(b"index ") {
            pair = parse_index(rest);
            if let Some(pair) = &pair {
                // The same change of two files has the same lines.
                changes.insert(pair.clone(), AddedLines::default());
            }
        } else if let (Some(rest), Some(pair)) = (line.strip_prefix(b"@@ "), &pair) {
            let added = parse_hunk(rest).ok_or(io::ErrorKind::InvalidData)?;
            if !added.is_empty() {
                changes.entry(pair.clone()).or_default().ranges.push(added);
            }
        }
    }
}

/// Parses `before..after mode`.
fn parse_index(rest: &[u8]) -> Option<BlobPair> {
    let text = std::str::from_utf8(rest).ok()?;
    let (before, after) = text.split_whitespace().next()?.split_once("..")?;
    Some(BlobPair { before: before.into(), after: after.into() })
}

/// Parses `-first,count +first,count @@ …`, and returns the new lines.
fn parse_hunk(rest: &[u8]) -> Option<RangeInclusive<u64>> {
    let mut words = rest.split(|byte| *byte == b' ');
    let new = std::str::from_utf8(words.nth(1)?).ok()?.strip_prefix('+')?;
    let (first, count) = new.split_once(',').unwrap_or((new, "1"));
    let (first, count): (u64, u64) = (first.parse().ok()?, count.parse().ok()?);
    // A hunk that adds nothing names the line before it, which may be 0.
    Some(first.max(1)..=first.max(1).checked_add(count)? - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &[u8] = b"\
diff --git \"a/odd\\nname\" \"b/odd\\nname\"
index 1111..2222 100644
--- \"a/odd\\nname\"
+++ \"b/odd\\nname\"
@@ -1,2 +1 @@
-index 5555..6666
-@@ -1 +1,99 @@
+one
@@ -4,0 +5,3 @@ fn main() {
+@@ -1 +100,99 @@
+diff --git
+three
@@ -9 +11,0 @@
-gone
diff --git a/moved b/there
similarity index 100%
rename from moved
rename to there
diff --git a/new b/new
new file mode 100644
index 0000..3333
--- /dev/null
+++ b/new
@@ -0,0 +1,2 @@
+a
+b
\\ No newline at end of file
";

    fn pair(before: &str, after: &str) -> BlobPair {
        BlobPair { before: before.into(), after: after.into() }
    }

    #[test]
    fn a_diff_says_which_lines_are_new() {
        let changes = read_diff(DIFF).expect("it is a diff");
        assert_eq!(changes.len(), 2);
        let lines = &changes[&pair("1111", "2222")];
        let touched: Vec<u64> = (1..200).filter(|line| lines.touch(*line, *line)).collect();
        assert_eq!(touched, [1, 5, 6, 7]);
        assert!(lines.touch(2, 5) && lines.touch(7, 9) && !lines.touch(2, 4) && !lines.touch(8, 500));
        let lines = &changes[&pair("0000", "3333")];
        assert!(lines.touch(1, 1) && lines.touch(2, 2) && !lines.touch(3, 3));
    }

    #[test]
    fn no_diff_has_no_lines() {
        assert!(read_diff(&b""[..]).expect("it is empty").is_empty());
        let emptied = read_diff(&b"index 1..2\n@@ -1,2 +0,0 @@\n"[..]).expect("it is a diff");
        assert_eq!(emptied[&pair("1", "2")], AddedLines::default());
        assert!(read_diff(&b"index 1..2\n@@ what"[..]).is_err());
        assert!(!AddedLines::default().touch(1, u64::MAX));
    }
}
