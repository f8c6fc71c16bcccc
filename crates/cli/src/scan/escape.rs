//! Makes text from files safe to print: nothing in it can control a terminal or begin a new line.

use std::fmt::Write as _;
use std::path::Path;

/// How tabs are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TabMode {
    /// As they are, which is what readers expect of text.
    Keep,
    /// As `\t`.
    Escape,
}

/// Appends bytes as text. Control characters and characters that change the direction of text become escapes as in
/// `\n`, `\x1b` and `\u{202e}`; bytes that are not UTF-8 become U+FFFD.
pub(super) fn push_escaped(out: &mut String, bytes: &[u8], tabs: TabMode) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\t' if tabs == TabMode::Keep => out.push('\t'),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                c if c.is_ascii_control() => drop(write!(out, "\\x{:02x}", u32::from(c))),
                c if is_invisible(c) => drop(write!(out, "\\u{{{:x}}}", u32::from(c))),
                c => out.push(c),
            }
        }
        if !chunk.invalid().is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Returns a path as text that is safe to print.
pub(super) fn shown_path(path: &Path) -> String {
    let mut shown = String::new();
    push_escaped(&mut shown, path.as_os_str().as_encoded_bytes(), TabMode::Escape);
    shown
}

/// Returns a text in a form that is safe to print.
pub(super) fn shown_text(text: &str) -> String {
    let mut shown = String::new();
    push_escaped(&mut shown, text.as_bytes(), TabMode::Escape);
    shown
}

/// Whether a character is a control character, or one that has no width or changes the order of others.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(bytes: &[u8]) -> String {
        let mut out = String::new();
        push_escaped(&mut out, bytes, TabMode::Keep);
        out
    }

    #[test]
    fn nothing_can_drive_a_terminal() {
        assert_eq!(escaped(b"a\x1b[31mb\x07\x7f"), r"a\x1b[31mb\x07\x7f");
        assert_eq!(escaped("\u{9b}31m\u{202e}\u{feff}".as_bytes()), r"\u{9b}31m\u{202e}\u{feff}");
        assert_eq!(escaped(b"a\r\nb\0\tc"), "a\\r\\nb\\x00\tc");
        assert_eq!(shown_path(Path::new("a\tb\nc")), r"a\tb\nc");
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        assert_eq!(escaped("é = \"日本\" 🦀 \\n".as_bytes()), "é = \"日本\" 🦀 \\n");
        assert_eq!(escaped(b"a\xffb"), "a\u{fffd}b");
    }
}
