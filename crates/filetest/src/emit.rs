//! `test emit ptx`: emits the kernels of a module in the language of a device.

use pelton_ir::emit::ptx::{self, Ptx, PtxConfig, PtxTarget};

use crate::command::{CommandContext, Printed, TestCommand};
use crate::failure::Failure;
use crate::hint::name_hint;
use crate::run::valid_module;

/// The command `emit`, which emits every kernel. The `test` line may give the number of lanes per group and the
/// GPU: `lanes=64`, `target=sm_80`.
pub struct EmitCommand;

impl TestCommand for EmitCommand {
    fn name(&self) -> &'static str {
        "emit"
    }

    fn prints(&self) -> bool {
        true
    }

    fn run_on(&self, context: &CommandContext<'_>) -> Result<Printed, Failure> {
        let module = valid_module(context.file)?;
        let kernels = emit_kernels(&module, emit_config(context.args)?)?;
        let texts: Vec<&str> = kernels.iter().map(|kernel| kernel.text.as_str()).collect();
        Ok(Some(texts.join("\n")))
    }
}

/// Emits every kernel of a module as PTX.
pub fn emit_kernels(module: &pelton_ir::valid::Valid, config: PtxConfig) -> Result<Vec<Ptx>, Failure> {
    let names = module.kernels().map(|kernel| &*module.functions[kernel].name);
    names.map(|name| ptx::emit_ptx(module, Some(name), &config).map_err(Failure::Emit)).collect()
}

/// Parses the arguments of a `test emit` line.
pub fn emit_config(args: &[String]) -> Result<PtxConfig, Failure> {
    let mut config = PtxConfig { target: PtxTarget::Sm90, lanes: 1 };
    let wrong = |arg: &str| {
        let hint = name_hint(arg, &["ptx", "lanes=N", "target=sm_80", "target=sm_90", "target=sm_100"]);
        Failure::Argument { command: "emit", arg: arg.into(), hint }
    };
    if args.first().is_none_or(|to| to != "ptx") {
        return Err(wrong(args.first().map_or("", |arg| arg)));
    }
    for arg in &args[1..] {
        let read = match arg.split_once('=') {
            Some(("lanes", lanes)) => lanes.parse().map(|lanes| config.lanes = lanes).is_ok(),
            Some(("target", target)) => target.parse().map(|target| config.target = target).is_ok(),
            _ => false,
        };
        if !read {
            return Err(wrong(arg));
        }
    }
    Ok(config)
}
