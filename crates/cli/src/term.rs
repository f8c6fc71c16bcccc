//! Standard output and standard error, with colour and progress bars.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::error::CliError;

/// When to colour the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Color {
    /// Colour on a terminal, unless NO_COLOR is set
    Auto,
    /// Always colour
    Always,
    /// Never colour
    Never,
}

/// The role of a piece of output, which decides its style.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TextRole {
    /// A heading, or the most important part.
    Strong,
    /// Something that went well.
    Good,
    /// Something that went wrong.
    Bad,
    /// Something less important.
    Faint,
}

/// The program's output: results go to standard output, notes and errors to standard error.
pub(crate) struct Term {
    /// Whether standard output has colour.
    pub out_color: bool,
    /// Whether standard error has colour.
    pub err_color: bool,
}

impl Term {
    /// Creates the output with colour as requested.
    pub(crate) fn new(color: Color) -> Self {
        let (plain, kind) = (std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
        let auto = |terminal| terminal && colours(plain.as_deref(), kind.as_deref());
        let (out_color, err_color) = match color {
            Color::Auto => (auto(io::stdout().is_terminal()), auto(io::stderr().is_terminal())),
            Color::Always => (true, true),
            Color::Never => (false, false),
        };
        Term { out_color, err_color }
    }

    /// Writes a line to standard output.
    pub(crate) fn line(&self, text: impl Display) -> Result<(), CliError> {
        Ok(writeln!(io::stdout().lock(), "{text}")?)
    }

    /// Writes a text to standard output.
    pub(crate) fn text(&self, text: &str) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// Writes a line to standard error. A failure is ignored, because there is nowhere to report it.
    pub(crate) fn note(&self, text: impl Display) {
        self.notes(&format!("{text}\n"));
    }

    /// Writes lines to standard error in one call, because standard error is not buffered.
    pub(crate) fn notes(&self, lines: &str) {
        let _ = io::stderr().lock().write_all(lines.as_bytes());
    }

    /// Writes an error to standard error. A report is written as it is, and a reader who has left is not an error.
    pub(crate) fn error(&self, error: &CliError) {
        match error {
            CliError::Pipe => {}
            CliError::Interrupted => self.note(error),
            CliError::Report(report) => self.note(report.trim_end()),
            error => self.wrong(error),
        }
    }

    /// Writes a line that begins with `error:` to standard error.
    pub(crate) fn wrong(&self, what: impl Display) {
        self.note(self.error_line(what));
    }

    /// A line that begins with `error:`.
    pub(crate) fn error_line(&self, what: impl Display) -> String {
        format!("{}: {what}", paint(self.err_color, TextRole::Bad, "error"))
    }

    /// A text in the style of its role, for standard output.
    pub(crate) fn paint(&self, role: TextRole, text: impl Display) -> String {
        paint(self.out_color, role, text)
    }

    /// A progress bar on standard error, which shows only on a terminal.
    pub(crate) fn bar(&self, len: u64, template: &str) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(len), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("━╸ "));
        bar
    }
}

/// Whether a terminal may have colour, by the variables `NO_COLOR` and `TERM`.
fn colours(plain: Option<&OsStr>, kind: Option<&OsStr>) -> bool {
    plain.is_none_or(OsStr::is_empty) && kind.is_none_or(|kind| kind != "dumb")
}

fn paint(color: bool, role: TextRole, text: impl Display) -> String {
    if !color {
        return text.to_string();
    }
    let style = match role {
        TextRole::Strong => Style::new().bold(),
        TextRole::Good => AnsiColor::Green.on_default().bold(),
        TextRole::Bad => AnsiColor::Red.on_default().bold(),
        TextRole::Faint => Style::new().dimmed(),
    };
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::colours;

    #[test]
    fn the_environment_can_turn_colour_off() {
        assert!(colours(None, None));
        assert!(colours(Some("".as_ref()), Some("xterm".as_ref())));
        assert!(!colours(Some("1".as_ref()), Some("xterm".as_ref())));
        assert!(!colours(None, Some("dumb".as_ref())));
    }
}
