//! The JSON objects that `--json` prints.

use std::fs;
use std::path::Path;

use pelton_filetest::data::{BufferData, spell_element};
use pelton_ir::module::TextPlace;
use pelton_ir::text::Diagnostic;
use pelton_ir::types::{Const, Type};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::exec;
use crate::source::ModuleSource;
use crate::term::Term;

/// Refuses a file that [`write_rows`] could not write, before anything is measured.
pub(crate) fn check_rows_writable(path: Option<&Path>) -> Result<(), CliError> {
    path.filter(|path| *path != Path::new("-")).map_or(Ok(()), exec::check_writable)
}

/// Writes rows where `--json FILE` says, and returns whether to print a table as well. There is none if the rows go
/// to standard output, which the path `-` asks for.
pub(crate) fn write_rows(path: Option<&Path>, rows: &str, term: &Term) -> Result<bool, CliError> {
    match path {
        None => Ok(true),
        Some(path) if path == Path::new("-") => term.text(rows).map(|()| false),
        Some(path) => {
            fs::write(path, rows).map_err(|source| CliError::Write { path: path.into(), source })?;
            Ok(true)
        }
    }
}

/// A diagnostic as JSON: `{"file", "code", "message", "label", "notes", "start", "end", "also"}`.
pub(crate) fn diagnostic_json(source: &ModuleSource, diagnostic: &Diagnostic) -> Value {
    let position = |byte: u32| position_json(&source.text, byte as usize);
    let TextPlace { start, end } = diagnostic.place;
    let also = diagnostic.also.iter().map(
        |(place, how)| json!({ "message": how, "start": position(place.start), "end": position(place.end) }),
    );
    json!({
        "file": source.name,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "label": diagnostic.label,
        "notes": diagnostic.notes,
        "start": position(start),
        "end": position(end),
        "also": also.collect::<Vec<_>>(),
    })
}

/// A place in a text as JSON: line and column from 1, with the column in characters, and the byte from 0.
pub(crate) fn position_json(text: &str, byte: usize) -> Value {
    let byte = text.floor_char_boundary(byte.min(text.len()));
    let before = &text[..byte];
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    json!({ "line": line, "column": before[start..].chars().count() + 1, "byte": byte })
}

/// A buffer as JSON: `{"type", "len", "values"}`.
pub(crate) fn buffer_json(data: &BufferData) -> Value {
    json!({ "type": data.elem().word(), "len": data.len(), "values": data.iter().map(number_json).collect::<Vec<_>>() })
}

/// A number as JSON. A float that JSON has no number for is a string, spelled as in the language.
fn number_json(c: Const) -> Value {
    match c.ty() {
        Type::U32 | Type::U64 => c.bits().into(),
        Type::I32 => (c.bits() as u32 as i32).into(),
        Type::Bool => (c.bits() == 1).into(),
        Type::F32 => match f32::from_bits(c.bits() as u32) {
            x if x.is_finite() => f64::from(x).into(),
            _ => spell_element(c).into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::position_json;
    use serde_json::json;

    #[test]
    fn columns_count_characters() {
        let text = "a\néb";
        assert_eq!(position_json(text, 0), json!({ "line": 1, "column": 1, "byte": 0 }));
        assert_eq!(position_json(text, 4), json!({ "line": 2, "column": 2, "byte": 4 }));
        assert_eq!(position_json(text, 3), json!({ "line": 2, "column": 1, "byte": 2 }));
        assert_eq!(position_json(text, 99), json!({ "line": 2, "column": 3, "byte": 5 }));
    }
}
