//! `pelton emit`: a kernel in the language of a device.

use std::path::PathBuf;

use clap::ValueEnum;
use pelton_device::cpu::{Config, Cpu};

use crate::Status;
use crate::error::Error;
use crate::source::Source;
use crate::term::Term;

/// A language to emit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum To {
    /// Cranelift's IR, as the CPU device compiles it
    Clif,
}

/// Print what a device compiles a kernel to
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton emit --to clif sum.pel
  pelton emit --to clif sum.pel --lanes 64 --kernel sum")]
pub struct Args {
    /// The module; `-` is standard input
    file: PathBuf,

    /// The language
    #[arg(long, value_enum)]
    to: To,

    /// The kernel, if the module has several
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,

    /// Lanes in a group, for which the code is made
    #[arg(long, value_name = "N", default_value_t = 1)]
    lanes: u32,
}

pub fn run(args: &Args, term: &Term) -> Result<Status, Error> {
    let source = Source::read(&args.file)?;
    let module = source.module(term.err_color)?;
    let text = match args.to {
        To::Clif => Cpu::new(Config::default())?.clif(&module, args.kernel.as_deref(), args.lanes)?,
    };
    term.text(&text)?;
    Ok(Status::Fine)
}
