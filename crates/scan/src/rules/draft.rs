//! Drafts: rules as they were read, before their expressions are parsed.
//!
//! A file may extend another one and change a rule of it field by field, so a rule is complete only when all files have
//! been read. Until then it is a draft.

use regex::bytes::{Regex, RegexBuilder};

use crate::expression::Expression;
use crate::rule::{AllowList, RejectedRule, Rule, RuleOrigin, RuleSet};
use crate::rules::go_syntax;

/// The language that an expression is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ExpressionSyntax {
    /// That of the `regex` crate.
    Regex,
    /// That of Go.
    Go,
}

/// An expression as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ExpressionDraft {
    pub(super) text: String,
    pub(super) syntax: ExpressionSyntax,
    pub(super) origin: RuleOrigin,
}

impl ExpressionDraft {
    /// Parses the expression, or says why that fails.
    pub(super) fn parse(&self) -> Result<Expression, String> {
        let text = match self.syntax {
            ExpressionSyntax::Regex => self.text.clone(),
            ExpressionSyntax::Go => go_syntax::translate(&self.text)?,
        };
        Expression::parse(&text).map_err(|error| match error.at {
            Some(at) => format!("{error} at byte {at}"),
            None => error.to_string(),
        })
    }

    /// Parses and compiles the expression. Only expressions over paths and those of allow-lists are compiled as they
    /// are read: there are few of them, and they are small.
    pub(super) fn compile(&self) -> Result<Regex, String> {
        let expression = self.parse()?;
        let built = RegexBuilder::new(expression.text()).unicode(expression.unicode()).build();
        built.map_err(|error| error.to_string())
    }
}

/// A rule as it was read.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleDraft {
    pub(super) id: String,
    pub(super) description: String,
    pub(super) regex: Option<ExpressionDraft>,
    pub(super) path: Option<ExpressionDraft>,
    pub(super) secret_group: Option<u32>,
    pub(super) entropy: Option<f64>,
    pub(super) keywords: Vec<String>,
    pub(super) tags: Vec<String>,
    pub(super) allow: Vec<AllowList>,
    pub(super) positive: Vec<String>,
    pub(super) negative: Vec<String>,
    pub(super) origin: RuleOrigin,
}

impl RuleDraft {
    /// Completes a rule with the fields of the rule of the same name in an extended file. Single values of the extending
    /// rule replace those of the extended rule, and its lists are appended to those of the extended rule.
    fn complete(&mut self, base: RuleDraft) {
        let RuleDraft { description, regex, path, secret_group, entropy, .. } = base;
        if self.description.is_empty() {
            self.description = description;
        }
        self.regex = self.regex.take().or(regex);
        self.path = self.path.take().or(path);
        self.secret_group = self.secret_group.or(secret_group);
        self.entropy = self.entropy.or(entropy);
        prepend(&mut self.keywords, base.keywords);
        prepend(&mut self.tags, base.tags);
        prepend(&mut self.allow, base.allow);
        prepend(&mut self.positive, base.positive);
        prepend(&mut self.negative, base.negative);
    }

    /// Makes a rule of the draft, or says why it cannot be used.
    fn finish(self) -> Result<Rule, RejectedRule> {
        let reject = |origin: &RuleOrigin, reason: String| {
            Err(RejectedRule { id: self.id.clone(), origin: origin.clone(), reason })
        };
        if self.regex.is_none() && self.path.is_none() {
            return reject(
                &self.origin,
                "it has neither `regex` nor `path`, so there is nothing to find".into(),
            );
        }
        let expression = match self.regex.as_ref().map(|draft| (draft, draft.parse())) {
            None => None,
            Some((_, Ok(expression))) => Some(expression),
            Some((draft, Err(reason))) => return reject(&draft.origin, format!("bad `regex`: {reason}")),
        };
        let path = match self.path.as_ref().map(|draft| (draft, draft.compile())) {
            None => None,
            Some((_, Ok(path))) => Some(path),
            Some((draft, Err(reason))) => return reject(&draft.origin, format!("bad `path`: {reason}")),
        };
        if let (Some(group), Some(expression)) = (self.secret_group, &expression) {
            let groups = expression.hir().properties().explicit_captures_len();
            if group as usize > groups {
                let reason =
                    format!("the secret should be group {group}, but the number of groups is {groups}");
                return reject(&self.origin, reason);
            }
        }
        Ok(Rule {
            id: self.id,
            description: self.description,
            expression,
            path,
            secret_group: self.secret_group,
            entropy: self.entropy,
            keywords: self.keywords,
            allow: self.allow,
            tags: self.tags,
            filters: Default::default(),
            origin: self.origin,
            positive: self.positive,
            negative: self.negative,
        })
    }
}

/// Puts the elements of `first` before those of `list`.
fn prepend<T>(list: &mut Vec<T>, mut first: Vec<T>) {
    first.append(list);
    *list = first;
}

/// All rules of a file and of the files that it extends.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleDrafts {
    pub(super) rules: Vec<RuleDraft>,
    pub(super) allow: Vec<AllowList>,
    pub(super) rejected: Vec<RejectedRule>,
}

impl RuleDrafts {
    /// Adds a rule. A second rule of the same name is rejected.
    pub(super) fn add(&mut self, rule: RuleDraft) {
        match self.rules.iter().find(|other| other.id == rule.id) {
            None => self.rules.push(rule),
            Some(first) => self.rejected.push(duplicate(rule.id.clone(), rule.origin, &first.origin)),
        }
    }

    /// Adds what an extended file has, without the rules that are disabled. Rules of the extended file come first.
    pub(super) fn extend_from(&mut self, base: RuleDrafts, disabled: &[String]) {
        let mut own = std::mem::take(&mut self.rules);
        for rule in base.rules {
            if disabled.contains(&rule.id) {
                continue;
            }
            match own.iter().position(|other| other.id == rule.id) {
                None => self.rules.push(rule),
                Some(at) => {
                    let mut completed = own.remove(at);
                    completed.complete(rule);
                    self.rules.push(completed);
                }
            }
        }
        self.rules.append(&mut own);
        prepend(&mut self.allow, base.allow);
        prepend(&mut self.rejected, base.rejected);
    }

    /// Checks all drafts.
    pub(super) fn finish(self) -> RuleSet {
        let mut set = RuleSet { rejected: self.rejected, allow: self.allow, ..RuleSet::default() };
        let ids: Vec<String> = self.rules.iter().map(|rule| rule.id.clone()).collect();
        for rule in self.rules {
            match rule.finish() {
                Ok(rule) => set.rules.push(rule),
                Err(rejected) => set.rejected.push(rejected),
            }
        }
        for list in &mut set.allow {
            for name in list.rules.iter().filter(|name| !ids.contains(name)) {
                set.rejected.push(RejectedRule {
                    id: name.clone(),
                    origin: list.origin.clone(),
                    reason: "an allow-list is for this rule, but there is no rule of this name".into(),
                });
            }
        }
        set
    }
}

/// Rejects a rule whose name is taken.
pub(crate) fn duplicate(id: String, origin: RuleOrigin, first: &RuleOrigin) -> RejectedRule {
    let place = match first.to_string() {
        place if place.is_empty() => "elsewhere".to_string(),
        place => format!("at {place}"),
    };
    RejectedRule { id, origin, reason: format!("a rule of this name is already defined {place}") }
}
