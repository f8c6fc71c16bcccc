//! Suggestions for names that are not known.

/// Returns the candidate that is spelled most like a name, if it is similar enough that the name may be a typing
/// mistake. Of equally similar candidates the first is returned.
pub fn nearest_name<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // Every single letter is similar to every other.
    if name.len() < 2 {
        return None;
    }
    let most = (name.len() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let limit = best.map_or(most, |(distance, _)| distance - 1);
        if let Some(distance) = distance(name.as_bytes(), candidate.as_bytes(), limit) {
            best = Some((distance, candidate));
        }
        if matches!(best, Some((0, _))) {
            break;
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns how many letters must be added, removed, changed or swapped with their neighbour to turn one name into the
/// other, or `None` if that is more than a limit.
fn distance(a: &[u8], b: &[u8], limit: usize) -> Option<usize> {
    const LONGEST: usize = crate::limits::MAX_NAME;
    if a.len().abs_diff(b.len()) > limit || a.len() > LONGEST || b.len() > LONGEST {
        return None;
    }
    // Row i of the usual table, and the two before it.
    let mut last = [0; LONGEST + 1];
    let mut row = std::array::from_fn(|j| j);
    for i in 1..=a.len() {
        let older = std::mem::replace(&mut last, row);
        row[0] = i;
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(older[j - 2] + 1);
            }
        }
        if row[..=b.len()].iter().all(|distance| *distance > limit) {
            return None;
        }
    }
    Some(row[b.len()]).filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::nearest_name;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let names = ["add", "and", "atomic_add", "atomic_and", "load"];
        assert_eq!(nearest_name("atomic_ad", names), Some("atomic_add"));
        assert_eq!(nearest_name("atomic_dad", names), Some("atomic_add"));
        assert_eq!(nearest_name("laod", names), Some("load"));
        assert_eq!(nearest_name("ad", names), Some("add"));
        assert_eq!(nearest_name("store", names), None);
        assert_eq!(nearest_name("", names), None);
        assert_eq!(nearest_name("x", ["y"]), None);
        assert_eq!(nearest_name(&"x".repeat(5000), names), None);
    }
}
