//! Where output goes, and whether it has colour.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::error::CliError;

/// When to colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What a stretch of output is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextRole {
    /// A heading, or what matters most.
    Strong,
    /// Something that went well.
    Good,
    /// Something that went wrong.
    Bad,
    /// Something to pass over.
    Faint,
}

/// Standard output and standard error.
pub struct Term {
    /// Whether standard output has colour.
    pub out_color: bool,
    /// Whether standard error has colour.
    pub err_color: bool,
}

impl Term {
    /// With colour as asked for.
    pub fn new(color: Color) -> Self {
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
    pub fn line(&self, text: impl Display) -> Result<(), CliError> {
        Ok(writeln!(io::stdout().lock(), "{text}")?)
    }

    /// Writes to standard output.
    pub fn text(&self, text: &str) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// Writes a line to standard error. There is nobody to tell if that fails.
    pub fn note(&self, text: impl Display) {
        self.notes(&format!("{text}\n"));
    }

    /// Writes lines to standard error at once: it is not buffered, so each write is a call to the system.
    pub fn notes(&self, lines: &str) {
        let _ = io::stderr().lock().write_all(lines.as_bytes());
    }

    /// Writes an error to standard error; a report comes as it is, and a reader that has left is no error.
    pub fn error(&self, error: &CliError) {
        match error {
            CliError::Pipe => {}
            CliError::Interrupted => self.note(error),
            CliError::Report(report) => self.note(report.trim_end()),
            error => self.wrong(error),
        }
    }

    /// Writes to standard error that something is wrong.
    pub fn wrong(&self, what: impl Display) {
        self.note(self.error_line(what));
    }

    /// A line that says that something is wrong.
    pub fn error_line(&self, what: impl Display) -> String {
        format!("{}: {what}", paint(self.err_color, TextRole::Bad, "error"))
    }

    /// A text on standard output in its role.
    pub fn paint(&self, role: TextRole, text: impl Display) -> String {
        paint(self.out_color, role, text)
    }

    /// A progress bar on standard error, which shows only on a terminal.
    pub fn bar(&self, len: u64, template: &str) -> ProgressBar {
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
