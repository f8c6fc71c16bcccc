//! The reader of Pelton's own format.
//!
//! Everything in a file must be understood: a key that does not exist is a mistake in the file, because a misspelled
//! filter would otherwise hide secrets or report too many.

use std::path::Path;

use toml::de::DeTable;

use crate::error::ScanError;
use crate::rule::{AllowCondition, AllowList, AllowTarget, RejectedRule};
use crate::rules::draft::{ExpressionDraft, ExpressionSyntax, RuleDraft, RuleDrafts};
use crate::rules::extend::{ExtendChain, STARTER_NAME};
use crate::rules::toml_table::{KeyCase, RuleTable, TomlText};

/// Reads a file in our own format. `path` is `None` for the starter set.
pub(super) fn read(
    path: Option<&Path>,
    text: &str,
    root: &DeTable<'_>,
    chain: &ExtendChain<'_>,
) -> Result<RuleDrafts, ScanError> {
    let text = TomlText::new(path, text, KeyCase::Exact);
    let root = RuleTable::new(&text, root, 0);
    let mut drafts = RuleDrafts::default();
    let bases = root.string_values("extend");
    let disabled = root.string_values("disable");
    for table in root.tables("rule") {
        if let Some(rule) = read_rule(table, &mut drafts.rejected) {
            drafts.add(rule);
        }
    }
    for table in root.tables("allow") {
        let rules = table.strings("rules");
        match read_allow_list(table) {
            Ok(list) => drafts.allow.push(AllowList { rules, ..list }),
            Err(rejected) => drafts.rejected.push(rejected),
        }
    }
    if !disabled.is_empty() && bases.is_empty() {
        root.note_at(disabled[0].1, "`disable` needs `extend`, since it names rules of extended files");
    }
    root.refuse_unknown_keys();
    text.fail_on_mistakes()?;

    let mut extended = RuleDrafts::default();
    for (name, value) in bases {
        let line = text.line_at(value.span().start);
        let base = match name {
            STARTER_NAME => crate::rules::starter_drafts(),
            _ => {
                let folder = path.and_then(Path::parent).unwrap_or(Path::new(""));
                chain.read(&folder.join(name), line)?
            }
        };
        // The later one of two extended files has precedence, as the extending file has over both.
        let mut later = base;
        later.extend_from(std::mem::take(&mut extended), &[]);
        extended = later;
    }
    for (name, value) in &disabled {
        if !extended.rules.iter().any(|rule| rule.id == *name) {
            drafts.rejected.push(RejectedRule {
                id: name.to_string(),
                origin: text.origin_at(value.span().start),
                reason: "`disable` names this rule, but no extended file has it".into(),
            });
        }
    }
    let disabled: Vec<String> = disabled.iter().map(|(name, _)| name.to_string()).collect();
    drafts.extend_from(extended, &disabled);
    Ok(drafts)
}

fn read_rule(table: RuleTable<'_>, rejected: &mut Vec<RejectedRule>) -> Option<RuleDraft> {
    let expression = |key| {
        table.string_value(key).map(|(text, value)| ExpressionDraft {
            text: text.to_string(),
            syntax: ExpressionSyntax::Regex,
            origin: table.origin_of(value),
        })
    };
    let mut rule = RuleDraft {
        id: table.string("id"),
        description: table.string("description"),
        regex: expression("regex"),
        path: expression("path"),
        secret_group: table.count("secret_group"),
        entropy: table.decimal("entropy"),
        keywords: table.strings("keywords"),
        tags: table.strings("tags"),
        allow: Vec::new(),
        positive: table.strings("positive"),
        negative: table.strings("negative"),
        origin: table.origin(),
    };
    if rule.id.is_empty() {
        table.note("this rule has no name; give it one with `id`");
    }
    for list in table.tables("allow") {
        match read_allow_list(list) {
            Ok(list) => rule.allow.push(list),
            Err(reason) => rejected.push(RejectedRule { id: rule.id.clone(), ..reason }),
        }
    }
    table.refuse_unknown_keys();
    (!rule.id.is_empty()).then_some(rule)
}

/// Reads an allow-list. If one of its expressions is wrong, the whole list is rejected, so that too much is found rather
/// than too little.
fn read_allow_list(table: RuleTable<'_>) -> Result<AllowList, RejectedRule> {
    let mut list = AllowList {
        description: table.string("description"),
        stopwords: table.strings("stopwords").iter().map(|word| word.to_lowercase()).collect(),
        origin: table.origin(),
        ..AllowList::default()
    };
    match table.string_value("condition") {
        None | Some(("any", _)) => {}
        Some(("all", _)) => list.condition = AllowCondition::All,
        Some((_, value)) => table.note_at(value, "`condition` must be \"any\" or \"all\""),
    }
    match table.string_value("target") {
        None | Some(("secret", _)) => {}
        Some(("match", _)) => list.target = AllowTarget::Match,
        Some(("line", _)) => list.target = AllowTarget::Line,
        Some((_, value)) => table.note_at(value, "`target` must be \"secret\", \"match\" or \"line\""),
    }
    let texts = [("regexes", table.string_values("regexes")), ("paths", table.string_values("paths"))];
    if list.stopwords.is_empty() && texts.iter().all(|(_, texts)| texts.is_empty()) {
        table.note("this allow-list allows nothing; give it `regexes`, `paths` or `stopwords`");
    }
    let mut bad = None;
    for (key, texts) in texts {
        for (text, value) in texts {
            let origin = table.origin_of(value);
            let draft = ExpressionDraft { text: text.into(), syntax: ExpressionSyntax::Regex, origin };
            match draft.compile() {
                Ok(regex) if key == "paths" => list.paths.push(regex),
                Ok(regex) => list.regexes.push(regex),
                Err(reason) => {
                    bad = bad.or(Some((draft.origin, format!("bad expression in `{key}`: {reason}"))))
                }
            }
        }
    }
    // `rules` is read by the caller, where it is allowed.
    table.refuse_unknown_keys();
    match bad {
        None => Ok(list),
        Some((origin, reason)) => {
            let reason = format!("{reason}; this allow-list is not used");
            Err(RejectedRule { id: "[[allow]]".into(), origin, reason })
        }
    }
}
