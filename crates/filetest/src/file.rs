//! A filetest as read: its text, what to do with it, and what must come out.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use pelton_ir::limits::MAX_TEXT;

use crate::command::{self, Command};
use crate::line::{self, LineError, Litmus, Run};
use crate::near::hint;
use crate::replace::replace;

/// The line that begins the expected output.
const OUTPUT: &str = "; output:";

/// A filetest.
pub struct File {
    /// Where it lies.
    pub path: PathBuf,
    /// What its tests are called.
    pub name: String,
    /// Its text, without the expected output.
    pub source: String,
    /// What to do with it.
    pub tests: Vec<Task>,
    /// Its run lines.
    pub runs: Vec<Run>,
    /// Its litmus lines.
    pub litmus: Vec<Litmus>,
    /// What must come out.
    pub output: Option<String>,
}

/// A `test` line: a command and its arguments.
#[derive(Clone)]
pub struct Task {
    /// The command.
    pub command: &'static dyn Command,
    /// What follows its name.
    pub args: Vec<String>,
}

/// Why a file is not a filetest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is longer than any text may be.
    #[error("{} has more than the {MAX_TEXT} bytes that a text may have", .0.display())]
    TooLong(PathBuf),
    /// It is not text.
    #[error("{} is not UTF-8: byte {at} begins no character", path.display())]
    Utf8 {
        /// Which.
        path: PathBuf,
        /// Where.
        at: usize,
    },
    /// It does not say what to do.
    #[error("the file does not begin with a line such as `; test run`")]
    Untested,
    /// It asks for a command that does not exist.
    #[error("line {line}: there is no test command `{name}`; {hint}")]
    Command {
        /// Which line.
        line: usize,
        /// What it asks for.
        name: String,
        /// What there is.
        hint: String,
    },
    /// Two commands want the one output.
    #[error("`{0}` and `{1}` both print, and a file has one output")]
    Outputs(&'static str, &'static str),
    /// There is an output that no command prints.
    #[error("the file has an output, and none of its commands prints")]
    Mute,
    /// Something follows the output.
    #[error("line {0}: only `;>` lines may follow `{OUTPUT}`")]
    Trailing(usize),
    /// An outcome without a litmus line above it.
    #[error("line {0}: an outcome follows the litmus line it belongs to")]
    Stray(usize),
    /// A line cannot be read.
    #[error("line {line}: {source}")]
    Line {
        /// Which line.
        line: usize,
        /// Why.
        source: LineError,
    },
}

/// The text of a file, if it is UTF-8 and not too long.
pub fn read(path: &Path) -> Result<String, FileError> {
    let file = fs::File::open(path).map_err(|source| FileError::Read { path: path.into(), source })?;
    text(file, path)
}

/// The text of what can be read; errors call it by the path. No more is read than a text may have.
pub fn text(from: impl io::Read, path: &Path) -> Result<String, FileError> {
    let path = || path.to_path_buf();
    let mut bytes = Vec::new();
    let most = MAX_TEXT as u64;
    from.take(most + 1).read_to_end(&mut bytes).map_err(|source| FileError::Read { path: path(), source })?;
    if bytes.len() as u64 > most {
        return Err(FileError::TooLong(path()));
    }
    String::from_utf8(bytes)
        .map_err(|error| FileError::Utf8 { path: path(), at: error.utf8_error().valid_up_to() })
}

impl File {
    /// Reads a filetest.
    pub fn load(path: &Path, name: String) -> Result<File, FileError> {
        File::parse(path, name, &read(path)?)
    }

    /// Reads a filetest from its text.
    pub fn parse(path: &Path, name: String, text: &str) -> Result<File, FileError> {
        let (source, output) = split(text)?;
        let mut file = File {
            path: path.into(),
            name,
            source: source.into(),
            tests: Vec::new(),
            runs: Vec::new(),
            litmus: Vec::new(),
            output,
        };
        let mut head = true;
        for (k, line) in source.lines().enumerate() {
            let Some(comment) = line.trim().strip_prefix(';').map(str::trim) else {
                head &= line.trim().is_empty();
                continue;
            };
            match comment.strip_prefix("test ").filter(|_| head) {
                Some(rest) => file.tests.push(task(k + 1, rest)?),
                None => file.directive(k + 1, comment)?,
            }
        }
        file.check()?;
        Ok(file)
    }

    /// Takes in a comment that is a directive.
    fn directive(&mut self, line: usize, comment: &str) -> Result<(), FileError> {
        let fail = |source| FileError::Line { line, source };
        match comment.split_once(':') {
            Some(("run", rest)) => self.runs.push(Run::parse(line, rest).map_err(fail)?),
            Some(("litmus", rest)) => self.litmus.push(Litmus::parse(line, rest).map_err(fail)?),
            Some((kind @ ("forbidden" | "seen"), rest)) => {
                let litmus = self.litmus.last_mut().ok_or(FileError::Stray(line))?;
                let list = if kind == "seen" { &mut litmus.seen } else { &mut litmus.forbidden };
                list.push(line::outcome(rest).map_err(fail)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Holds the commands against the output.
    fn check(&self) -> Result<(), FileError> {
        let mut printing = self.tests.iter().map(|task| task.command).filter(|command| command.prints());
        match (printing.next(), printing.next(), &self.output) {
            _ if self.tests.is_empty() => Err(FileError::Untested),
            (Some(one), Some(other), _) => Err(FileError::Outputs(one.name(), other.name())),
            (None, _, Some(_)) => Err(FileError::Mute),
            _ => Ok(()),
        }
    }

    /// What diagrams call it: its name without folders, so that they are the same wherever it lies.
    pub fn title(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// Rewrites the file with another expected output.
    pub fn bless(&self, output: &str) -> io::Result<()> {
        let mut text = self.source.trim_end().to_string();
        text.push_str("\n\n");
        text.push_str(OUTPUT);
        text.push('\n');
        for line in output.lines() {
            text.push_str(format!(";> {line}").trim_end());
            text.push('\n');
        }
        replace(&self.path, &text)
    }
}

/// The text before the output, and the output.
fn split(text: &str) -> Result<(&str, Option<String>), FileError> {
    let mut at = 0;
    let begins = text.split_inclusive('\n').find_map(|line| {
        let start = at;
        at += line.len();
        (line.trim_end() == OUTPUT).then_some(start)
    });
    let Some(start) = begins else {
        return Ok((text, None));
    };
    let first = text[..start].lines().count() + 2;
    let mut output = String::new();
    for (k, line) in text[at..].lines().enumerate() {
        match line.strip_prefix(";>") {
            Some(rest) => {
                output.push_str(rest.strip_prefix(' ').unwrap_or(rest).trim_end());
                output.push('\n');
            }
            None if line.trim().is_empty() => {}
            None => return Err(FileError::Trailing(first + k)),
        }
    }
    Ok((&text[..start], Some(output)))
}

fn task(line: usize, text: &str) -> Result<Task, FileError> {
    let mut words = text.split_whitespace().map(String::from);
    let name = words.next().unwrap_or_default();
    match command::named(&name) {
        Some(command) => Ok(Task { command, args: words.collect() }),
        None => {
            let names: Vec<&str> = command::ALL.iter().map(|command| command.name()).collect();
            Err(FileError::Command { line, hint: hint(&name, &names), name })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<File, String> {
        File::parse(Path::new("x.pel"), "run/x.pel".into(), text).map_err(|error| error.to_string())
    }

    #[test]
    fn the_output_is_apart_from_the_source() {
        let file =
            parse("; test print\nkernel k {\n}\n\n; output:\n;> a\n;>\n;>   b\n").expect("it is well formed");
        assert_eq!(file.source, "; test print\nkernel k {\n}\n\n");
        assert_eq!(file.output.as_deref(), Some("a\n\n  b\n"));
        assert_eq!(file.title(), "x.pel");
    }

    #[test]
    fn bad_files_say_why() {
        for (text, why) in [
            ("kernel k { }\n; test run\n", "the file does not begin with a line such as `; test run`"),
            ("; test rum\n", "line 1: there is no test command `rum`; did you mean run?"),
            ("; test print\n; test opt\n", "`print` and `opt` both print, and a file has one output"),
            ("; test run\n; output:\n;> a\n", "the file has an output, and none of its commands prints"),
            ("; test print\n; output:\n;> a\nb\n", "line 4: only `;>` lines may follow `; output:`"),
            ("; test litmus\n; seen: a=[1]\n", "line 2: an outcome follows the litmus line it belongs to"),
            ("; test run\n\n; run: lanes=2\n", "line 3: a run line says what comes out after `->`"),
        ] {
            let found = parse(text).err().unwrap_or_default();
            assert!(found.starts_with(why), "{text:?} gave {found:?}");
        }
    }
}
