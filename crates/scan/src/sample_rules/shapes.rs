//! The forms of generated rules.

use super::random::SampleRandom;

const LOWER_DIGITS: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const HEX: &str = "0123456789abcdef";
const LETTERS_DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The classes of values, as an expression writes them and as the characters that they contain.
const VALUE_CLASSES: [(&str, &str); 4] = [
    ("[a-z0-9]", LOWER_DIGITS),
    ("[a-f0-9]", HEX),
    ("[a-z0-9_-]", LOWER_DIGITS),
    ("[a-zA-Z0-9]", LETTERS_DIGITS),
];

/// The lengths of values.
const VALUE_LENGTHS: [usize; 6] = [32, 40, 24, 36, 20, 64];

/// How a rule looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ShapeKind {
    /// A token that begins with a prefix of its own.
    Prefix,
    /// A service, words, an operator, and a value.
    Assignment,
    /// A service, a gap, and a value.
    Gap,
    /// A service, a gap, a word for secrets, another gap, and a value.
    TwoGaps,
}

/// The form of one rule, from which texts that it matches can be made.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    expression: String,
    example: ExampleForm,
}

/// How a matching text is made.
#[derive(Clone, Debug)]
enum ExampleForm {
    /// One of these texts.
    Given(Vec<String>),
    /// `before`, a random value, and `after`.
    Around { before: String, alphabet: &'static str, length: usize, after: &'static str },
}

impl Shape {
    /// The form of a rule that comes with examples.
    pub(super) fn of_examples(examples: Vec<String>) -> Shape {
        let lines = examples.into_iter().filter(|text| !text.contains('\n')).collect();
        Shape { expression: String::new(), example: ExampleForm::Given(lines) }
    }

    /// Makes the form of a rule for a service. `number` decides about what varies within a kind.
    pub(super) fn generate(kind: ShapeKind, service: &str, number: u64) -> Shape {
        let mut random = SampleRandom::new(number);
        let (class, alphabet) = *random.pick(&VALUE_CLASSES);
        let length = *random.pick(&VALUE_LENGTHS);
        let around = |before: String, after| ExampleForm::Around { before, alphabet, length, after };
        let (expression, example) = match kind {
            ShapeKind::Prefix => (
                format!(r"\b({service}_{class}{{{length}}})\b"),
                around(format!("token: \"{service}_"), "\""),
            ),
            ShapeKind::Assignment => (
                format!(
                    r#"(?i)[\w.-]{{0,50}}?(?:{service})(?:[ \t\w.-]{{0,20}})[\s'"]{{0,3}}(?:=|>|:{{1,3}}=|\|\||:|=>|\?=|,)[\x60'"\s=]{{0,5}}({class}{{{length}}})(?:[\x60'"\s;]|\\[nr]|$)"#
                ),
                around(format!("{service}_api_key = \""), "\";"),
            ),
            ShapeKind::Gap => {
                let gap = random.pick(&[40, 24, 32]);
                let expression =
                    format!(r"(?i)(?:{service})(?:.|[\n\r]){{0,{gap}}}?\b({class}{{{length}}})\b");
                (expression, around(format!("{service} id: \""), "\""))
            }
            ShapeKind::TwoGaps => (
                format!(
                    r"(?i)\b{service}(?:.|[\n\r]){{0,32}}?(?:secret|private|access|key|token)(?:.|[\n\r]){{0,32}}?\b({class}{{{length}}})\b"
                ),
                around(format!("{service}.access = \""), "\""),
            ),
        };
        Shape { expression, example }
    }

    /// The expression of a generated rule.
    pub(super) fn expression(&self) -> &str {
        &self.expression
    }

    /// A text that the rule matches, without line breaks.
    pub(super) fn example(&self, random: &mut SampleRandom) -> Option<String> {
        match &self.example {
            ExampleForm::Given(texts) if texts.is_empty() => None,
            ExampleForm::Given(texts) => Some(random.pick(texts).clone()),
            ExampleForm::Around { before, alphabet, length, after } => {
                Some(format!("{before}{}{after}", random.characters(alphabet, *length)))
            }
        }
    }
}
