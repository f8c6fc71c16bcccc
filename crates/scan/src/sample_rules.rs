//! Sets of rules that are generated, for benchmarks and tests.
//!
//! The sets resemble those of scanners for secrets in what matters to speed: the forms of their expressions, and how
//! often their literals occur in source code. Most services are invented, some have names that are common words. The
//! same call always returns the same set.

mod random;
mod shapes;
mod words;

pub use random::SampleRandom;

use crate::rule::{FilterUse, Rule, RuleSet};
use crate::rules;
use shapes::{Shape, ShapeKind};

/// Every so many keywords of generated sets of any size, there is a common word.
const COMMON_PERIOD: usize = 10;

/// A set of rules, and what it takes to write texts in which each of them finds something.
#[derive(Clone, Debug)]
pub struct SampleRules {
    rules: Vec<Rule>,
    shapes: Vec<Shape>,
}

impl SampleRules {
    /// Returns a set of about 220 rules of the kinds that are most widespread: tokens with a prefix of their own, and
    /// keywords that stand before an assigned value.
    pub fn easy() -> SampleRules {
        SampleRules::with_starter(220, 4, |number| match number % 3 {
            0 => ShapeKind::Prefix,
            _ => ShapeKind::Assignment,
        })
    }

    /// Returns a set of about 740 rules with loose gaps, in which anything may stand between a keyword and a value.
    pub fn hard() -> SampleRules {
        SampleRules::with_starter(740, 10, |number| match number % 10 {
            0 => ShapeKind::Prefix,
            1 => ShapeKind::Assignment,
            2..=5 => ShapeKind::TwoGaps,
            _ => ShapeKind::Gap,
        })
    }

    /// Returns a set of `count` rules of all kinds, without those of the starter set.
    pub fn generate(count: usize) -> SampleRules {
        let kinds = [ShapeKind::Prefix, ShapeKind::Assignment, ShapeKind::TwoGaps, ShapeKind::Gap];
        let mut set = SampleRules { rules: Vec::new(), shapes: Vec::new() };
        set.fill(count, COMMON_PERIOD, |number| kinds[number % kinds.len()]);
        set
    }

    /// Returns half of the rules of the starter set, and generated ones up to `count` in all. Every `period`-th keyword is a
    /// common word.
    fn with_starter(count: usize, period: usize, kind: impl Fn(usize) -> ShapeKind) -> SampleRules {
        let mut set = SampleRules { rules: Vec::new(), shapes: Vec::new() };
        // Not all of them, so that the kinds of rules are mixed as in other scanners' sets.
        for rule in rules::starter().rules.into_iter().step_by(2) {
            let Some(expression) = rule.expression else { continue };
            set.shapes.push(Shape::of_examples(rule.positive));
            set.rules.push(bare_rule(rule.id, expression));
        }
        set.fill(count, period, kind);
        set
    }

    /// Adds generated rules until there are `count`.
    fn fill(&mut self, count: usize, period: usize, kind: impl Fn(usize) -> ShapeKind) {
        let mut services = words::ServiceWords::new(period);
        for number in 0..count.saturating_sub(self.rules.len()) {
            let kind = kind(number);
            let service = match kind {
                ShapeKind::Prefix => services.invented(),
                _ => services.next_word(),
            };
            let shape = Shape::generate(kind, &service, number as u64);
            let text = shape.expression();
            let expression = crate::Expression::parse(text)
                .unwrap_or_else(|error| panic!("the generated expression {text} is wrong: {error}"));
            self.rules.push(bare_rule(format!("{service}-{number}"), expression));
            self.shapes.push(shape);
        }
    }

    /// Returns the rules as a set. No filter applies to them, so that every match of an expression is a finding.
    pub fn set(&self) -> RuleSet {
        RuleSet { rules: self.rules.clone(), ..RuleSet::default() }
    }

    /// Returns the number of rules.
    pub fn count(&self) -> usize {
        self.rules.len()
    }

    /// Returns a line in which a rule matches, without a line break; `None` if none is known.
    ///
    /// # Panics
    ///
    /// If there is no such rule.
    pub fn example(&self, rule: usize, random: &mut SampleRandom) -> Option<String> {
        self.shapes[rule].example(random)
    }
}

/// Makes a rule that no filter applies to.
fn bare_rule(id: String, expression: crate::Expression) -> Rule {
    Rule { id, expression: Some(expression), filters: FilterUse::Skip, ..Rule::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_matches_its_rule() {
        let mut random = SampleRandom::new(3);
        for (set, least) in
            [(SampleRules::easy(), 200), (SampleRules::hard(), 700), (SampleRules::generate(40), 40)]
        {
            assert!(set.count() >= least);
            for (number, rule) in set.set().rules.iter().enumerate() {
                let Some(example) = set.example(number, &mut random) else { continue };
                let expression = rule.expression.as_ref().unwrap();
                let regex = regex::bytes::RegexBuilder::new(expression.text())
                    .unicode(expression.unicode())
                    .build()
                    .unwrap();
                let text = format!("fn main() {{}}\n    {example}\nlet x = 1;\n");
                assert!(regex.is_match(text.as_bytes()), "{}: {text}", expression.text());
            }
        }
    }

    #[test]
    fn names_and_expressions_differ_and_stay_the_same() {
        let (set, again) = (SampleRules::generate(3000).set(), SampleRules::generate(3000).set());
        let mut seen = std::collections::BTreeSet::new();
        for (rule, same) in set.rules.iter().zip(&again.rules) {
            assert_eq!(rule.expression, same.expression);
            assert!(seen.insert(rule.id.clone()), "{} twice", rule.id);
            let text = rule.expression.as_ref().unwrap().text().to_string();
            assert!(seen.insert(text.clone()), "{text} twice");
        }
    }
}
