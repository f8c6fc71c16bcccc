//! `pelton emit`: prints a kernel in the language of a device.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use pelton_device::cpu::{Cpu, CpuConfig};
use pelton_ir::emit::ptx;

use crate::CliStatus;
use crate::count::parse_count;
use crate::error::CliError;
use crate::link::Libraries;
use crate::source::ModuleSource;
use crate::term::Term;

/// A language that a kernel can be emitted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum EmitLanguage {
    /// Cranelift's IR, which the CPU device compiles
    Clif,
    /// PTX, which the CUDA device passes to the driver
    Ptx,
}

/// Print a kernel in the language that a device compiles it from
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton emit --to clif sum.pel
  pelton emit --to clif sum.pel --lanes 64 --kernel sum
  pelton emit --to ptx main.pel --link hash.pel      imports bound to functions of a library
  pelton emit --to ptx sum.pel --lanes 256 --target sm_80 | ptxas -arch sm_80 -o sum.cubin -")]
pub(crate) struct EmitArgs {
    /// The file with the module; `-` is standard input
    file: PathBuf,

    #[command(flatten)]
    libraries: Libraries,

    /// The language to print
    #[arg(long, value_enum)]
    to: EmitLanguage,

    /// The kernel to emit, if the module has several
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,

    /// The number of lanes per group that the code is made for
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_count::<u32>, allow_negative_numbers = true)]
    lanes: u32,

    /// The GPU architecture that PTX is made for
    #[arg(long, value_name = "NAME", value_parser = gpu_targets(), default_value = "sm_90")]
    target: ptx::PtxTarget,
}

/// Parses names of GPU architectures, which help and completions list.
fn gpu_targets() -> impl clap::builder::TypedValueParser<Value = ptx::PtxTarget> {
    PossibleValuesParser::new(ptx::PtxTarget::ALL.iter().map(|target| target.name())).map(|name| {
        let found = ptx::PtxTarget::ALL.iter().copied().find(|target| target.name() == name);
        found.expect("only names of targets are let through")
    })
}

pub(crate) fn run_emit(args: &EmitArgs, term: &Term) -> Result<CliStatus, CliError> {
    let source = ModuleSource::read(&args.file)?;
    let module = args.libraries.link(&source, term)?;
    let text = match args.to {
        EmitLanguage::Clif => {
            Cpu::new(CpuConfig::default())?.clif(&module, args.kernel.as_deref(), args.lanes)?
        }
        EmitLanguage::Ptx => {
            let config = ptx::PtxConfig { target: args.target, lanes: args.lanes };
            ptx::emit_ptx(&module, args.kernel.as_deref(), &config)?.text
        }
    };
    term.text(&text)?;
    Ok(CliStatus::Fine)
}
