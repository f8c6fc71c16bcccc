//! Which part of a match is the secret.

use std::ops::Range;

/// Returns where the secret of a match lies.
///
/// `groups` has the ranges of the groups of the match, of which the first is the whole match, as captures of the
/// `regex` crate yield them. The secret is the group that the rule names
/// ([`Rule::secret_group`](crate::Rule::secret_group)), without one the first group that is not empty, and otherwise
/// the whole match. A named group that took no part in the match, or is empty, is no secret either, so the whole match
/// stands for it.
///
/// # Panics
///
/// If `groups` is empty or its first element is `None`, since then there is no match.
///
/// ```
/// use pelton_scan::filter::secret_of;
///
/// let found = regex::bytes::Regex::new("(key)=(.*)").unwrap().captures(b"key=abc").unwrap();
/// let groups: Vec<_> = found.iter().map(|group| group.map(|group| group.range())).collect();
/// assert_eq!(secret_of(Some(2), &groups), 4..7);
/// assert_eq!(secret_of(None, &groups), 0..3);
/// assert_eq!(secret_of(Some(0), &groups), 0..7);
/// ```
pub fn secret_of(secret_group: Option<u32>, groups: &[Option<Range<usize>>]) -> Range<usize> {
    let whole = groups.first().cloned().flatten().expect("the first group is the whole match");
    let filled = |group: &Option<Range<usize>>| group.clone().filter(|range| !range.is_empty());
    let secret = match secret_group {
        Some(index) => groups.get(index as usize).and_then(filled),
        None => groups[1..].iter().find_map(filled),
    };
    secret.unwrap_or(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_group_with_text_is_the_secret() {
        assert_eq!(secret_of(None, &[Some(3..9), None, Some(4..4), Some(5..7), Some(7..8)]), 5..7);
        assert_eq!(secret_of(None, &[Some(3..9), None, Some(4..4)]), 3..9);
        assert_eq!(secret_of(None, &[Some(3..9)]), 3..9);
    }

    #[test]
    fn a_named_group_is_the_secret_if_it_has_text() {
        let groups = [Some(3..9), Some(3..4), Some(5..7), None, Some(6..6)];
        assert_eq!(secret_of(Some(2), &groups), 5..7);
        assert_eq!(secret_of(Some(3), &groups), 3..9);
        assert_eq!(secret_of(Some(4), &groups), 3..9);
        assert_eq!(secret_of(Some(17), &groups), 3..9);
    }
}
