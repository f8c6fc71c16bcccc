//! `pelton`: the language's tools on the command line, one file a command.

mod bench;
mod check;
mod completions;
mod count;
mod demo;
mod devices;
mod emit;
mod error;
mod exec;
mod fmt;
mod json;
mod kernel;
mod launch;
mod litmus;
mod ops;
mod opt;
mod run;
mod source;
mod stop;
mod term;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::term::{Color, Term};

/// Tools for Pelton's kernels: check, format, optimise, run and test `.pel` files.
#[derive(Parser)]
#[command(name = "pelton", version, max_term_width = 100, after_help = AFTER)]
struct Cli {
    /// Colour the output: auto, always or never; NO_COLOR makes auto never
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN", hide_possible_values = true, display_order = 100)]
    color: Color,

    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Examples:
  pelton demo
  pelton check kernels/*.pel
  pelton exec add.pel --lanes 4 --buffer 'x=[1 2 3 4]' --buffer y=iota:4
  pelton run examples/run/spec.toml < examples/run/tasks.jsonl
  pelton test filetests

Exit status:
    0  everything is well
    1  something is wrong: a file, a module, a test, a device, or results that could not be written
    2  the kernel trapped, recorded a fault or was stopped at its deadline
   64  the command line itself is wrong
  130  Ctrl-C";

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Check(check::Args),
    Fmt(fmt::Args),
    Opt(opt::Args),
    Exec(exec::Args),
    Run(run::Args),
    Kernel(kernel::Args),
    Test(test::Args),
    Emit(emit::Args),
    Devices(devices::Args),
    Litmus(litmus::Args),
    Bench(bench::Args),
    Ops(ops::Args),
    Completions(completions::Args),
}

/// How the program ended, as its exit status says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Fine = 0,
    Wrong = 1,
    Failed = 2,
    Usage = 64,
    Interrupted = 130,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(status as u8)
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are asked for like this too, and whoever reads them may have gone.
            let _ = error.print();
            return if error.use_stderr() { Status::Usage.into() } else { Status::Fine.into() };
        }
    };
    let term = Term::new(cli.color);
    let ended = match cli.command {
        Command::Demo(args) => demo::run(&args, &term),
        Command::Check(args) => check::run(&args, &term),
        Command::Fmt(args) => fmt::run(&args, &term),
        Command::Opt(args) => opt::run(&args, &term),
        Command::Exec(args) => exec::run(args, &term),
        Command::Run(args) => run::run(&args, &term),
        Command::Kernel(args) => kernel::run(&args, &term),
        Command::Test(args) => test::run(&args, &term),
        Command::Emit(args) => emit::run(&args, &term),
        Command::Devices(args) => devices::run(&args, &term),
        Command::Litmus(args) => litmus::run(&args, &term),
        Command::Bench(args) => bench::run(&args, &term),
        Command::Ops(args) => ops::run(&args, &term),
        Command::Completions(args) => completions::run(&args, &term),
    };
    match ended {
        Ok(status) => status.into(),
        Err(error) => {
            term.error(&error);
            error.status().into()
        }
    }
}
