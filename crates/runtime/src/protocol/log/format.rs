//! Formats, which turn the records of the debug log into text.

use std::fmt::Write;
use std::str::FromStr;

use super::LogRecord;
use crate::protocol::Malformed;

/// How a value is printed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Style {
    Unsigned,
    Hex,
    Signed,
    Float,
}

/// The placeholders of a format, each with the way in which it prints a value.
const STYLES: [(&str, Style); 4] =
    [("{}", Style::Unsigned), ("{:x}", Style::Hex), ("{:i}", Style::Signed), ("{:f}", Style::Float)];

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum FormatPiece {
    Text(String),
    Value(Style),
}

/// A text with at most two placeholders for values: `{}` prints an unsigned number, `{:x}` hexadecimal digits, `{:i}`
/// an `i32`, and `{:f}` the `f32` with these bits. `{{` and `}}` print a brace.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Format(Vec<FormatPiece>);

/// The number of values in a record.
const VALUES: usize = 2;

impl FromStr for Format {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Format, Malformed> {
        let wrong = |at, why| Malformed::Format { text: text.into(), at, why };
        let (mut pieces, mut plain, mut values) = (Vec::new(), String::new(), 0);
        let mut at = 0;
        while let Some(next) = text[at..].chars().next() {
            let rest = &text[at..];
            if rest.starts_with("{{") || rest.starts_with("}}") {
                plain.push(next);
                at += 2;
            } else if let Some((word, style)) = STYLES.iter().find(|(word, _)| rest.starts_with(word)) {
                values += 1;
                if values > VALUES {
                    return Err(wrong(at, "a record has only two values"));
                }
                pieces.push(FormatPiece::Text(std::mem::take(&mut plain)));
                pieces.push(FormatPiece::Value(*style));
                at += word.len();
            } else if next == '{' {
                return Err(wrong(at, "a placeholder is {}, {:x}, {:i} or {:f}, and {{ prints a brace"));
            } else if next == '}' {
                return Err(wrong(at, "}} prints a closing brace"));
            } else {
                plain.push(next);
                at += next.len_utf8();
            }
        }
        pieces.push(FormatPiece::Text(plain));
        Ok(Format(pieces))
    }
}

impl Format {
    /// Returns the text of a record.
    pub fn render(&self, record: &LogRecord) -> String {
        let (mut text, mut values) = (String::new(), record.values.iter());
        for piece in &self.0 {
            match piece {
                FormatPiece::Text(plain) => text.push_str(plain),
                FormatPiece::Value(style) => show(&mut text, *style, values.next().copied().unwrap_or(0)),
            }
        }
        text
    }
}

fn show(text: &mut String, style: Style, value: u32) {
    // Writing to a string cannot fail.
    let _ = match style {
        Style::Unsigned => write!(text, "{value}"),
        Style::Hex => write!(text, "{value:x}"),
        Style::Signed => write!(text, "{}", value as i32),
        Style::Float => write!(text, "{}", f32::from_bits(value)),
    };
}
