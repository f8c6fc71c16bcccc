//! Readers of rules: Pelton's TOML format, that of gitleaks, plain files of expressions, and the starter set.
//!
//! # Pelton's format
//!
//! ```toml
//! # The rules of these files are used too. A rule below that has the name of one of theirs changes the keys that it
//! # gives. "starter" is the starter set, and paths are relative to the folder of this file.
//! extend = ["starter", "base.toml"]
//! # The rules of those files that are not used.
//! disable = ["json-web-token"]
//!
//! [[rule]]
//! id = "acme-token"
//! description = "Token of the Acme service."
//! regex = '\bacme_([0-9a-z]{32})\b'  # in the syntax of the `regex` crate
//! path = '\.(env|ya?ml)$'            # only these files; a rule with a path and no regex finds the files themselves
//! secret_group = 1                   # without it the first group that is not empty, or the whole match; 0 is the match
//! entropy = 3.0                      # in bits per byte; the secret must have more
//! keywords = ["acme"]                # one of them must be in the file, in upper or lower case
//! tags = ["token"]
//! positive = ["acme_0123456789abcdefghijklmnopqrstuv"]  # examples for tests of the rule
//! negative = ["acme_short"]
//!
//! [[rule.allow]]                     # what is allowed to be there
//! description = "Values of the documentation."
//! condition = "any"                  # one of the following suffices, or "all" that are given must hold
//! target = "secret"                  # what `regexes` are searched in: the "secret", the "match" or its "line"
//! regexes = ['^0123']
//! paths = ['^docs/']
//! stopwords = ["example"]            # the secret contains one of them, in upper or lower case
//!
//! [[allow]]                          # the same for all rules, or for those that it names
//! rules = ["acme-token"]
//! paths = ['^vendor/']
//! ```

mod draft;
mod examples;
mod extend;
mod gitleaks_toml;
mod go_syntax;
mod nearest_name;
mod pelton_toml;
mod plain;
mod toml_table;

use std::path::Path;

use toml::de::DeTable;

use crate::error::{RuleMistake, ScanError};
use crate::expression::{Expression, ExpressionError};
use crate::rule::{FilterUse, Rule, RuleSet};

use draft::RuleDrafts;
use extend::ExtendChain;

pub(crate) use draft::duplicate;
pub use examples::{ExampleKind, FailedExample, failed_examples};

/// The text of the starter set, in our own format.
const STARTER_TEXT: &str = include_str!("starter.toml");

/// Returns the starter set: rules for the keys and tokens of many services, which `pelton scan` uses by default.
pub fn starter() -> RuleSet {
    starter_drafts().finish()
}

/// Reads a file of rules. If its name ends in `.toml`, it is in Pelton's format or in that of gitleaks. Otherwise it has
/// one expression per line.
///
/// Rules that cannot be used are put into [`RuleSet::rejected`], and the others are used.
///
/// # Errors
///
/// [`ScanError::RuleFileUnreadable`] if the file, or one that it extends, cannot be read, and
/// [`ScanError::RuleFileWrong`] with the places of all mistakes if it is not a file of rules.
pub fn read_file(path: &Path) -> Result<RuleSet, ScanError> {
    Ok(read_drafts(&ExtendChain::new(path))?.finish())
}

/// Makes a rule with the given name of an expression. No filter applies to it, so every match is a finding.
///
/// ```
/// let rule = pelton_scan::rules::from_expression("todo", "(?i)todo|fixme").unwrap();
/// assert_eq!(rule.id, "todo");
/// ```
pub fn from_expression(id: &str, text: &str) -> Result<Rule, ExpressionError> {
    let expression = Some(Expression::parse(text)?);
    Ok(Rule { id: id.into(), expression, filters: FilterUse::Skip, ..Rule::default() })
}

/// Reads the starter set, which is always right.
fn starter_drafts() -> RuleDrafts {
    let root = DeTable::parse(STARTER_TEXT).expect("the starter set is TOML");
    pelton_toml::read(None, STARTER_TEXT, root.get_ref(), &ExtendChain::new(Path::new("starter.toml")))
        .expect("the starter set has no mistakes")
}

/// Reads the last file of a chain, and what it extends.
fn read_drafts(chain: &ExtendChain<'_>) -> Result<RuleDrafts, ScanError> {
    let path = chain.path();
    let text = read_text(path)?;
    let is_toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let drafts = if is_toml { read_toml(&text, chain)? } else { plain::read(path, &text) };
    if drafts.rules.is_empty() && drafts.allow.is_empty() && drafts.rejected.is_empty() {
        return Err(wrong_file(path, None, "there are no rules in this file"));
    }
    Ok(drafts)
}

/// Reads a file of UTF-8.
fn read_text(path: &Path) -> Result<String, ScanError> {
    if path.is_dir() {
        return Err(wrong_file(path, None, "this is a folder; name a file of rules"));
    }
    let unreadable = |source| ScanError::RuleFileUnreadable { path: path.to_path_buf(), source };
    let bytes = std::fs::read(path).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = memchr::memchr_iter(b'\n', good).count() + 1;
        wrong_file(path, u32::try_from(line).ok(), "the text is not UTF-8 here; rules are UTF-8 text")
    })?;
    // Some editors put a byte order mark at the beginning.
    Ok(text.strip_prefix('\u{feff}').map(str::to_string).unwrap_or(text))
}

/// Reads TOML in one of the two formats, which differ in the names of their keys.
fn read_toml(text: &str, chain: &ExtendChain<'_>) -> Result<RuleDrafts, ScanError> {
    let path = chain.path();
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let line_at =
            |byte: usize| memchr::memchr_iter(b'\n', &text.as_bytes()[..byte.min(text.len())]).count() + 1;
        let mut mistakes: Vec<RuleMistake> = Vec::new();
        for error in &errors {
            let line = error.span().and_then(|span| u32::try_from(line_at(span.start)).ok());
            // One mistake often leads to several errors in its line, of which the first says most.
            if mistakes.iter().all(|mistake| mistake.line != line) {
                let message = format!("this is not TOML: {}", error.message().trim().replace('\n', "; "));
                mistakes.push(RuleMistake { line, message });
            }
        }
        mistakes.sort_by_key(|mistake| mistake.line);
        return Err(ScanError::RuleFileWrong { path: path.to_path_buf(), mistakes });
    }
    let root = root.get_ref();
    let has = |name: &str| root.iter().any(|(key, _)| key.get_ref().eq_ignore_ascii_case(name));
    let is_own = has("rule") || has("allow");
    let is_gitleaks = has("rules") || has("allowlist") || has("allowlists");
    // Both have `extend`: here it is a list of files, there a table.
    let extends_table =
        root.iter().any(|(key, value)| key.get_ref() == "extend" && value.get_ref().is_table());
    match (is_own, is_gitleaks || extends_table) {
        (true, true) => {
            let message = "the file mixes two formats: `rule` and `allow` are Pelton's keys, \
                           `rules`, `allowlists` and a table `extend` those of gitleaks";
            Err(wrong_file(path, None, message))
        }
        (false, true) => gitleaks_toml::read(text, root, chain),
        _ => pelton_toml::read(Some(path), text, root, chain),
    }
}

/// Makes the error for a file with one mistake.
fn wrong_file(path: &Path, line: Option<u32>, message: &str) -> ScanError {
    let mistakes = vec![RuleMistake { line, message: message.into() }];
    ScanError::RuleFileWrong { path: path.to_path_buf(), mistakes }
}

#[cfg(test)]
mod tests;
