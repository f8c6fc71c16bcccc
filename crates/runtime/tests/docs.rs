//! `docs/protocol.md` contains the tables of the protocol. `BLESS=1` writes them into it.

use std::fs;
use std::path::Path;

use pelton::protocol::manual;

/// Returns the text with the part between two markers replaced.
fn filled(text: &str, name: &str, part: &str) -> String {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let (head, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("docs/protocol.md has no {begin}"));
    let (_, tail) = rest.split_once(&end).unwrap_or_else(|| panic!("docs/protocol.md has no {end}"));
    format!("{head}{begin}\n{part}\n{end}{tail}")
}

#[test]
fn the_manual_is_made_from_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    let text = fs::read_to_string(&path).expect("docs/protocol.md can be read");
    let made = manual::sections().iter().fold(text.clone(), |text, (name, part)| filled(&text, name, part));
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, made).expect("docs/protocol.md can be written");
    } else {
        assert!(
            text == made,
            "docs/protocol.md differs from the tables: BLESS=1 cargo test -p pelton --test docs"
        );
    }
}
