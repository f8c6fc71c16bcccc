//! Tables of TOML that are read key by key. Mistakes are collected with their lines, and keys that were never asked for
//! can be refused.

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{RuleMistake, ScanError};
use crate::rule::RuleOrigin;
use crate::rules::nearest_name::suggest;

/// A value, and its place in the text.
pub(super) type TomlValue<'a> = &'a Spanned<DeValue<'a>>;

/// How keys are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeyCase {
    /// A key must be spelled exactly.
    Exact,
    /// The case of letters does not matter, as for gitleaks.
    Ignored,
}

/// A text of TOML that is being read, and the mistakes that were found in it so far.
pub(super) struct TomlText<'a> {
    path: Option<&'a Path>,
    line_ends: Vec<usize>,
    key_case: KeyCase,
    mistakes: RefCell<Vec<RuleMistake>>,
}

impl<'a> TomlText<'a> {
    /// Begins to read a text. `path` is where it comes from.
    pub(super) fn new(path: Option<&'a Path>, text: &str, key_case: KeyCase) -> Self {
        let line_ends = memchr::memchr_iter(b'\n', text.as_bytes()).collect();
        TomlText { path, line_ends, key_case, mistakes: RefCell::default() }
    }

    /// Returns the line of a byte, from 1.
    pub(super) fn line_at(&self, byte: usize) -> u32 {
        let before = self.line_ends.partition_point(|end| *end < byte);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }

    /// Returns the place of a byte, as rules remember it.
    pub(super) fn origin_at(&self, byte: usize) -> RuleOrigin {
        RuleOrigin { file: self.path.map(Path::to_path_buf), line: self.path.map(|_| self.line_at(byte)) }
    }

    /// Records a mistake.
    pub(super) fn note(&self, byte: usize, message: impl Into<String>) {
        let mistake = RuleMistake { line: Some(self.line_at(byte)), message: message.into() };
        self.mistakes.borrow_mut().push(mistake);
    }

    /// Returns the mistakes that were recorded since the last call.
    pub(super) fn take_mistakes(&self) -> Vec<RuleMistake> {
        self.mistakes.take()
    }

    /// Fails if mistakes were recorded since the last call of `take_mistakes`.
    pub(super) fn fail_on_mistakes(&self) -> Result<(), ScanError> {
        let mut mistakes = self.take_mistakes();
        if mistakes.is_empty() {
            return Ok(());
        }
        mistakes.sort_by_key(|mistake| mistake.line);
        let path = self.path.unwrap_or(Path::new("the starter set")).to_path_buf();
        Err(ScanError::RuleFileWrong { path, mistakes })
    }
}

/// A table that is being read.
pub(super) struct RuleTable<'a> {
    text: &'a TomlText<'a>,
    /// The keys and values, in the order of the text.
    entries: Vec<(&'a Spanned<Cow<'a, str>>, TomlValue<'a>)>,
    /// Where the table begins, in bytes.
    start: usize,
    /// The keys that were asked for.
    known: RefCell<Vec<&'static str>>,
}

impl<'a> RuleTable<'a> {
    pub(super) fn new(text: &'a TomlText<'a>, table: &'a DeTable<'a>, start: usize) -> Self {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        RuleTable { text, entries, start, known: RefCell::default() }
    }

    /// Returns where the table begins.
    pub(super) fn origin(&self) -> RuleOrigin {
        self.text.origin_at(self.start)
    }

    /// Returns where a value stands.
    pub(super) fn origin_of(&self, value: TomlValue<'a>) -> RuleOrigin {
        self.text.origin_at(value.span().start)
    }

    /// Records a mistake that concerns the whole table.
    pub(super) fn note(&self, message: impl Into<String>) {
        self.text.note(self.start, message);
    }

    /// Records a mistake at a value.
    pub(super) fn note_at(&self, value: TomlValue<'a>, message: impl Into<String>) {
        self.text.note(value.span().start, message);
    }

    /// Returns the value of a key, or `None` if the key is absent.
    pub(super) fn get(&self, key: &'static str) -> Option<TomlValue<'a>> {
        self.known.borrow_mut().push(key);
        let is_key = |name: &str| match self.text.key_case {
            KeyCase::Exact => name == key,
            KeyCase::Ignored => name.eq_ignore_ascii_case(key),
        };
        self.entries.iter().find(|(name, _)| is_key(name.get_ref())).map(|(_, value)| *value)
    }

    /// Records that a value does not have the type that is wanted.
    fn note_wrong_type<T>(&self, key: &str, value: TomlValue<'a>, wanted: &str) -> Option<T> {
        let found = match value.get_ref().type_str() {
            kind @ ("integer" | "array") => format!("an {kind}"),
            kind => format!("a {kind}"),
        };
        self.note_at(value, format!("`{key}` must be {wanted}, but this is {found}"));
        None
    }

    /// Returns the string of a key, with its value. An absent key is no mistake.
    pub(super) fn string_value(&self, key: &'static str) -> Option<(&'a str, TomlValue<'a>)> {
        let value = self.get(key)?;
        match value.get_ref().as_str() {
            Some(text) => Some((text, value)),
            None => self.note_wrong_type(key, value, "a string"),
        }
    }

    /// Returns the string of a key; it is empty if the key is absent.
    pub(super) fn string(&self, key: &'static str) -> String {
        self.string_value(key).map(|(text, _)| text.to_string()).unwrap_or_default()
    }

    /// Returns whether a key is true; it is not if the key is absent.
    pub(super) fn flag(&self, key: &'static str) -> bool {
        let Some(value) = self.get(key) else { return false };
        value
            .get_ref()
            .as_bool()
            .or_else(|| self.note_wrong_type(key, value, "true or false"))
            .unwrap_or(false)
    }

    /// Returns the number of a key that counts something.
    pub(super) fn count(&self, key: &'static str) -> Option<u32> {
        let value = self.get(key)?;
        let Some(number) = value.get_ref().as_integer() else {
            return self.note_wrong_type(key, value, "a whole number");
        };
        let found = u32::from_str_radix(number.as_str(), number.radix()).ok();
        if found.is_none() {
            self.note_at(value, format!("`{key}` must be from 0 to {}", u32::MAX));
        }
        found
    }

    /// Returns the number of a key that may have a fraction.
    pub(super) fn decimal(&self, key: &'static str) -> Option<f64> {
        let value = self.get(key)?;
        let text = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
            DeValue::Float(number) => number.as_str(),
            _ => return self.note_wrong_type(key, value, "a number"),
        };
        let found = text.parse().ok().filter(|number: &f64| number.is_finite());
        if found.is_none() {
            self.note_at(value, format!("`{key}` must be a finite number"));
        }
        found
    }

    /// Returns the elements of an array, which is empty if the key is absent.
    fn array(&self, key: &'static str) -> Vec<TomlValue<'a>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        match value.get_ref().as_array() {
            Some(list) => list.iter().collect(),
            None => self.note_wrong_type(key, value, "an array").unwrap_or_default(),
        }
    }

    /// Returns the strings of an array with their values.
    pub(super) fn string_values(&self, key: &'static str) -> Vec<(&'a str, TomlValue<'a>)> {
        let read = |value: TomlValue<'a>| match value.get_ref().as_str() {
            Some(text) => Some((text, value)),
            None => self.note_wrong_type(key, value, "an array of strings"),
        };
        self.array(key).into_iter().filter_map(read).collect()
    }

    /// Returns the strings of an array, which is empty if the key is absent.
    pub(super) fn strings(&self, key: &'static str) -> Vec<String> {
        self.string_values(key).into_iter().map(|(text, _)| text.to_string()).collect()
    }

    /// Returns the table of a key.
    pub(super) fn table(&self, key: &'static str) -> Option<RuleTable<'a>> {
        let value = self.get(key)?;
        match value.get_ref().as_table() {
            Some(table) => Some(RuleTable::new(self.text, table, value.span().start)),
            None => self.note_wrong_type(key, value, "a table"),
        }
    }

    /// Returns the tables of an array, which is empty if the key is absent.
    pub(super) fn tables(&self, key: &'static str) -> Vec<RuleTable<'a>> {
        let read = |value: TomlValue<'a>| match value.get_ref().as_table() {
            Some(table) => Some(RuleTable::new(self.text, table, value.span().start)),
            None => self.note_wrong_type(key, value, "an array of tables"),
        };
        self.array(key).into_iter().filter_map(read).collect()
    }

    /// Ends the reading. Keys that were never asked for are mistakes.
    pub(super) fn refuse_unknown_keys(self) {
        let known = self.known.borrow();
        for (key, _) in &self.entries {
            let name = key.get_ref();
            if !known.iter().any(|known| known == name) {
                let message = format!("there is no key `{name}` here; {}", suggest(name, &known));
                self.text.note(key.span().start, message);
            }
        }
    }
}
