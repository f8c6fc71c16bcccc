//! The name that was probably meant where a name is unknown.

/// Says which name was probably meant, and which names there are.
pub(super) fn suggest(name: &str, known: &[&str]) -> String {
    let all = format!("the keys are {}", known.join(", "));
    match nearest_name(name, known) {
        Some(near) => format!("did you mean `{near}`? ({all})"),
        None => all,
    }
}

/// Returns the known name that is most similar to a name, if any is similar at all. Case and underscores make no
/// difference, since other formats write `secretGroup` for `secret_group`.
fn nearest_name<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['_', '-'], "").into_bytes();
    let wanted = plain(name);
    let most = (wanted.len() / 3).max(1);
    let distances = known.iter().map(|known| (distance(&wanted, &plain(known)), *known));
    distances
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns how many bytes must be added, removed or changed to turn one text into the other.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_changes() {
        assert_eq!(distance(b"", b"abc"), 3);
        assert_eq!(distance(b"kitten", b"sitting"), 3);
        assert_eq!(distance(b"same", b"same"), 0);
    }

    #[test]
    fn the_nearest_name_is_suggested() {
        let known = ["regex", "regexes", "secret_group", "paths"];
        assert_eq!(nearest_name("regexs", &known), Some("regex"));
        assert_eq!(nearest_name("secretGroup", &known), Some("secret_group"));
        assert_eq!(nearest_name("colour", &known), None);
        assert_eq!(suggest("colour", &known[..2]), "the keys are regex, regexes");
        assert_eq!(suggest("pats", &["paths"]), "did you mean `paths`? (the keys are paths)");
    }
}
