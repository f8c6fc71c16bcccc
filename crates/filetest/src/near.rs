//! What to say of a name that is not known.

use pelton_ir::text::nearest;

/// Ends an error about an unknown name: what was meant perhaps, and what there is.
pub fn hint(word: &str, names: &[&str]) -> String {
    if names.is_empty() {
        return "there is none".into();
    }
    let there = format!("there is {}", names.join(", "));
    match nearest(word, names.iter().copied()) {
        Some(name) => format!("did you mean {name}? {there}"),
        None => there,
    }
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn the_near_name_comes_first() {
        assert_eq!(hint("dat", &["hist", "data"]), "did you mean data? there is hist, data");
        assert_eq!(hint("zzz", &["hist", "data"]), "there is hist, data");
        assert_eq!(hint("zzz", &[]), "there is none");
    }
}
