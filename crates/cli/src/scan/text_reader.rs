//! Reads text: UTF-16 that begins with a byte order mark becomes UTF-8, and everything else stays as it is.

use std::io::{self, Read};

/// The number of bytes at the beginning of a file by which it is decided whether it is binary. Git uses the same number.
pub(super) const HEAD_LENGTH: usize = 8000;

/// What the beginning of a file says about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FileKind {
    /// Bytes to be scanned as they are.
    Text,
    /// UTF-16.
    Utf16(ByteOrder),
    /// Something with NUL in it.
    Binary,
}

/// The order of the two bytes of a unit of UTF-16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ByteOrder {
    /// The low byte comes first.
    Little,
    /// The high byte comes first.
    Big,
}

impl FileKind {
    /// Judges a file by its first bytes.
    pub(super) fn of(head: &[u8]) -> FileKind {
        match head {
            // A byte order mark of UTF-32.
            [0xff, 0xfe, 0, 0, ..] => FileKind::Binary,
            [0xff, 0xfe, ..] => FileKind::Utf16(ByteOrder::Little),
            [0xfe, 0xff, ..] => FileKind::Utf16(ByteOrder::Big),
            _ if head[..head.len().min(HEAD_LENGTH)].contains(&0) => FileKind::Binary,
            _ => FileKind::Text,
        }
    }
}

/// A reader that decodes UTF-16 with a byte order mark, and passes on everything else.
pub(super) struct TextReader<R> {
    input: R,
    mode: Option<TextMode>,
    /// Bytes that were read or made and not passed on yet: those from `given` on.
    ready: Vec<u8>,
    given: usize,
}

enum TextMode {
    Plain,
    Decode(Utf16Decoder),
}

/// The largest number of bytes that are decoded at once.
const DECODED_AT_ONCE: usize = 1 << 16;

impl<R: Read> TextReader<R> {
    /// Makes a reader.
    pub(super) fn new(input: R) -> TextReader<R> {
        TextReader { input, mode: None, ready: Vec::new(), given: 0 }
    }

    /// Reads the first bytes, and decides by them.
    fn begin(&mut self) -> io::Result<()> {
        let mut head = [0; 4];
        let mut known = 0;
        // More than two bytes are only needed to tell UTF-16 from UTF-32.
        while known < 2 || known < 4 && head[..2] == [0xff, 0xfe] {
            match self.input.read(&mut head[known..]) {
                Ok(0) => break,
                Ok(read) => known += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let head = &head[..known];
        self.mode = Some(match FileKind::of(head) {
            FileKind::Utf16(order) => {
                let mut decoder = Utf16Decoder { order, odd: None, high: None };
                decoder.decode(&head[2..], &mut self.ready);
                TextMode::Decode(decoder)
            }
            FileKind::Text | FileKind::Binary => {
                self.ready.extend_from_slice(head);
                TextMode::Plain
            }
        });
        Ok(())
    }
}

impl<R: Read> Read for TextReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.mode.is_none() {
            self.begin()?;
        }
        while self.given == self.ready.len() {
            let decoder = match &mut self.mode {
                Some(TextMode::Decode(decoder)) if !to.is_empty() => decoder,
                _ => return self.input.read(to),
            };
            (self.given, self.ready) = (0, Vec::new());
            let mut bytes = vec![0; DECODED_AT_ONCE];
            let read = self.input.read(&mut bytes)?;
            if read == 0 {
                decoder.finish(&mut self.ready);
                if self.ready.is_empty() {
                    return Ok(0);
                }
            }
            decoder.decode(&bytes[..read], &mut self.ready);
        }
        let some = to.len().min(self.ready.len() - self.given);
        to[..some].copy_from_slice(&self.ready[self.given..self.given + some]);
        self.given += some;
        Ok(some)
    }
}

/// Decodes UTF-16 in pieces. What is not UTF-16 becomes U+FFFD.
struct Utf16Decoder {
    order: ByteOrder,
    /// The first byte of a unit whose second byte is in the next piece.
    odd: Option<u8>,
    /// The first half of a surrogate pair whose second half is in the next piece.
    high: Option<u16>,
}

impl Utf16Decoder {
    /// Appends what the bytes stand for.
    fn decode(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for byte in bytes {
            let Some(first) = self.odd.take() else {
                self.odd = Some(*byte);
                continue;
            };
            let unit = match self.order {
                ByteOrder::Little => u16::from_le_bytes([first, *byte]),
                ByteOrder::Big => u16::from_be_bytes([first, *byte]),
            };
            let pending = self.high.take();
            match (pending, unit) {
                (None, 0xd800..=0xdbff) => self.high = Some(unit),
                (Some(_), 0xd800..=0xdbff) => {
                    push_char(out, char::REPLACEMENT_CHARACTER);
                    self.high = Some(unit);
                }
                (pending, unit) => {
                    let units = pending.into_iter().chain([unit]);
                    for c in char::decode_utf16(units) {
                        push_char(out, c.unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                }
            }
        }
    }

    /// Appends what stands for a half character at the end.
    fn finish(&mut self, out: &mut Vec<u8>) {
        let (high, odd) = (self.high.take(), self.odd.take());
        if high.is_some() || odd.is_some() {
            push_char(out, char::REPLACEMENT_CHARACTER);
        }
    }
}

fn push_char(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns a few bytes at a time.
    struct SlowBytes<'b>(&'b [u8], usize);

    impl Read for SlowBytes<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let some = self.1.min(self.0.len()).min(to.len());
            to[..some].copy_from_slice(&self.0[..some]);
            self.0 = &self.0[some..];
            Ok(some)
        }
    }

    fn text(bytes: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        TextReader::new(bytes).read_to_end(&mut all).expect("it can be read");
        for step in [1, 2, 3, 5] {
            let mut slow = Vec::new();
            TextReader::new(SlowBytes(bytes, step)).read_to_end(&mut slow).expect("it can be read");
            assert_eq!(slow, all, "{step} at a time");
        }
        all
    }

    fn utf16(text: &str, mark: [u8; 2], bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        mark.into_iter().chain(text.encode_utf16().flat_map(bytes)).collect()
    }

    #[test]
    fn utf_16_becomes_utf_8() {
        for words in ["", "a", "key = é日🦀\r\n", &"🦀x".repeat(50_000)] {
            assert_eq!(text(&utf16(words, [0xff, 0xfe], u16::to_le_bytes)), words.as_bytes());
            assert_eq!(text(&utf16(words, [0xfe, 0xff], u16::to_be_bytes)), words.as_bytes());
        }
    }

    #[test]
    fn halves_are_replaced() {
        let lone = [0xff, 0xfe, 0x3e, 0xd8, b'a', 0, 0x80, 0xdd, 0x3e, 0xd8, 0x3e, 0xd8];
        assert_eq!(text(&lone), "\u{fffd}a\u{fffd}\u{fffd}\u{fffd}".as_bytes());
        assert_eq!(text(&[0xff, 0xfe, b'a', 0, b'b']), "a\u{fffd}".as_bytes());
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        let long = vec![b'x'; 100_000];
        for bytes in [&b""[..], b"a", b"\xff", b"\xff\xfe\0\0a\0\0\0", b"\xef\xbb\xbfa", b"a\0b\xff", &long] {
            assert_eq!(text(bytes), bytes);
        }
    }

    #[test]
    fn a_nul_makes_a_file_binary() {
        assert_eq!(FileKind::of(b""), FileKind::Text);
        assert_eq!(FileKind::of(b"a\0"), FileKind::Binary);
        assert_eq!(FileKind::of(b"\xff\xfea\0"), FileKind::Utf16(ByteOrder::Little));
        assert_eq!(FileKind::of(b"\xff\xfe\0\0"), FileKind::Binary);
        let mut late = vec![b'a'; HEAD_LENGTH];
        late.push(0);
        assert_eq!(FileKind::of(&late), FileKind::Text);
    }
}
