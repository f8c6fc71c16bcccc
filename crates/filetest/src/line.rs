//! The grammar of `run`, `litmus`, `forbidden` and `seen` lines.

use std::fmt;

use crate::init::{Init, InitError};

/// Contents of buffers by name.
pub type Buffers = Vec<(String, Init)>;

/// How many lanes a launch has and how they stand together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Groups.
    pub groups: u32,
    /// Lanes in a group.
    pub lanes: u32,
    /// Lanes in a subgroup.
    pub subgroup: u32,
}

impl Default for Geometry {
    fn default() -> Self {
        Geometry { groups: 1, lanes: 1, subgroup: 32 }
    }
}

/// What a launch starts with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Setup {
    /// The kernel, if the module has several.
    pub kernel: Option<String>,
    /// Its lanes.
    pub geometry: Geometry,
    /// What its buffers hold.
    pub buffers: Buffers,
}

/// How a launch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Every lane returned.
    Done,
    /// It was stopped, or its deadline passed.
    Stopped,
    /// It trapped with this code.
    Trap(u32),
}

/// How a launch ended, and the first fault it recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ending {
    /// How it ended.
    pub end: End,
    /// The first fault.
    pub fault: Option<u32>,
}

/// As a line writes it.
impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            End::Done => f.write_str("done")?,
            End::Stopped => f.write_str("stopped")?,
            End::Trap(code) => write!(f, "trap={code}")?,
        }
        match self.fault {
            Some(code) => write!(f, " fault={code}"),
            None => Ok(()),
        }
    }
}

/// A `run` line: a launch and what it must give.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// Its line in the file, from 1.
    pub line: usize,
    /// What it starts with.
    pub setup: Setup,
    /// What these buffers end with.
    pub expect: Buffers,
    /// How it ends.
    pub ending: Ending,
}

/// A `litmus` line with the outcomes that follow it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Litmus {
    /// Its line in the file, from 1.
    pub line: usize,
    /// What each round starts with.
    pub setup: Setup,
    /// How many rounds.
    pub rounds: u64,
    /// What no round may give.
    pub forbidden: Vec<Buffers>,
    /// What some round must give.
    pub seen: Vec<Buffers>,
}

/// Rounds that a litmus line may ask for.
pub const MAX_ROUNDS: u64 = 1_000_000;

/// Why a line cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// A word that has no meaning there.
    #[error("`{0}` means nothing here")]
    Word(String),
    /// A setting is not a number in its range.
    #[error("`{key}` is a number from {least} to {most}, not `{value}`")]
    Number {
        /// Which setting.
        key: &'static str,
        /// What was written.
        value: String,
        /// The least it can be.
        least: u64,
        /// The most it can be.
        most: u64,
    },
    /// The arrow is missing.
    #[error("a run line says what comes out after `->`")]
    Arrow,
    /// A litmus line without rounds.
    #[error("a litmus line says how many `rounds`")]
    Rounds,
    /// An outcome that says nothing.
    #[error("an outcome names at least one buffer")]
    Empty,
    /// The contents of a buffer cannot be read.
    #[error("buffer `{name}`: {source}")]
    Init {
        /// Which buffer.
        name: String,
        /// Why.
        source: InitError,
    },
}

impl Run {
    /// Reads what follows `; run:`.
    pub fn parse(line: usize, text: &str) -> Result<Run, LineError> {
        let words = words(text);
        let arrow = words.iter().position(|word| *word == "->").ok_or(LineError::Arrow)?;
        let mut setup = Setup::default();
        for word in &words[..arrow] {
            setting(word, &mut setup, &mut None)?;
        }
        let mut run = Run { line, setup, expect: Vec::new(), ending: Ending { end: End::Done, fault: None } };
        for word in &words[arrow + 1..] {
            match (*word, word.split_once('=')) {
                ("done", _) => run.ending.end = End::Done,
                ("stopped", _) => run.ending.end = End::Stopped,
                (_, Some(("trap", code))) => run.ending.end = End::Trap(code32("trap", code)?),
                (_, Some(("fault", code))) => run.ending.fault = Some(code32("fault", code)?),
                _ => run.expect.push(contents(word)?),
            }
        }
        Ok(run)
    }
}

impl Litmus {
    /// Reads what follows `; litmus:`.
    pub fn parse(line: usize, text: &str) -> Result<Litmus, LineError> {
        let (mut setup, mut rounds) = (Setup::default(), None);
        for word in words(text) {
            setting(word, &mut setup, &mut Some(&mut rounds))?;
        }
        let rounds = rounds.ok_or(LineError::Rounds)?;
        Ok(Litmus { line, setup, rounds, forbidden: Vec::new(), seen: Vec::new() })
    }
}

/// Reads what follows `; forbidden:` or `; seen:`.
pub fn outcome(text: &str) -> Result<Buffers, LineError> {
    let buffers: Buffers = words(text).into_iter().map(contents).collect::<Result<_, _>>()?;
    if buffers.is_empty() { Err(LineError::Empty) } else { Ok(buffers) }
}

/// Words between white space, of which there may be some in brackets.
fn words(text: &str) -> Vec<&str> {
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

/// Reads one setting of a launch into where it belongs. Only a litmus line has rounds.
fn setting(word: &str, setup: &mut Setup, rounds: &mut Option<&mut Option<u64>>) -> Result<(), LineError> {
    let geometry = &mut setup.geometry;
    match (word.split_once('='), rounds) {
        (Some(("kernel", name)), _) => setup.kernel = Some(name.into()),
        (Some(("groups", n)), _) => geometry.groups = positive("groups", n)?,
        (Some(("lanes", n)), _) => geometry.lanes = positive("lanes", n)?,
        (Some(("subgroup", n)), _) => geometry.subgroup = positive("subgroup", n)?,
        (Some(("rounds", n)), Some(rounds)) => **rounds = Some(number("rounds", n, 1, MAX_ROUNDS)?),
        _ => setup.buffers.push(contents(word)?),
    }
    Ok(())
}

/// Reads `buf=INIT`.
fn contents(word: &str) -> Result<(String, Init), LineError> {
    let (name, init) = word.split_once('=').ok_or_else(|| LineError::Word(word.into()))?;
    let name = name.strip_prefix('@').unwrap_or(name);
    let fail = |source| LineError::Init { name: name.into(), source };
    // A test that depends on another file would not be the whole of its own story.
    if init.starts_with('@') {
        return Err(fail(InitError::Syntax(init.into())));
    }
    Ok((name.into(), init.parse().map_err(fail)?))
}

fn positive(key: &'static str, value: &str) -> Result<u32, LineError> {
    Ok(number(key, value, 1, u32::MAX.into())? as u32)
}

fn code32(key: &'static str, value: &str) -> Result<u32, LineError> {
    Ok(number(key, value, 0, u32::MAX.into())? as u32)
}

fn number(key: &'static str, value: &str, least: u64, most: u64) -> Result<u64, LineError> {
    let read = value.parse().ok().filter(|n| (least..=most).contains(n));
    read.ok_or_else(|| LineError::Number { key, value: value.into(), least, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_line_is_read_whole() {
        let run =
            Run::parse(3, "kernel=main groups=2 lanes=48 @lanes=[1 2; 3] a=iota:4 -> a=[5] trap=7 fault=2")
                .expect("it is well formed");
        assert_eq!(run.setup.kernel.as_deref(), Some("main"));
        assert_eq!(run.setup.geometry, Geometry { groups: 2, lanes: 48, subgroup: 32 });
        let list = Init::List(vec![("1".into(), 1), ("2".into(), 3)]);
        assert_eq!(run.setup.buffers, [("lanes".into(), list), ("a".into(), Init::Iota(Some(4)))]);
        assert_eq!(run.expect, [("a".into(), Init::List(vec![("5".into(), 1)]))]);
        assert_eq!(run.ending.to_string(), "trap=7 fault=2");
    }

    #[test]
    fn bad_lines_say_why() {
        let why = |text| Run::parse(1, text).expect_err("it is wrong").to_string();
        assert_eq!(why("lanes=4"), "a run line says what comes out after `->`");
        assert_eq!(why("lanes=0 -> done"), "`lanes` is a number from 1 to 4294967295, not `0`");
        assert_eq!(why("-> finished"), "`finished` means nothing here");
        assert!(why("a=@file.bin -> done").starts_with("buffer `a`: `@file.bin` is not"));
        assert!(why("rounds=3 -> done").starts_with("buffer `rounds`: `3` is not"));
        assert_eq!(
            Litmus::parse(1, "lanes=2").expect_err("it is wrong").to_string(),
            "a litmus line says how many `rounds`"
        );
        assert!(outcome("").is_err());
    }
}
