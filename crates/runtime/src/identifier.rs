//! What names of regions, graphs and nodes look like.

/// Returns whether a name has only letters, digits and underscores of ASCII, at least one of them and at most this many,
/// and does not start with a digit.
pub(crate) fn is_identifier(name: &str, most: usize) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.len() <= most
}
