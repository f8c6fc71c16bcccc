//! `pelton completions`: prints the script with which a shell completes command lines.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::error::CliError;
use crate::term::Term;
use crate::{Cli, CliStatus};

/// Print a script that lets a shell complete pelton's command lines
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton completions bash > ~/.local/share/bash-completion/completions/pelton
  pelton completions zsh > \"${fpath[1]}/_pelton\"
  pelton completions fish > ~/.config/fish/completions/pelton.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell to print the script for
    shell: Shell,
}

pub(crate) fn run_completions(args: &CompletionsArgs, term: &Term) -> Result<CliStatus, CliError> {
    // The script is generated into memory, because the generator panics when its writer fails.
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "pelton", &mut script);
    term.text(&String::from_utf8_lossy(&script))?;
    Ok(CliStatus::Fine)
}
