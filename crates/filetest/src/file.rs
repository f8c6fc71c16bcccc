//! A filetest after parsing: its text, its commands, and its expected output.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use pelton_ir::limits::MAX_TEXT;

use crate::command::{self, TestCommand};
use crate::hint::name_hint;
use crate::line::{self, LineError, LitmusLine, RunLine};
use crate::replace::replace_file;

/// The line before the expected output.
const OUTPUT: &str = "; output:";

/// What the lines of a library begin with.
const LIBRARY: &str = ";|";

/// A parsed filetest.
pub struct TestFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The name that the file's tests are called by.
    pub name: String,
    /// The file's text, without the expected output.
    pub source: String,
    /// The commands to test the file with.
    pub tests: Vec<TestLine>,
    /// The file's `run` lines.
    pub runs: Vec<RunLine>,
    /// The texts of the libraries that the module's imports are bound to.
    pub libraries: Vec<String>,
    /// The file's `litmus` lines.
    pub litmus: Vec<LitmusLine>,
    /// The expected output.
    pub output: Option<String>,
}

/// A `test` line: a command and its arguments.
#[derive(Clone)]
pub struct TestLine {
    /// The command.
    pub command: &'static dyn TestCommand,
    /// The words after the command's name.
    pub args: Vec<String>,
}

/// The reason why a file is not a filetest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is longer than any text may be.
    #[error("{} has more than the {MAX_TEXT} bytes that a text may have", .0.display())]
    TooLong(PathBuf),
    /// The file is not UTF-8.
    #[error("{} is not UTF-8: byte {at} does not begin a character", path.display())]
    Utf8 {
        /// The path of the file.
        path: PathBuf,
        /// The index of the first byte that is not UTF-8.
        at: usize,
    },
    /// The file has no `test` line.
    #[error("the file has no test line; begin it with a line such as `; test run`")]
    Untested,
    /// The file asks for a command that does not exist.
    #[error("line {line}: there is no test command `{name}`; {hint}")]
    Command {
        /// The number of the line, from 1.
        line: usize,
        /// The command that the line asks for.
        name: String,
        /// The commands that exist.
        hint: String,
    },
    /// Two commands of the file print.
    #[error("`{0}` and `{1}` both print, but a file has one output; move one of them to another file")]
    Outputs(&'static str, &'static str),
    /// The file has an expected output, but no command prints.
    #[error("the file has an output, but none of its commands prints; remove the output")]
    Mute,
    /// Something other than output follows `; output:`.
    #[error("line {0}: only `;>` lines may follow `{OUTPUT}`")]
    Trailing(usize),
    /// An outcome stands before any litmus line.
    #[error("line {0}: there is no litmus line above this outcome; put it below the one it belongs to")]
    Stray(usize),
    /// A line of a library has no line above it that begins a library.
    #[error("line {0}: there is no `; library:` line above this `{LIBRARY}` line")]
    NoLibrary(usize),
    /// A line cannot be parsed.
    #[error("line {line}: {source}")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// The cause.
        source: LineError,
    },
}

/// Reads the text of a file, which must be UTF-8 and not too long.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    let file = fs::File::open(path).map_err(|source| FileError::Read { path: path.into(), source })?;
    read_text_from(file, path)
}

/// Reads a text; errors name it by the path. No more is read than the longest text that is allowed.
pub fn read_text_from(from: impl io::Read, path: &Path) -> Result<String, FileError> {
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

impl TestFile {
    /// Reads and parses a filetest.
    pub fn load(path: &Path, name: String) -> Result<TestFile, FileError> {
        TestFile::parse(path, name, &read_text(path)?)
    }

    /// Parses a filetest from its text.
    pub fn parse(path: &Path, name: String, text: &str) -> Result<TestFile, FileError> {
        let (source, output) = split_output(text)?;
        let mut file = TestFile {
            path: path.into(),
            name,
            source: source.into(),
            tests: Vec::new(),
            runs: Vec::new(),
            libraries: Vec::new(),
            litmus: Vec::new(),
            output,
        };
        let mut head = true;
        for (k, line) in source.lines().enumerate() {
            if let Some(text) = line.trim().strip_prefix(LIBRARY) {
                let library = file.libraries.last_mut().ok_or(FileError::NoLibrary(k + 1))?;
                library.push_str(text.strip_prefix(' ').unwrap_or(text));
                library.push('\n');
                continue;
            }
            let Some(comment) = line.trim().strip_prefix(';').map(str::trim) else {
                head &= line.trim().is_empty();
                continue;
            };
            match comment.strip_prefix("test ").filter(|_| head) {
                Some(rest) => file.tests.push(parse_test_line(k + 1, rest)?),
                None => file.read_directive(k + 1, comment)?,
            }
        }
        file.check_output()?;
        Ok(file)
    }

    /// Parses a comment that is a directive; other comments are ignored.
    fn read_directive(&mut self, line: usize, comment: &str) -> Result<(), FileError> {
        let fail = |source| FileError::Line { line, source };
        match comment.split_once(':') {
            Some(("library", "")) => self.libraries.push(String::new()),
            Some(("run", rest)) => self.runs.push(RunLine::parse(line, rest).map_err(fail)?),
            Some(("litmus", rest)) => self.litmus.push(LitmusLine::parse(line, rest).map_err(fail)?),
            Some((kind @ ("forbidden" | "seen"), rest)) => {
                let litmus = self.litmus.last_mut().ok_or(FileError::Stray(line))?;
                let list = if kind == "seen" { &mut litmus.seen } else { &mut litmus.forbidden };
                list.push(line::parse_outcome(rest).map_err(fail)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks that the commands and the expected output fit together.
    fn check_output(&self) -> Result<(), FileError> {
        let mut printing = self.tests.iter().map(|task| task.command).filter(|command| command.prints());
        match (printing.next(), printing.next(), &self.output) {
            _ if self.tests.is_empty() => Err(FileError::Untested),
            (Some(one), Some(other), _) => Err(FileError::Outputs(one.name(), other.name())),
            (None, _, Some(_)) => Err(FileError::Mute),
            _ => Ok(()),
        }
    }

    /// The file's name without folders, which diagrams use so that they do not depend on where the file lies.
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
        replace_file(&self.path, &text)
    }
}

/// Splits a file's text into the part before the output, and the output.
fn split_output(text: &str) -> Result<(&str, Option<String>), FileError> {
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

fn parse_test_line(line: usize, text: &str) -> Result<TestLine, FileError> {
    let mut words = text.split_whitespace().map(String::from);
    let name = words.next().unwrap_or_default();
    match command::command_named(&name) {
        Some(command) => Ok(TestLine { command, args: words.collect() }),
        None => {
            let names: Vec<&str> = command::COMMANDS.iter().map(|command| command.name()).collect();
            Err(FileError::Command { line, hint: name_hint(&name, &names), name })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TestFile, String> {
        TestFile::parse(Path::new("x.pel"), "run/x.pel".into(), text).map_err(|error| error.to_string())
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
    fn libraries_stand_in_comments() {
        let text = "; test run\n; library:\n;| fn f() {\n;|   barrier\n;| }\n; library:\n;| fn g() {\n;| }\nkernel k {\n}\n";
        let file = parse(text).expect("it is well formed");
        assert_eq!(file.libraries, ["fn f() {\n  barrier\n}\n", "fn g() {\n}\n"]);
    }

    #[test]
    fn bad_files_say_why() {
        for (text, why) in [
            (
                "kernel k { }\n; test run\n",
                "the file has no test line; begin it with a line such as `; test run`",
            ),
            ("; test rum\n", "line 1: there is no test command `rum`; did you mean run?"),
            ("; test print\n; test opt\n", "`print` and `opt` both print, but a file has one output;"),
            (
                "; test run\n; output:\n;> a\n",
                "the file has an output, but none of its commands prints; remove the output",
            ),
            ("; test print\n; output:\n;> a\nb\n", "line 4: only `;>` lines may follow `; output:`"),
            ("; test litmus\n; seen: a=[1]\n", "line 2: there is no litmus line above this outcome"),
            ("; test run\n;| fn f() {\n", "line 2: there is no `; library:` line above this `;|` line"),
            (
                "; test run\n\n; run: lanes=2\n",
                "line 3: a run line needs `->` and then what the launch must give",
            ),
        ] {
            let found = parse(text).err().unwrap_or_default();
            assert!(found.starts_with(why), "{text:?} gave {found:?}");
        }
    }
}
