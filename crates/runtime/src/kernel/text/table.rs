//! Tables of TOML that are read key by key. Mistakes are collected with their places, and keys that were never asked
//! for are mistakes too.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use pelton_ir::module::TextPlace;
use pelton_ir::text::{Diagnostic, nearest_name};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::words::WordList;

/// The mistakes that were found so far.
pub(super) type DiagnosticList = RefCell<Vec<Diagnostic>>;

/// A value, and its place in the text.
pub(super) type TomlValue<'a> = &'a Spanned<DeValue<'a>>;

/// A table of TOML that is being read.
pub(super) struct TomlTable<'a> {
    /// The keys and values, in the order of the text.
    entries: Vec<(&'a Spanned<Cow<'a, str>>, TomlValue<'a>)>,
    /// The place of the table, which is reported for keys that are missing.
    place: Range<usize>,
    /// The keys that were asked for.
    known: RefCell<Vec<&'static str>>,
    notes: &'a DiagnosticList,
}

/// Converts a range of bytes to a place in the text.
pub(super) fn place_from_range(range: Range<usize>) -> TextPlace {
    let at = |byte: usize| u32::try_from(byte).unwrap_or(u32::MAX);
    TextPlace { start: at(range.start), end: at(range.end) }
}

impl<'a> TomlTable<'a> {
    pub(super) fn new(table: &'a DeTable<'a>, place: Range<usize>, notes: &'a DiagnosticList) -> Self {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        TomlTable { entries, place, known: RefCell::default(), notes }
    }

    /// Records a mistake.
    pub(super) fn note(&self, what: Diagnostic) {
        self.notes.borrow_mut().push(what);
    }

    /// Records a mistake with its place.
    pub(super) fn note_wrong(&self, range: Range<usize>, message: impl Into<String>) {
        self.note(Diagnostic::new("spec", place_from_range(range), message.into()));
    }

    /// Returns how many mistakes were found so far, in this table and elsewhere.
    pub(super) fn mistake_count(&self) -> usize {
        self.notes.borrow().len()
    }

    /// Returns the place of the table.
    pub(super) fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Returns the value of a key, or `None` if the key is absent.
    pub(super) fn get(&self, key: &'static str) -> Option<TomlValue<'a>> {
        self.known.borrow_mut().push(key);
        self.entries.iter().find(|(of, _)| of.get_ref() == key).map(|(_, value)| *value)
    }

    /// Returns the value of a key. A key that is absent is a mistake.
    pub(super) fn require(&self, key: &'static str) -> Option<TomlValue<'a>> {
        let value = self.get(key);
        if value.is_none() {
            self.note_wrong(self.place.clone(), format!("`{key}` is missing"));
        }
        value
    }

    /// Records that a value does not have the type that is wanted.
    fn note_wrong_kind<T>(&self, value: TomlValue<'a>, wanted: &str) -> Option<T> {
        let found = match value.get_ref().type_str() {
            kind @ ("integer" | "array") => format!("an {kind}"),
            kind => format!("a {kind}"),
        };
        self.note_wrong(value.span(), format!("this is {found}; it must be {wanted}"));
        None
    }

    /// Reads a number of 32 bits.
    pub(super) fn read_number(&self, value: TomlValue<'a>) -> Option<u32> {
        let Some(number) = value.get_ref().as_integer() else {
            return self.note_wrong_kind(value, "a whole number");
        };
        let found = u32::from_str_radix(number.as_str(), number.radix()).ok();
        if found.is_none() {
            self.note_wrong(value.span(), format!("the number must be from 0 to {}", u32::MAX));
        }
        found
    }

    pub(super) fn read_string(&self, value: TomlValue<'a>) -> Option<&'a str> {
        value.get_ref().as_str().or_else(|| self.note_wrong_kind(value, "a string"))
    }

    /// Reads the `true` or `false` of a key, or returns `false` if the key is absent.
    pub(super) fn flag(&self, key: &'static str) -> bool {
        let Some(value) = self.get(key) else { return false };
        value.get_ref().as_bool().or_else(|| self.note_wrong_kind(value, "true or false")).unwrap_or_default()
    }

    /// Reads one of the words in a list.
    pub(super) fn read_word<T: Copy>(&self, value: TomlValue<'a>, words: WordList<T>) -> Option<T> {
        let text = self.read_string(value)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.note_wrong(value.span(), format!("there is no {text:?} here; {}", suggest(text, &names)));
        }
        found.map(|(_, of)| *of)
    }

    /// Reads the word of a key, or returns the default if the key is absent.
    pub(super) fn word_or_default<T: Copy + Default>(&self, key: &'static str, words: WordList<T>) -> T {
        self.get(key).and_then(|value| self.read_word(value, words)).unwrap_or_default()
    }

    /// Reads the number of a key, or returns `default` if the key is absent.
    pub(super) fn number_or(&self, key: &'static str, default: u32) -> u32 {
        self.get(key).and_then(|value| self.read_number(value)).unwrap_or(default)
    }

    /// Reads a number of bytes, or returns `default` if the key is absent. `most` is what a value of another type is told;
    /// that the number is not greater is checked later.
    pub(super) fn bytes_or(&self, key: &'static str, default: u32, most: u32) -> u32 {
        let Some(value) = self.get(key) else { return default };
        let number = match value.get_ref().is_integer() {
            true => self.read_number(value),
            false => self.note_wrong_kind(value, &format!("a whole number of bytes, at most {most}")),
        };
        number.unwrap_or(default)
    }

    /// Reads a table inside this one.
    pub(super) fn read_table(&self, value: TomlValue<'a>) -> Option<TomlTable<'a>> {
        let table = value.get_ref().as_table().or_else(|| self.note_wrong_kind(value, "a table"))?;
        Some(TomlTable::new(table, value.span(), self.notes))
    }

    /// Returns the elements of an array, which is empty if the key is absent.
    pub(super) fn array(&self, key: &'static str) -> Vec<TomlValue<'a>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        match value.get_ref().as_array() {
            Some(list) => list.iter().collect(),
            None => self.note_wrong_kind(value, "an array").unwrap_or_default(),
        }
    }

    /// Returns the tables of an array, which is empty if the key is absent.
    pub(super) fn table_array(&self, key: &'static str) -> Vec<TomlTable<'a>> {
        self.array(key).into_iter().filter_map(|value| self.read_table(value)).collect()
    }

    /// Returns all keys with their values, where any key is allowed.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, TomlValue<'a>)> {
        self.entries.iter().map(|(key, value)| (key.get_ref().as_ref(), *value))
    }

    /// Ends the reading. Keys that were never asked for are mistakes.
    pub(super) fn refuse_unknown_keys(self) {
        let known = self.known.borrow();
        for (key, _) in &self.entries {
            let name = key.get_ref();
            if !known.iter().any(|of| of == name) {
                self.note_wrong(
                    key.span(),
                    format!("there is no key `{name}` here; {}", suggest(name, &known)),
                );
            }
        }
    }
}

/// Returns the name that was probably meant, and the names that exist.
pub(super) fn suggest(word: &str, names: &[&str]) -> String {
    let there = format!("there is {}", names.join(", "));
    match nearest_name(word, names.iter().copied()) {
        Some(name) => format!("did you mean {name}? {there}"),
        None => there,
    }
}
