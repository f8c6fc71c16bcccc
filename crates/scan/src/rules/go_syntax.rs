//! Translates expressions in the syntax of Go, which gitleaks uses, to the syntax of the `regex` crate.
//!
//! Most expressions mean the same in both. These differences matter: in Go, `\<` is an ordinary `<`, and so is a `{` that
//! does not begin a repetition; `\Q…\E` quotes; `\0` and `\17` are octal; and classes have neither nested classes nor set
//! operations. An expression that is invalid in Go may become valid by the translation, which does no harm.

use std::iter::Peekable;
use std::str::CharIndices;

/// Translates an expression. The error says what cannot be translated.
pub(super) fn translate(text: &str) -> Result<String, String> {
    let mut translator = Translator { text, chars: text.char_indices().peekable(), out: String::new() };
    translator.expression()?;
    Ok(translator.out)
}

struct Translator<'t> {
    text: &'t str,
    chars: Peekable<CharIndices<'t>>,
    out: String,
}

impl Translator<'_> {
    fn expression(&mut self) -> Result<(), String> {
        while let Some((at, c)) = self.chars.next() {
            match c {
                '\\' => self.escape(),
                '[' => self.class(),
                '{' => self.brace(at)?,
                // Comments are removed later; until then they must stay as they are.
                '(' if self.text[at..].starts_with("(?#") => self.copy_through(at, ")"),
                _ => self.out.push(c),
            }
        }
        Ok(())
    }

    /// Returns the text that has not been read yet.
    fn rest(&mut self) -> &str {
        let at = self.chars.peek().map_or(self.text.len(), |(at, _)| *at);
        &self.text[at..]
    }

    /// Skips as many characters as a text has.
    fn skip(&mut self, skipped: &str) {
        for _ in skipped.chars() {
            self.chars.next();
        }
    }

    /// Copies the text from `start`, whose first character has been read, through the next `end`, or all of it.
    fn copy_through(&mut self, start: usize, end: &str) {
        let text = self.text;
        let stop = text[start..].find(end).map_or(text.len(), |at| start + at + end.len());
        let copied = &text[start..stop];
        self.out.push_str(copied);
        let first = copied.chars().next().map_or(0, char::len_utf8);
        self.skip(&copied[first..]);
    }

    /// Writes a repetition as it is, and any other brace as a plain one.
    fn brace(&mut self, at: usize) -> Result<(), String> {
        let inside = self.text[at + 1..].split_once('}').map(|(inside, _)| inside);
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match inside.map(|inside| (inside, inside.split_once(','))) {
            Some((_, Some(("", most)))) if number(most) => Err(format!(
                "{{,{most}}} is ordinary text in Go and a repetition elsewhere; write {{0,{most}}} or \\{{,{most}\\}}"
            )),
            Some((_, Some((least, most)))) if number(least) && (most.is_empty() || number(most)) => {
                self.out.push('{');
                Ok(())
            }
            Some((times, None)) if number(times) => {
                self.out.push('{');
                Ok(())
            }
            _ => {
                self.out.push_str("\\{");
                Ok(())
            }
        }
    }

    /// Writes an escape outside of a class, whose backslash has been read.
    fn escape(&mut self) {
        if !self.rest().starts_with('Q') {
            self.escaped_character();
            return;
        }
        self.chars.next();
        let rest = self.rest();
        let quoted = rest.split_once("\\E").map_or(rest, |(quoted, _)| quoted).to_string();
        self.out.push_str(&regex_syntax::escape(&quoted));
        self.skip(&quoted);
        if self.rest().starts_with("\\E") {
            self.skip("\\E");
        }
    }

    /// Writes an escape that may also stand in a class, whose backslash has been read. Returns whether it stands for
    /// one character, rather than for a class of them.
    fn escaped_character(&mut self) -> bool {
        let Some((at, c)) = self.chars.next() else {
            self.out.push('\\');
            return true;
        };
        match c {
            '<' | '>' => self.out.push(c),
            '0'..='7' if c == '0' || self.rest().starts_with(|c| matches!(c, '0'..='7')) => {
                let digits: String =
                    self.text[at..].chars().take(3).take_while(|c| ('0'..='7').contains(c)).collect();
                self.skip(&digits[1..]);
                let code = u32::from_str_radix(&digits, 8).unwrap_or_default();
                self.out.push_str(&format!("\\x{{{code:X}}}"));
            }
            'x' | 'p' | 'P' if self.rest().starts_with('{') => {
                self.out.push('\\');
                self.copy_through(at, "}");
            }
            _ => self.out.extend(['\\', c]),
        }
        !matches!(c, 'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'p' | 'P')
    }

    /// Writes a class, whose opening bracket has been read.
    fn class(&mut self) {
        self.out.push('[');
        if self.rest().starts_with('^') {
            self.chars.next();
            self.out.push('^');
        }
        let mut is_first = true;
        while let Some((at, c)) = self.chars.next() {
            if c == ']' && !is_first {
                self.out.push(']');
                return;
            }
            is_first = false;
            if c == '[' && self.text[at..].starts_with("[:") && self.text[at..].contains(":]") {
                self.copy_through(at, ":]");
                continue;
            }
            if c == '-' && self.rest().starts_with(']') {
                self.out.push('-');
                continue;
            }
            let is_character = self.class_member(c);
            let rest = self.rest();
            if is_character && rest.starts_with('-') && !rest.starts_with("-]") && rest.len() > 1 {
                self.chars.next();
                self.out.push('-');
                if let Some((_, last)) = self.chars.next() {
                    self.class_member(last);
                }
            }
        }
    }

    /// Writes a member of a class whose first character has been read. Returns whether it is one character.
    fn class_member(&mut self, c: char) -> bool {
        match c {
            '\\' => return self.escaped_character(),
            '[' | ']' | '&' | '~' | '-' | '^' => self.out.extend(['\\', c]),
            _ => self.out.push(c),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use regex::bytes::RegexBuilder;

    use super::*;

    /// Checks that an expression matches, from end to end, the texts that it matches in Go, and not the others.
    fn check(go: &str, matched: &[&str], others: &[&str]) {
        let text = translate(go).unwrap();
        let whole = format!("^(?:{text})$");
        let regex = RegexBuilder::new(&whole)
            .unicode(false)
            .build()
            .unwrap_or_else(|error| panic!("{go} became {text}: {error}"));
        for yes in matched {
            assert!(regex.is_match(yes.as_bytes()), "{go} became {text}, which does not match {yes:?}");
        }
        for no in others {
            assert!(!regex.is_match(no.as_bytes()), "{go} became {text}, which matches {no:?}");
        }
    }

    #[test]
    fn ordinary_expressions_stay_as_they_are() {
        for text in [
            r"(?i)\b(?P<name>ab+?|c{2,5}|d{3}|e{4,})(?:['\x60\s]|$)",
            r"[\w.-]{0,50}?(?:[A-Z\d]{4}|[[:alpha:]])\x{41}\p{Greek}\z",
            r"a(?#it's [not {closed)b",
            "ключ",
        ] {
            assert_eq!(translate(text).unwrap(), text);
        }
    }

    #[test]
    fn angle_brackets_are_no_boundaries() {
        check(r"\<a\>", &["<a>"], &["a"]);
        check(r"[\<\>]+", &["<>"], &["b"]);
    }

    #[test]
    fn braces_that_repeat_nothing_are_plain() {
        check(r"\${a}", &["${a}"], &["$"]);
        check("x{", &["x{"], &["x"]);
        check("x{}", &["x{}"], &["x"]);
        check("x{a,2}", &["x{a,2}"], &["xx"]);
        check("x{2}", &["xx"], &["x{2}"]);
    }

    #[test]
    fn a_repetition_without_a_least_number_is_refused() {
        let error = translate("ab{,5}").unwrap_err();
        assert!(error.contains("{0,5}"), "{error}");
    }

    #[test]
    fn quotations_are_plain() {
        check(r"\Qa.b{\E+", &["a.b{", "a.b{{"], &["axb{"]);
        check(r"x\Q(", &["x("], &["x"]);
        check(r"\Q\Ex", &["x"], &[]);
    }

    #[test]
    fn octal_numbers_are_characters() {
        check(r"\101\0", &["A\0"], &["101"]);
        check(r"[\101-\103]", &["A", "B", "C"], &["D", "1"]);
        assert!(RegexBuilder::new(&translate(r"(a)\1").unwrap()).build().is_err());
    }

    #[test]
    fn classes_have_no_operations() {
        check("[a[b]", &["a", "[", "b"], &["]"]);
        check("[]a]", &["]", "a"], &["b"]);
        check("[^]a]", &["b"], &["]", "a"]);
        check("[a&&b]", &["a", "&", "b"], &["c"]);
        check("[a~~b]", &["a", "~", "b"], &["c"]);
        check("[+--]", &["+", ",", "-"], &["."]);
        check("[--/]", &["-", ".", "/"], &["+"]);
        check(r"[\d-x]", &["5", "-", "x"], &["a"]);
        check(r"[\w.-]", &["w", ".", "-"], &["+"]);
        check("[[:digit:]x[]", &["7", "x", "["], &[":"]);
        check("[a^]", &["a", "^"], &["b"]);
    }

    #[test]
    fn unfinished_expressions_are_left_to_the_parser() {
        for text in ["[a-", "[a", "\\", "(?#", r"\x{", "[", r"[\", "{"] {
            translate(text).unwrap();
        }
    }
}
