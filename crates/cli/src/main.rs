//! The program `pelton`: Pelton's tools on the command line, one file per command.

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
mod graph;
mod journal;
mod json;
mod kernel;
mod launch;
mod link;
mod litmus;
#[cfg(target_os = "linux")]
mod loss_load;
mod ops;
mod opt;
mod recording;
mod run;
mod scan;
mod size;
mod source;
mod stop;
mod term;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::term::{Color, Term};

/// Write, check, run and measure Pelton kernels, which stay resident on a GPU or on CPU threads
#[derive(Parser)]
#[command(name = "pelton", version, max_term_width = 100, after_help = AFTER)]
struct Cli {
    /// When to colour the output: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN", hide_possible_values = true, display_order = 100)]
    color: Color,

    #[command(subcommand)]
    command: CliCommand,
}

const AFTER: &str = "\
Examples:
  pelton demo                    see a session at work on the best device
  pelton devices                 see which devices this machine has
  pelton check kernels/*.pel     find what is wrong with modules
  pelton exec add.pel --lanes 4 --buffer 'x=[1 2 3 4]' --buffer y=iota:4
  pelton run examples/run/spec.toml < examples/run/tasks.jsonl
  pelton test filetests
  pelton scan .                  find secrets in a folder

`pelton COMMAND --help` explains a command and shows examples.

Exit status:
    0  success
    1  a file, module, test or device is at fault, or results could not be written
    2  the kernel trapped, recorded a fault or was stopped at its deadline
   64  the command line is wrong
  130  interrupted by Ctrl-C
`pelton scan` has its own: 0 if nothing was found, 1 if something was, and 2 for every error.";

#[derive(Subcommand)]
enum CliCommand {
    Demo(demo::DemoArgs),
    Check(check::CheckArgs),
    Fmt(fmt::FmtArgs),
    Opt(opt::OptArgs),
    Exec(exec::ExecArgs),
    Run(run::RunArgs),
    Replay(run::ReplayArgs),
    Journal(journal::JournalArgs),
    Scan(scan::ScanArgs),
    Kernel(kernel::KernelArgs),
    Graph(graph::GraphArgs),
    Test(test::TestArgs),
    Emit(emit::EmitArgs),
    Devices(devices::DevicesArgs),
    Litmus(litmus::LitmusArgs),
    Bench(bench::BenchArgs),
    Ops(ops::OpsArgs),
    Completions(completions::CompletionsArgs),
}

/// How the program ended, as its exit status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CliStatus {
    Fine = 0,
    Wrong = 1,
    Failed = 2,
    Usage = 64,
    Interrupted = 130,
}

impl From<CliStatus> for ExitCode {
    fn from(status: CliStatus) -> ExitCode {
        ExitCode::from(status as u8)
    }
}

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    pelton::device::process::serve_if_asked();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Requests for help and the version arrive here too, and a reader who has gone is no error.
            let _ = error.print();
            return if error.use_stderr() { CliStatus::Usage.into() } else { CliStatus::Fine.into() };
        }
    };
    let term = Term::new(cli.color);
    let ended = match cli.command {
        CliCommand::Demo(args) => demo::run_demo(&args, &term),
        CliCommand::Check(args) => check::run_check(&args, &term),
        CliCommand::Fmt(args) => fmt::run_fmt(&args, &term),
        CliCommand::Opt(args) => opt::run_opt(&args, &term),
        CliCommand::Exec(args) => exec::run_exec(args, &term),
        CliCommand::Run(args) => run::run_spec(&args, &term),
        CliCommand::Replay(args) => run::run_replay(&args, &term),
        CliCommand::Journal(args) => journal::run_journal(&args, &term),
        CliCommand::Scan(args) => return scan::run_scan(&args, &term),
        CliCommand::Kernel(args) => kernel::run_kernel(&args, &term),
        CliCommand::Graph(args) => graph::run_graph(&args, &term),
        CliCommand::Test(args) => test::run_tests(&args, &term),
        CliCommand::Emit(args) => emit::run_emit(&args, &term),
        CliCommand::Devices(args) => devices::run_devices(&args, &term),
        CliCommand::Litmus(args) => litmus::run_litmus(&args, &term),
        CliCommand::Bench(args) => bench::run_bench(&args, &term),
        CliCommand::Ops(args) => ops::run_ops(&args, &term),
        CliCommand::Completions(args) => completions::run_completions(&args, &term),
    };
    match ended {
        Ok(status) => status.into(),
        Err(error) => {
            term.error(&error);
            error.status().into()
        }
    }
}
