//! `pelton kernel`: prints the module that a spec assembles to.

use std::path::{Path, PathBuf};

use pelton::kernel::layout::{StepLayout, TreeLayout};
use pelton::kernel::{Assembled, PlaceSizes, TextError, assemble};
use pelton::{Recovery, Spec};
use pelton_device::open;
use pelton_ir::text;

use crate::CliStatus;
use crate::error::CliError;
use crate::source::{ModuleSource, is_stdin};
use crate::term::Term;

/// Print the kernel that a spec describes, as a module
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton kernel examples/run/spec.toml    print the module, and a line about it on standard error
  pelton kernel spec.toml --device reference | pelton check -
  pelton kernel spec.toml --whole         print the spec itself, with all defaults filled in

A spec is a TOML file. examples/run/spec.toml is one, and the documentation of
pelton::kernel::text describes every key.")]
pub(crate) struct KernelArgs {
    /// The file with the spec, in TOML; `-` is standard input
    spec: PathBuf,

    /// The device to assemble the kernel for; `pelton devices` lists them
    #[arg(long, short, value_name = "NAME", default_value = "auto")]
    device: String,

    /// Print the complete spec instead of the module: every key, and the text of every handler
    #[arg(long)]
    whole: bool,
}

pub(crate) fn run_kernel(args: &KernelArgs, term: &Term) -> Result<CliStatus, CliError> {
    let spec = read_spec_or_stdin(&args.spec, term)?;
    if args.whole {
        term.text(&spec.to_string())?;
        return Ok(CliStatus::Fine);
    }
    let device = open(&args.device)?;
    let caps = device.caps();
    let Assembled { module, layout } = assemble(&spec, caps).map_err(pelton::Error::from)?;
    term.text(&text::print(&module))?;
    term.note(format_args!(
        "for {}: {} {} rings of {} slots, {} groups of {} lanes{}{}{}{}",
        caps.name,
        layout.rings.len(),
        layout.placement(),
        layout.largest_stripe(),
        layout.groups,
        layout.lanes,
        describe_places(layout.places),
        describe_steps(layout.steps),
        describe_trees(layout.trees),
        if spec.recovery == Recovery::On { ", recovers after a loss" } else { "" },
    ));
    Ok(CliStatus::Fine)
}

/// Describes the payloads and replies of tasks, if they have any.
fn describe_places(PlaceSizes { payload, reply }: PlaceSizes) -> String {
    let parts = [("payloads", payload), ("replies", reply)].into_iter().filter(|(_, bytes)| *bytes > 0);
    parts.map(|(what, bytes)| format!(", {what} of up to {bytes} bytes")).collect()
}

/// Describes what there is for tasks that take several steps, if a handler is resumable.
fn describe_steps(steps: Option<StepLayout>) -> String {
    let Some(StepLayout { frame_words, producer_cells }) = steps else { return String::new() };
    describe_counts(&[("cells per producer", producer_cells), ("words per frame", frame_words)])
}

/// Describes what there is for tasks that make or await others, if there are any.
fn describe_trees(trees: Option<TreeLayout>) -> String {
    let Some(TreeLayout { spawn_cells, events, graphs }) = trees else { return String::new() };
    let (instances, nodes) = graphs.map_or((0, 0), |graphs| (graphs.instances, graphs.nodes));
    describe_counts(&[
        ("cells for spawned tasks per tenant", spawn_cells),
        ("events per tenant", events),
        ("instances of graphs", instances),
        ("nodes per graph", nodes),
    ])
}

/// Lists counts that are not 0.
fn describe_counts(counts: &[(&str, u32)]) -> String {
    let some = counts.iter().filter(|(_, count)| *count > 0);
    some.map(|(what, count)| format!(", {count} {what}")).collect()
}

/// Reads a spec from a file, or from standard input if the path is `-`.
pub(crate) fn read_spec_or_stdin(path: &Path, term: &Term) -> Result<Spec, CliError> {
    if is_stdin(path) {
        return ModuleSource::read(path)?.text.parse().map_err(|error| show_refusal(&error, term));
    }
    read_spec(path, term)
}

/// Reads a spec; the error shows what is wrong with it.
pub(crate) fn read_spec(path: &Path, term: &Term) -> Result<Spec, CliError> {
    Spec::from_file(path).map_err(|error| show_refusal(&error, term))
}

/// The error of a text that is not a spec.
pub(crate) fn show_refusal(error: &TextError, term: &Term) -> CliError {
    match error {
        TextError::Wrong(_) => CliError::Report(error.render(term.err_color)),
        _ => CliError::Wrong(error.to_string()),
    }
}
