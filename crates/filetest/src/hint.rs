//! Hints for error messages about unknown names.

use pelton_ir::text::nearest_name;

/// The end of an error message about an unknown name: the name that was probably meant, and the names that exist.
pub fn name_hint(word: &str, names: &[&str]) -> String {
    if names.is_empty() {
        return "there is none".into();
    }
    let there = format!("there is {}", names.join(", "));
    match nearest_name(word, names.iter().copied()) {
        Some(name) => format!("did you mean {name}? {there}"),
        None => there,
    }
}

#[cfg(test)]
mod tests {
    use super::name_hint;

    #[test]
    fn the_near_name_comes_first() {
        assert_eq!(name_hint("dat", &["hist", "data"]), "did you mean data? there is hist, data");
        assert_eq!(name_hint("zzz", &["hist", "data"]), "there is hist, data");
        assert_eq!(name_hint("zzz", &[]), "there is none");
    }
}
