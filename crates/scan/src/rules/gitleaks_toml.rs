//! The reader of the TOML format of gitleaks.
//!
//! Files are read as gitleaks reads them: the case of keys does not matter and keys that are unknown have no effect.
//! Mistakes are treated differently: a rule that is wrong is rejected, and the others are used. These are the other
//! differences:
//!
//! - `commits` of allow-lists have no effect, because files are scanned rather than commits. A list whose condition is
//!   `AND` and which names commits can therefore never apply.
//! - The rules that gitleaks has by default are not part of Pelton: `useDefault` stands for the starter set, and an
//!   entry in the list of rejected rules says so.
//! - A rule with `[[rules.required]]` is rejected, and so is one with `skipReport`, which exists only to be required.

use std::path::Path;

use toml::de::DeTable;

use crate::error::ScanError;
use crate::rule::{AllowCondition, AllowList, AllowTarget, RejectedRule, RuleOrigin};
use crate::rules::draft::{ExpressionDraft, ExpressionSyntax, RuleDraft, RuleDrafts};
use crate::rules::extend::ExtendChain;
use crate::rules::toml_table::{KeyCase, RuleTable, TomlText};

/// Reads a file in the format of gitleaks.
pub(super) fn read(text: &str, root: &DeTable<'_>, chain: &ExtendChain<'_>) -> Result<RuleDrafts, ScanError> {
    let text = TomlText::new(Some(chain.path()), text, KeyCase::Ignored);
    let root = RuleTable::new(&text, root, 0);
    let mut drafts = RuleDrafts::default();
    let rules = root.tables("rules");
    let lists = allow_lists(&root);
    let extend = root.table("extend").map(|table| Extend::read(&table));
    text.fail_on_mistakes()?;

    for table in rules {
        read_rule(&text, &table, &mut drafts);
    }
    for table in lists {
        let rules = table.strings("targetRules");
        match read_allow_list(&text, &table) {
            Ok(Some(list)) => drafts.allow.push(AllowList { rules, ..list }),
            Ok(None) => {}
            Err((origin, reason)) => {
                drafts.rejected.push(RejectedRule { id: "[[allowlists]]".into(), origin, reason })
            }
        }
    }
    if let Some(extend) = extend {
        extend.apply(&mut drafts, &text, chain)?;
    }
    Ok(drafts)
}

/// Returns the allow-lists of a rule or of the whole file, which have an old and a new form.
fn allow_lists<'a>(table: &RuleTable<'a>) -> Vec<RuleTable<'a>> {
    let mut lists = table.tables("allowlists");
    // The old form was a single table; some files have an array under the old name.
    let is_array = table.get("allowlist").is_some_and(|value| value.get_ref().is_array());
    if is_array {
        lists.extend(table.tables("allowlist"));
    } else {
        lists.extend(table.table("allowlist"));
    }
    lists
}

/// What a file says about the file that it extends.
struct Extend {
    path: String,
    use_default: bool,
    disabled: Vec<String>,
    origin: RuleOrigin,
}

impl Extend {
    fn read(table: &RuleTable<'_>) -> Extend {
        let extend = Extend {
            path: table.string("path"),
            use_default: table.flag("useDefault"),
            disabled: table.strings("disabledRules"),
            origin: table.origin(),
        };
        if extend.use_default && !extend.path.is_empty() {
            table.note("`useDefault` and `path` exclude each other; choose one");
        }
        extend
    }

    fn apply(
        self,
        drafts: &mut RuleDrafts,
        text: &TomlText<'_>,
        chain: &ExtendChain<'_>,
    ) -> Result<(), ScanError> {
        if self.use_default {
            drafts.rejected.push(RejectedRule {
                id: "useDefault".into(),
                origin: self.origin,
                reason:
                    "the default rules of gitleaks are not part of Pelton; the starter set is used instead"
                        .into(),
            });
            drafts.extend_from(crate::rules::starter_drafts(), &self.disabled);
        } else if !self.path.is_empty() {
            let line = self.origin.line.unwrap_or(1);
            let base = chain.read(&extended_path(chain.path(), &self.path), line)?;
            for name in self.disabled.iter().filter(|name| !base.rules.iter().any(|rule| rule.id == **name)) {
                drafts.rejected.push(RejectedRule {
                    id: name.clone(),
                    origin: self.origin.clone(),
                    reason: "`disabledRules` names this rule, but the extended file does not have it".into(),
                });
            }
            drafts.extend_from(base, &self.disabled);
        }
        text.fail_on_mistakes()
    }
}

/// Returns the path of an extended file. For gitleaks it is relative to the working directory; if there is no such
/// file, it is taken as relative to the folder of the extending file.
fn extended_path(extending: &Path, path: &str) -> std::path::PathBuf {
    let beside = extending.parent().unwrap_or(Path::new("")).join(path);
    if !Path::new(path).exists() && beside.exists() { beside } else { path.into() }
}

/// Reads a rule and adds it, or rejects it.
fn read_rule(text: &TomlText<'_>, table: &RuleTable<'_>, drafts: &mut RuleDrafts) {
    let expression = |key| {
        let (text, value) = table.string_value(key).filter(|(text, _)| !text.is_empty())?;
        let origin = table.origin_of(value);
        Some(ExpressionDraft { text: text.to_string(), syntax: ExpressionSyntax::Go, origin })
    };
    let mut rule = RuleDraft {
        id: table.string("id"),
        description: table.string("description"),
        regex: expression("regex"),
        path: expression("path"),
        secret_group: table.count("secretGroup").filter(|group| *group > 0),
        entropy: table.decimal("entropy").filter(|entropy| *entropy != 0.0),
        keywords: table.strings("keywords"),
        tags: table.strings("tags"),
        origin: table.origin(),
        ..RuleDraft::default()
    };
    let lists = allow_lists(table);
    if rule.id.is_empty() {
        table.note("it has no `id`");
        rule.id = "[[rules]]".into();
    }
    if !table.tables("required").is_empty() {
        table.note("it requires other rules nearby ([[rules.required]]), which is not supported");
    }
    if table.flag("skipReport") {
        table.note("`skipReport` is not supported: the rule could only be required by others");
    }
    if let Some(mistake) = text.take_mistakes().into_iter().next() {
        let origin = RuleOrigin { line: mistake.line, ..rule.origin };
        drafts.rejected.push(RejectedRule { id: rule.id, origin, reason: mistake.message });
        return;
    }
    for list in lists {
        match read_allow_list(text, &list) {
            Ok(Some(list)) => rule.allow.push(list),
            Ok(None) => {}
            Err((origin, reason)) => {
                drafts.rejected.push(RejectedRule { id: rule.id.clone(), origin, reason })
            }
        }
    }
    drafts.add(rule);
}

/// Reads an allow-list. Returns `None` for one that can never apply, and fails for one that is wrong, so that more is
/// found rather than less.
fn read_allow_list(
    text: &TomlText<'_>,
    table: &RuleTable<'_>,
) -> Result<Option<AllowList>, (RuleOrigin, String)> {
    let mut list = AllowList {
        description: table.string("description"),
        stopwords: table.strings("stopwords").iter().map(|word| word.to_lowercase()).collect(),
        origin: table.origin(),
        ..AllowList::default()
    };
    match table.string_value("condition").map(|(text, value)| (text.to_ascii_uppercase(), value)) {
        None => {}
        Some((word, value)) => match word.as_str() {
            "" | "OR" | "||" => {}
            "AND" | "&&" => list.condition = AllowCondition::All,
            _ => table.note_at(value, format!("there is no condition {word:?}; it is \"AND\" or \"OR\"")),
        },
    }
    match table.string_value("regexTarget") {
        None | Some(("" | "secret", _)) => {}
        Some(("match", _)) => list.target = AllowTarget::Match,
        Some(("line", _)) => list.target = AllowTarget::Line,
        Some((word, value)) => {
            table.note_at(
                value,
                format!("there is no regexTarget {word:?}; it is \"secret\", \"match\" or \"line\""),
            );
        }
    }
    for (key, compiled) in [("regexes", &mut list.regexes), ("paths", &mut list.paths)] {
        for (text, value) in table.string_values(key) {
            let origin = table.origin_of(value);
            let draft = ExpressionDraft { text: text.into(), syntax: ExpressionSyntax::Go, origin };
            match draft.compile() {
                Ok(regex) => compiled.push(regex),
                Err(reason) => table.note_at(value, format!("bad expression in `{key}`: {reason}")),
            }
        }
    }
    let has_commits = !table.strings("commits").is_empty();
    let is_empty = list.regexes.is_empty() && list.paths.is_empty() && list.stopwords.is_empty();
    match text.take_mistakes().into_iter().next() {
        Some(mistake) => {
            let origin = RuleOrigin { line: mistake.line, ..list.origin };
            Err((origin, format!("{}; this allow-list is not used", mistake.message)))
        }
        None if is_empty && !has_commits => {
            Err((list.origin, "an allow-list has no regexes, paths, stopwords or commits".into()))
        }
        None if is_empty || (has_commits && list.condition == AllowCondition::All) => Ok(None),
        None => Ok(Some(list)),
    }
}
