//! Parses `run`, `litmus`, `forbidden` and `seen` lines.

use std::fmt;

use crate::init::{Init, InitError};

/// The contents of some buffers, by name.
pub type Buffers = Vec<(String, Init)>;

/// The lanes of a launch and how they are grouped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchGeometry {
    /// The number of groups.
    pub groups: u32,
    /// The number of lanes per group.
    pub lanes: u32,
    /// The number of lanes per subgroup.
    pub subgroup: u32,
}

impl Default for LaunchGeometry {
    fn default() -> Self {
        LaunchGeometry { groups: 1, lanes: 1, subgroup: 32 }
    }
}

/// The settings of a launch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Setup {
    /// The kernel, if the module has several.
    pub kernel: Option<String>,
    /// The lanes of the launch.
    pub geometry: LaunchGeometry,
    /// The initial contents of buffers.
    pub buffers: Buffers,
}

/// How a launch ended, apart from recorded faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndKind {
    /// Every lane returned.
    Done,
    /// The launch was stopped, or its deadline passed.
    Stopped,
    /// A lane trapped with this code.
    Trap(u32),
}

/// How a launch ended, and the first fault that it recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ending {
    /// How the launch ended.
    pub end: EndKind,
    /// The code of the first fault, if there was one.
    pub fault: Option<u32>,
}

/// Writes the ending as a `run` line spells it.
impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            EndKind::Done => f.write_str("done")?,
            EndKind::Stopped => f.write_str("stopped")?,
            EndKind::Trap(code) => write!(f, "trap={code}")?,
        }
        match self.fault {
            Some(code) => write!(f, " fault={code}"),
            None => Ok(()),
        }
    }
}

/// A `run` line: a launch, and what it must give.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunLine {
    /// The line's number in the file, from 1.
    pub line: usize,
    /// The settings of the launch.
    pub setup: Setup,
    /// The final contents of the buffers that the line names.
    pub expect: Buffers,
    /// How the launch must end.
    pub ending: Ending,
}

/// A `litmus` line with the outcomes that follow it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LitmusLine {
    /// The line's number in the file, from 1.
    pub line: usize,
    /// The settings of each round's launch.
    pub setup: Setup,
    /// The number of rounds.
    pub rounds: u64,
    /// The outcomes that no round may have.
    pub forbidden: Vec<Buffers>,
    /// The outcomes that at least one round must have.
    pub seen: Vec<Buffers>,
}

/// The largest number of rounds of a litmus line.
pub const MAX_ROUNDS: u64 = 1_000_000;

/// The reason why a line cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// A word has no meaning in this place.
    #[error(
        "`{0}` is not a setting; write NAME=VALUE, or how the launch ends: done, stopped, trap=CODE, fault=CODE"
    )]
    Word(String),
    /// A setting is not a number in its range.
    #[error("`{key}` must be a number from {least} to {most}, not `{value}`")]
    Number {
        /// The name of the setting.
        key: &'static str,
        /// The text of its value.
        value: String,
        /// The least value that is allowed.
        least: u64,
        /// The greatest value that is allowed.
        most: u64,
    },
    /// A run line has no `->`.
    #[error("a run line needs `->` and then what the launch must give, such as `-> done`")]
    Arrow,
    /// A litmus line does not say how many rounds.
    #[error("a litmus line needs a number of rounds, such as `rounds=1000`")]
    Rounds,
    /// An outcome names no buffer.
    #[error("an outcome must name at least one buffer, as in `out=[1]`")]
    Empty,
    /// The contents of a buffer cannot be parsed.
    #[error("buffer `{name}`: {source}")]
    Init {
        /// The name of the buffer.
        name: String,
        /// The cause.
        source: InitError,
    },
}

impl RunLine {
    /// Parses the text after `; run:`.
    pub fn parse(line: usize, text: &str) -> Result<RunLine, LineError> {
        let words = split_words(text);
        let arrow = words.iter().position(|word| *word == "->").ok_or(LineError::Arrow)?;
        let mut setup = Setup::default();
        for word in &words[..arrow] {
            read_setting(word, &mut setup, &mut None)?;
        }
        let mut run =
            RunLine { line, setup, expect: Vec::new(), ending: Ending { end: EndKind::Done, fault: None } };
        for word in &words[arrow + 1..] {
            match (*word, word.split_once('=')) {
                ("done", _) => run.ending.end = EndKind::Done,
                ("stopped", _) => run.ending.end = EndKind::Stopped,
                (_, Some(("trap", code))) => run.ending.end = EndKind::Trap(code_number("trap", code)?),
                (_, Some(("fault", code))) => run.ending.fault = Some(code_number("fault", code)?),
                _ => run.expect.push(parse_contents(word)?),
            }
        }
        Ok(run)
    }
}

impl LitmusLine {
    /// Parses the text after `; litmus:`.
    pub fn parse(line: usize, text: &str) -> Result<LitmusLine, LineError> {
        let (mut setup, mut rounds) = (Setup::default(), None);
        for word in split_words(text) {
            read_setting(word, &mut setup, &mut Some(&mut rounds))?;
        }
        let rounds = rounds.ok_or(LineError::Rounds)?;
        Ok(LitmusLine { line, setup, rounds, forbidden: Vec::new(), seen: Vec::new() })
    }
}

/// Parses the text after `; forbidden:` or `; seen:`.
pub fn parse_outcome(text: &str) -> Result<Buffers, LineError> {
    let buffers: Buffers = split_words(text).into_iter().map(parse_contents).collect::<Result<_, _>>()?;
    if buffers.is_empty() { Err(LineError::Empty) } else { Ok(buffers) }
}

/// Splits a text at white space outside brackets.
fn split_words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut inside) = (None, false);
    for (at, c) in text.char_indices() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        match start {
            Some(from) if c.is_whitespace() && !inside => {
                words.push(&text[from..at]);
                start = None;
            }
            None if !c.is_whitespace() => start = Some(at),
            _ => {}
        }
    }
    words.extend(start.map(|from| &text[from..]));
    words
}

/// Parses one setting of a launch, and stores it. Only a litmus line has rounds.
fn read_setting(
    word: &str,
    setup: &mut Setup,
    rounds: &mut Option<&mut Option<u64>>,
) -> Result<(), LineError> {
    let geometry = &mut setup.geometry;
    match (word.split_once('='), rounds) {
        (Some(("kernel", name)), _) => setup.kernel = Some(name.into()),
        (Some(("groups", n)), _) => geometry.groups = positive_number("groups", n)?,
        (Some(("lanes", n)), _) => geometry.lanes = positive_number("lanes", n)?,
        (Some(("subgroup", n)), _) => geometry.subgroup = positive_number("subgroup", n)?,
        (Some(("rounds", n)), Some(rounds)) => **rounds = Some(number_in_range("rounds", n, 1, MAX_ROUNDS)?),
        _ => setup.buffers.push(parse_contents(word)?),
    }
    Ok(())
}

/// Parses `buf=INIT`.
fn parse_contents(word: &str) -> Result<(String, Init), LineError> {
    let (name, init) = word.split_once('=').ok_or_else(|| LineError::Word(word.into()))?;
    let name = name.strip_prefix('@').unwrap_or(name);
    let fail = |source| LineError::Init { name: name.into(), source };
    // A filetest must be complete in itself, so it may not refer to another file.
    if init.starts_with('@') {
        return Err(fail(InitError::Syntax(init.into())));
    }
    Ok((name.into(), init.parse().map_err(fail)?))
}

fn positive_number(key: &'static str, value: &str) -> Result<u32, LineError> {
    Ok(number_in_range(key, value, 1, u32::MAX.into())? as u32)
}

fn code_number(key: &'static str, value: &str) -> Result<u32, LineError> {
    Ok(number_in_range(key, value, 0, u32::MAX.into())? as u32)
}

fn number_in_range(key: &'static str, value: &str, least: u64, most: u64) -> Result<u64, LineError> {
    let read = value.parse().ok().filter(|n| (least..=most).contains(n));
    read.ok_or_else(|| LineError::Number { key, value: value.into(), least, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_line_is_read_whole() {
        let run = RunLine::parse(
            3,
            "kernel=main groups=2 lanes=48 @lanes=[1 2; 3] a=iota:4 -> a=[5] trap=7 fault=2",
        )
        .expect("it is well formed");
        assert_eq!(run.setup.kernel.as_deref(), Some("main"));
        assert_eq!(run.setup.geometry, LaunchGeometry { groups: 2, lanes: 48, subgroup: 32 });
        let list = Init::List(vec![("1".into(), 1), ("2".into(), 3)]);
        assert_eq!(run.setup.buffers, [("lanes".into(), list), ("a".into(), Init::Iota(Some(4)))]);
        assert_eq!(run.expect, [("a".into(), Init::List(vec![("5".into(), 1)]))]);
        assert_eq!(run.ending.to_string(), "trap=7 fault=2");
    }

    #[test]
    fn bad_lines_say_why() {
        let why = |text| RunLine::parse(1, text).expect_err("it is wrong").to_string();
        assert_eq!(
            why("lanes=4"),
            "a run line needs `->` and then what the launch must give, such as `-> done`"
        );
        assert_eq!(why("lanes=0 -> done"), "`lanes` must be a number from 1 to 4294967295, not `0`");
        assert!(why("-> finished").starts_with("`finished` is not a setting"));
        assert!(why("a=@file.bin -> done").starts_with("buffer `a`: `@file.bin` does not describe"));
        assert!(why("rounds=3 -> done").starts_with("buffer `rounds`: `3` does not describe"));
        assert_eq!(
            LitmusLine::parse(1, "lanes=2").expect_err("it is wrong").to_string(),
            "a litmus line needs a number of rounds, such as `rounds=1000`"
        );
        assert!(parse_outcome("").is_err());
    }
}
