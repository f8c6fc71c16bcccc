//! Descriptions of a buffer's contents, initial or expected.
//!
//! | text | contents |
//! |---|---|
//! | `[1 2 0x10 -3i32 0.5 nan]` | these elements; commas between them are allowed |
//! | `[7; 64]`, `[1 2 0; 62]` | an element followed by `; N` is repeated N times |
//! | `zero`, `zero:N` | zeros |
//! | `iota`, `iota:N` | 0 1 2 … |
//! | `random:SEED`, `random:SEED:N` | N random elements, the same in every run: integers of any bits, floats in [0, 1) |
//! | `@PATH` | the words of a file, in little-endian order |
//!
//! Constants are written as in the language, and an integer without a suffix takes the type of the buffer. `:N` may
//! be left out if the module fixes the buffer's length.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pelton_ir::limits::MAX_LEN;
use pelton_ir::module::BufferDecl;
use pelton_ir::text;
use pelton_ir::types::{Const, Len, Type};

use crate::data::{BufferData, OutOfMemory};

/// A description of a buffer's contents, before the buffer's type is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Init {
    /// Constants, each with the number of times that it is repeated.
    List(Vec<(String, u64)>),
    /// Zeros; the number may be left to the module.
    Zero(Option<u64>),
    /// Elements that equal their index; the number may be left to the module.
    Iota(Option<u64>),
    /// Random elements from a seed; the number may be left to the module.
    Random(u64, Option<u64>),
    /// The words of a file.
    File(PathBuf),
}

/// The reason why a description cannot be parsed, or does not fit a buffer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The text has none of the forms.
    #[error(
        "`{0}` does not describe a buffer's contents; write [1 2 3], [7; 64], zero:N, iota:N or random:SEED:N"
    )]
    Syntax(String),
    /// A count or a seed is not a number.
    #[error("`{0}` is not a number")]
    Number(String),
    /// An element is not a constant of the buffer's type.
    #[error("`{word}` {why}")]
    Element {
        /// The text of the element.
        word: String,
        /// What is wrong with the element.
        why: String,
    },
    /// The buffer's length is bound at launch, and the description does not give one.
    #[error("its length is bound at launch, so give the number of elements, as in `zero:64`")]
    Unsized,
    /// The module declares another length.
    #[error("its length is {declared}, but {given} elements are given")]
    Length {
        /// The length that the module declares.
        declared: u64,
        /// The number of elements that the description has.
        given: u64,
    },
    /// There are more elements than any buffer may have.
    #[error("{0} elements are more than the {MAX_LEN} that a buffer may have")]
    TooLong(u64),
    /// There is not enough memory.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file's length is not a whole number of elements.
    #[error("{} has {bytes} bytes, which is not a whole number of {elem}", path.display())]
    Ragged {
        /// The path of the file.
        path: PathBuf,
        /// The length of the file in bytes.
        bytes: u64,
        /// The buffer's element type.
        elem: Type,
    },
}

impl FromStr for Init {
    type Err = InitError;

    fn from_str(text: &str) -> Result<Init, InitError> {
        let syntax = || InitError::Syntax(text.into());
        if let Some(path) = text.strip_prefix('@') {
            return if path.is_empty() { Err(syntax()) } else { Ok(Init::File(path.into())) };
        }
        if let Some(inner) = text.strip_prefix('[') {
            return parse_list(inner.strip_suffix(']').ok_or_else(syntax)?);
        }
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            ["zero"] => Ok(Init::Zero(None)),
            ["zero", n] => Ok(Init::Zero(Some(parse_number(n)?))),
            ["iota"] => Ok(Init::Iota(None)),
            ["iota", n] => Ok(Init::Iota(Some(parse_number(n)?))),
            ["random", seed] => Ok(Init::Random(parse_number(seed)?, None)),
            ["random", seed, n] => Ok(Init::Random(parse_number(seed)?, Some(parse_number(n)?))),
            _ => Err(syntax()),
        }
    }
}

impl Init {
    /// The number of elements of a buffer with a given declaration.
    pub fn element_count(&self, decl: &BufferDecl) -> Result<u64, InitError> {
        let given = match self {
            Init::List(items) => Some(items.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n))),
            Init::Zero(n) | Init::Iota(n) | Init::Random(_, n) => *n,
            Init::File(path) => Some(file_elements(path, decl.elem)?),
        };
        match (decl.len, given) {
            (Len::Fixed(declared), Some(given)) if declared != given => {
                Err(InitError::Length { declared, given })
            }
            (_, Some(len)) | (Len::Fixed(len), None) if len > MAX_LEN => Err(InitError::TooLong(len)),
            (_, Some(len)) | (Len::Fixed(len), None) => Ok(len),
            (Len::Launch, None) => Err(InitError::Unsized),
        }
    }

    /// Creates the contents of a buffer with a given declaration. The length is checked before memory is allocated.
    pub fn make_data(&self, decl: &BufferDecl) -> Result<BufferData, InitError> {
        let len = self.element_count(decl)?;
        let elem = decl.elem;
        match self {
            Init::List(items) => {
                let items = items.iter().map(|(word, n)| Ok((parse_element(word, elem)?.bits(), *n)));
                let items: Vec<(u64, u64)> = items.collect::<Result<_, InitError>>()?;
                let mut bits = items.into_iter().flat_map(|(bits, n)| (0..n).map(move |_| bits));
                Ok(BufferData::new(elem, len, |_| bits.next().unwrap_or(0))?)
            }
            Init::Zero(_) => Ok(BufferData::new(elem, len, |_| 0)?),
            Init::Iota(_) => Ok(BufferData::new(elem, len, |k| index_bits(k, elem))?),
            Init::Random(seed, _) => Ok(BufferData::new(elem, len, |k| random_bits(*seed, k, elem))?),
            Init::File(path) => read_elements(path, elem, len),
        }
    }
}

/// Writes the description in the form that is parsed, with single spaces.
impl fmt::Display for Init {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tail = |n: &Option<u64>| n.map_or_else(String::new, |n| format!(":{n}"));
        match self {
            Init::List(items) => {
                let item = |(word, n): &(String, u64)| match n {
                    1 => word.clone(),
                    n => format!("{word}; {n}"),
                };
                write!(f, "[{}]", items.iter().map(item).collect::<Vec<_>>().join(" "))
            }
            Init::Zero(n) => write!(f, "zero{}", tail(n)),
            Init::Iota(n) => write!(f, "iota{}", tail(n)),
            Init::Random(seed, n) => write!(f, "random:{seed}{}", tail(n)),
            Init::File(path) => write!(f, "@{}", path.display()),
        }
    }
}

/// Parses the items of a list. Commas count as white space.
fn parse_list(inner: &str) -> Result<Init, InitError> {
    let spaced = inner.replace(',', " ").replace(';', " ; ");
    let mut words = spaced.split_whitespace().peekable();
    let mut items = Vec::new();
    while let Some(word) = words.next() {
        let times =
            if words.next_if_eq(&";").is_some() { parse_number(words.next().unwrap_or(""))? } else { 1 };
        if word == ";" {
            return Err(InitError::Syntax(format!("[{inner}]")));
        }
        items.push((word.into(), times));
    }
    Ok(Init::List(items))
}

/// Parses a count or a seed, which is an integer as the language spells it.
fn parse_number(text: &str) -> Result<u64, InitError> {
    let constant = text::parse_constant(text, Type::U64).ok().filter(|_| is_plain_integer(text));
    constant.map(Const::bits).ok_or_else(|| InitError::Number(text.into()))
}

/// Whether a word is an integer without a type suffix.
fn is_plain_integer(word: &str) -> bool {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let (digits, radix) = digits.strip_prefix("0x").map_or((digits, 10), |digits| (digits, 16));
    digits.starts_with(|c: char| c.is_digit(radix)) && digits.chars().all(|c| c.is_digit(radix) || c == '_')
}

/// Parses a constant of the buffer's type.
fn parse_element(word: &str, elem: Type) -> Result<Const, InitError> {
    let refuse = |why: String| InitError::Element { word: word.into(), why };
    let constant = match elem {
        Type::F32 if is_plain_integer(word) => text::parse_constant(&format!("{word}.0"), elem),
        _ => text::parse_constant(word, elem),
    };
    let constant = constant.map_err(refuse)?;
    if constant.ty() != elem {
        return Err(refuse(format!("is of type {}, and the elements are of type {elem}", constant.ty())));
    }
    Ok(constant)
}

/// The bits of an index as an element of a type.
fn index_bits(k: u64, elem: Type) -> u64 {
    if elem == Type::F32 { (k as f32).to_bits().into() } else { k }
}

/// The bits of the `k`-th random element. The sequence is SplitMix64, so each element can be computed by itself.
fn random_bits(seed: u64, k: u64, elem: Type) -> u64 {
    let mut z = seed.wrapping_add((k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    match elem {
        Type::U64 => z,
        Type::F32 => ((z >> 40) as f32 / (1u64 << 24) as f32).to_bits().into(),
        _ => z >> 32,
    }
}

/// The number of elements in a file.
fn file_elements(path: &Path, elem: Type) -> Result<u64, InitError> {
    let fail = |source| InitError::Read { path: path.into(), source };
    let meta = std::fs::metadata(path).map_err(fail)?;
    if !meta.is_file() {
        return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
    }
    let (bytes, size) = (meta.len(), BufferData::element_bytes(elem));
    if bytes % size != 0 {
        return Err(InitError::Ragged { path: path.into(), bytes, elem });
    }
    Ok(bytes / size)
}

/// Reads the first `len` elements of a file.
fn read_elements(path: &Path, elem: Type, len: u64) -> Result<BufferData, InitError> {
    let fail = |source| InitError::Read { path: path.into(), source };
    let mut file = BufReader::with_capacity(1 << 16, File::open(path).map_err(fail)?);
    let size = BufferData::element_bytes(elem) as usize;
    let mut failed = None;
    let data = BufferData::new(elem, len, |_| {
        let mut word = [0; 8];
        if let (Err(error), None) = (file.read_exact(&mut word[..size]), &failed) {
            failed = Some(error);
        }
        u64::from_le_bytes(word)
    })?;
    match failed {
        Some(error) => Err(fail(error)),
        None => Ok(data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pelton_ir::module::TextPlace;
    use pelton_ir::types::{Access, Space};

    fn decl(elem: Type, len: Len) -> BufferDecl {
        let place = TextPlace::default();
        BufferDecl { name: "b".into(), elem, len, space: Space::Global, access: Access::ReadWrite, place }
    }

    fn shown(text: &str, elem: Type, len: Len) -> String {
        match text.parse::<Init>().and_then(|init| init.make_data(&decl(elem, len))) {
            Ok(data) => data.show_elements(16),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn lists_take_the_type_of_the_buffer() {
        assert_eq!(shown("[1 0x10, 1_000]", Type::U32, Len::Launch), "[1 16 1000]");
        assert_eq!(shown("[-1 2i32]", Type::I32, Len::Launch), "[-1 2]");
        assert_eq!(shown("[1 -2 0.5 nan -inf]", Type::F32, Len::Launch), "[1.0 -2.0 0.5 nan -inf]");
        assert_eq!(shown("[1 0; 3]", Type::U64, Len::Fixed(4)), "[1 0 0 0]");
        assert_eq!(shown("[]", Type::U64, Len::Launch), "[]");
    }

    #[test]
    fn rows_of_numbers() {
        assert_eq!(shown("iota:3", Type::F32, Len::Launch), "[0.0 1.0 2.0]");
        assert_eq!(shown("zero", Type::U32, Len::Fixed(2)), "[0 0]");
        let two = shown("random:7:2", Type::U32, Len::Launch);
        assert_eq!(two, shown("random:7", Type::U32, Len::Fixed(2)));
        assert_ne!(two, shown("random:8:2", Type::U32, Len::Launch));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (text, elem, len, why) in [
            ("[1 2]", Type::U32, Len::Fixed(3), "its length is 3, but 2 elements are given"),
            (
                "zero",
                Type::U32,
                Len::Launch,
                "its length is bound at launch, so give the number of elements, as in `zero:64`",
            ),
            ("zero:-1", Type::U32, Len::Launch, "`-1` is not a number"),
            ("[1; ]", Type::U32, Len::Launch, "`` is not a number"),
            ("[1u64]", Type::U32, Len::Launch, "`1u64` is of type u64, and the elements are of type u32"),
        ] {
            assert_eq!(shown(text, elem, len), why);
        }
        for (word, elem) in
            [("-1", Type::U32), ("4294967296", Type::U32), ("0x10", Type::F32), ("true", Type::U32)]
        {
            let found = shown(&format!("[{word}]"), elem, Len::Launch);
            assert!(found.starts_with(&format!("`{word}` ")), "{found}");
        }
        for text in ["[1; 18446744073709551615]", "zero:18446744073709551615", "iota:4294967296"] {
            assert!(shown(text, Type::U32, Len::Launch).contains("more than the 4294967295"), "{text}");
        }
        for text in ["", "[1", "ones:3", "zero:1:2", "@", "[; 3]", "[1 ; 2 ; 3]"] {
            assert!(text.parse::<Init>().is_err(), "{text}");
        }
    }
}
