//! Payloads and replies in lines of JSON: as base64, as text, or as words.

use std::borrow::Cow;
use std::io::Write;

use base64::DecodeError;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use pelton_filetest::hint::name_hint;

use crate::error::CliError;

/// How bytes are written in a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ByteForm {
    /// As base64, under the key `bytes`.
    Base64,
    /// As text, under the key `text`.
    Text,
    /// As an array of numbers of 32 bits, under the key `words`.
    Words,
}

impl ByteForm {
    const ALL: [ByteForm; 3] = [ByteForm::Base64, ByteForm::Text, ByteForm::Words];

    /// The key of bytes in this form.
    fn key(self) -> &'static str {
        match self {
            ByteForm::Base64 => "bytes",
            ByteForm::Text => "text",
            ByteForm::Words => "words",
        }
    }

    /// Finds a form by its key.
    pub(super) fn parse(text: &str) -> Result<ByteForm, String> {
        ByteForm::ALL.into_iter().find(|form| form.key() == text).ok_or_else(|| {
            let keys = ByteForm::ALL.map(ByteForm::key);
            format!("a reply cannot be written as `{text}`; {}", name_hint(text, &keys))
        })
    }
}

/// The payload of a line, in whatever form it has.
pub(super) struct LinePayload<'a> {
    pub bytes: Option<Cow<'a, str>>,
    pub text: Option<Cow<'a, str>>,
    pub words: Option<Vec<u32>>,
}

impl LinePayload<'_> {
    /// Returns the bytes of the payload and its form, or `None` if the line has no payload.
    pub(super) fn decode(self) -> Result<Option<(Vec<u8>, ByteForm)>, String> {
        match (self.bytes, self.text, self.words) {
            (None, None, None) => Ok(None),
            (Some(bytes), None, None) => Ok(Some((decode_base64(&bytes)?, ByteForm::Base64))),
            (None, Some(text), None) => Ok(Some((text.into_owned().into_bytes(), ByteForm::Text))),
            (None, None, Some(words)) => {
                Ok(Some((words.iter().flat_map(|word| word.to_le_bytes()).collect(), ByteForm::Words)))
            }
            _ => Err("a task has one payload: give one of `bytes`, `text` and `words`".into()),
        }
    }
}

/// Decodes base64, or says where it is wrong.
fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    BASE64_STANDARD.decode(text).map_err(|error| {
        let why = match error {
            // The place is that of a byte, which may be in the middle of a character.
            DecodeError::InvalidByte(at, _) => {
                let found = text.char_indices().zip(1..).take_while(|((from, _), _)| *from <= at).last();
                found.map_or(String::new(), |((_, found), number)| format!("character {number} is {found:?}"))
            }
            DecodeError::InvalidLength(len) => format!("it has {len} characters and ends too early"),
            DecodeError::InvalidLastSymbol { .. } => {
                "its last character has bits that belong to no byte".into()
            }
            DecodeError::InvalidPadding => {
                "it must be filled up with `=` to a multiple of 4 characters".into()
            }
        };
        format!("`bytes` is not base64: {why}")
    })
}

/// Writes a reply as a key and a value, after a comma. An empty reply is not written. Text that is not UTF-8 is
/// written as base64.
pub(super) fn write_reply(out: &mut impl Write, reply: &[u8], form: ByteForm) -> Result<(), CliError> {
    if reply.is_empty() {
        return Ok(());
    }
    let text = str::from_utf8(reply).ok().filter(|_| form == ByteForm::Text);
    match (form, text) {
        (ByteForm::Words, _) => {
            write!(out, ", \"words\": [")?;
            for (at, chunk) in reply.chunks(4).enumerate() {
                let mut word = [0; 4];
                word[..chunk.len()].copy_from_slice(chunk);
                let comma = if at == 0 { "" } else { ", " };
                write!(out, "{comma}{}", u32::from_le_bytes(word))?;
            }
            write!(out, "]")?;
        }
        (_, Some(text)) => write!(out, ", \"text\": {}", serde_json::Value::from(text))?,
        (_, None) => write!(out, ", \"bytes\": \"{}\"", BASE64_STANDARD.encode(reply))?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(bytes: Option<&str>, text: Option<&str>, words: Option<&[u32]>) -> LinePayload<'static> {
        let owned = |text: Option<&str>| text.map(|text| Cow::Owned(text.to_owned()));
        LinePayload { bytes: owned(bytes), text: owned(text), words: words.map(<[u32]>::to_vec) }
    }

    #[test]
    fn every_form_is_bytes() {
        let same = b"hi, you!".to_vec();
        for (line, form) in [
            (payload(Some("aGksIHlvdSE="), None, None), ByteForm::Base64),
            (payload(None, Some("hi, you!"), None), ByteForm::Text),
            (payload(None, None, Some(&[0x202c_6968, 0x2175_6f79])), ByteForm::Words),
        ] {
            assert_eq!(line.decode(), Ok(Some((same.clone(), form))));
        }
        assert_eq!(payload(None, None, None).decode(), Ok(None));
        assert_eq!(payload(Some(""), None, None).decode(), Ok(Some((Vec::new(), ByteForm::Base64))));
    }

    #[test]
    fn base64_that_is_wrong_says_where() {
        for (text, why) in [
            ("aGk!", "character 4 is '!'"),
            ("aG ks", "character 3 is ' '"),
            ("aGkä", "character 4 is 'ä'"),
            ("aGksI", "it has 5 characters and ends too early"),
            ("aGk", "it must be filled up with `=` to a multiple of 4 characters"),
            ("aGl=", "its last character has bits that belong to no byte"),
            ("=aGk", "character 1 is '='"),
        ] {
            let found = payload(Some(text), None, None).decode().unwrap_err();
            assert_eq!(found, format!("`bytes` is not base64: {why}"), "{text}");
        }
        let two = payload(Some(""), Some(""), None).decode().unwrap_err();
        assert_eq!(two, "a task has one payload: give one of `bytes`, `text` and `words`");
    }

    #[test]
    fn replies_are_json() {
        let line = |reply: &[u8], form| {
            let mut out = Vec::new();
            write_reply(&mut out, reply, form).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(line(b"", ByteForm::Text), "");
        assert_eq!(line(b"a\"b\n", ByteForm::Text), r#", "text": "a\"b\n""#);
        assert_eq!(line(b"\xff\xfe", ByteForm::Text), r#", "bytes": "//4=""#);
        assert_eq!(line(b"\x01\x00\x00\x00\x02", ByteForm::Words), r#", "words": [1, 2]"#);
    }
}
