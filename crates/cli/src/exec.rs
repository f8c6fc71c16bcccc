//! `pelton exec`: launches a kernel once, and shows what its buffers hold.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pelton_device::DeviceError;
use pelton_filetest::bind::{bind_buffers, find_buffer};
use pelton_filetest::data::BufferData;
use pelton_filetest::hint::name_hint;
use pelton_filetest::init::Init;
use pelton_filetest::line::LaunchGeometry;
use pelton_ir::interp::{End, LoadError};
use pelton_ir::module::{BufferDecl, Module, Site, TextPlace};
use pelton_ir::text::{self, ColorMode, Diagnostic};
use pelton_ir::types::Type;
use pelton_ir::valid::Valid;
use serde_json::{Map, Value, json};

use crate::count::parse_count;
use crate::error::CliError;
use crate::launch::{LaunchJob, LaunchReport, launch_job};
use crate::link::Libraries;
use crate::source::ModuleSource;
use crate::term::{Term, TextRole};
use crate::{CliStatus, json, stop};

/// The largest number of a buffer's elements that are printed; of longer buffers the middle is left out.
const SHOWN: usize = 32;

/// Launch a kernel once, and print the buffers that it may have written
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton exec add.pel --lanes 4 --buffer 'x=[1 2 3 4]' --buffer 'y=[7; 4]'
  pelton exec hist.pel --groups 8 --lanes 64 --buffer data=random:1:100000 --out bins=bins.bin
  pelton exec sum.pel --buffer data=@words.bin --json
  pelton exec sum.pel --device reference --buffer data=iota:64
  pelton exec race.pel --seed 7          interleave the lanes in the same order in every run
  pelton exec poll.pel --deadline 500ms  stop the kernel after half a second
  pelton exec main.pel --link hash.pel --link sums.pel    bind imports to functions of two libraries

INIT, the initial contents of a buffer, is one of:
  [1 2 0x10 0.5 nan]   these elements, spelled as in the language
  [7; 64]              one element 64 times
  zero:N               N zeros
  iota:N               0 1 2 …, N elements
  random:SEED:N        N random elements, the same in every run; floats lie in [0, 1)
  @PATH                the words of a file, in little-endian order
  Leave out :N if the module fixes the length. Buffers of fixed length that are not given are zeros.

A module with `import fn f(%x: u32) -> u32` runs only after a function `f` of a library is bound to
the import. A library is a module with functions, given by --link; it may use buffers that the module
declares in the same words. docs/ir.md has more about imports.")]
pub(crate) struct ExecArgs {
    /// The file with the module; `-` is standard input
    file: PathBuf,

    #[command(flatten)]
    libraries: Libraries,

    /// The device to run on; `pelton devices` lists them
    #[arg(long, short, value_name = "NAME", default_value = "auto", conflicts_with = "seed")]
    device: String,

    /// The kernel to launch, if the module has several
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,

    /// The number of groups to launch
    #[arg(long, value_name = "N", default_value_t = LaunchGeometry::default().groups, value_parser = parse_count::<u32>, allow_negative_numbers = true)]
    groups: u32,

    /// The number of lanes per group
    #[arg(long, value_name = "N", default_value_t = LaunchGeometry::default().lanes, value_parser = parse_count::<u32>, allow_negative_numbers = true)]
    lanes: u32,

    /// The number of lanes per subgroup, at most 32; only with --seed, because devices have their own
    #[arg(long, value_name = "N", default_value_t = LaunchGeometry::default().subgroup, value_parser = parse_count::<u32>, allow_negative_numbers = true, requires = "seed")]
    subgroup: u32,

    /// Run on the reference interpreter, on one thread, interleaving lanes in the order that this number determines
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,

    /// Stop the kernel after this time, such as 10s, 500ms or 2m
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    deadline: Option<Duration>,

    /// The initial contents of a buffer; repeat the option for other buffers
    #[arg(long = "buffer", short, value_name = "NAME=INIT", value_parser = parse_buffer)]
    buffers: Vec<(String, Init)>,

    /// Write a buffer's words to a file instead of printing them; repeat the option for other buffers
    #[arg(long = "out", short, value_name = "NAME=FILE", value_parser = parse_out)]
    outs: Vec<(String, PathBuf)>,

    /// Print one JSON object instead, with the fields device, kernel, end, fault, steps, seconds and buffers
    #[arg(long)]
    json: bool,
}

/// Parses `NAME=INIT`.
fn parse_buffer(text: &str) -> Result<(String, Init), String> {
    let (name, init) = text.split_once('=').ok_or("write NAME=INIT, as in x=zero:64")?;
    let name = name.strip_prefix('@').unwrap_or(name);
    Ok((name.into(), init.parse().map_err(|error| format!("{error}"))?))
}

/// Parses `NAME=FILE`.
fn parse_out(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("write NAME=FILE, as in x=x.bin")?;
    Ok((name.strip_prefix('@').unwrap_or(name).into(), path.into()))
}

/// Parses a time such as `500ms`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let scale = match &text[unit..] {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err("write a number and ms, s or m, as in 10s".into()),
    };
    let number: f64 = text[..unit].parse().map_err(|_| "it must begin with a number, as in 10s")?;
    Duration::try_from_secs_f64(number * scale).map_err(|error| error.to_string())
}

pub(crate) fn run_exec(args: ExecArgs, term: &Term) -> Result<CliStatus, CliError> {
    let source = ModuleSource::read(&args.file)?;
    let module = args.libraries.link(&source, term)?;
    known_kernel(&module, args.kernel.as_deref())?;
    for (name, path) in &args.outs {
        find_buffer(&module, name)?;
        check_writable(path)?;
    }
    let mut data = bind_buffers(&module, &args.buffers)?;
    let began = Instant::now();
    let report = launch_job(LaunchJob {
        device: &args.device,
        seed: args.seed,
        module: &module,
        kernel: args.kernel.as_deref(),
        geometry: LaunchGeometry { groups: args.groups, lanes: args.lanes, subgroup: args.subgroup },
        data: &mut data,
        deadline: args.deadline,
    });
    let report = report.map_err(|error| show_refusal(&source, &module, error, term))?;
    let took = began.elapsed();
    if stop::pressed() {
        term.note(format_args!("interrupted: the kernel was stopped after {:.1} s", took.as_secs_f64()));
        return Ok(CliStatus::Interrupted);
    }
    let results =
        || module.buffers.iter().zip(&data).filter_map(|((_, decl), data)| Some((decl, data.as_ref()?)));
    write_outs(&args, results())?;
    if args.json {
        term.line(exec_json(&args, &source, &module, &report, took, results()))?;
    } else {
        print_buffers(&args, term, results())?;
        explain_end(&args, &source, &module, &report, took, term);
    }
    let well = report.end == End::Done && report.fault.is_none();
    Ok(if well { CliStatus::Fine } else { CliStatus::Failed })
}

/// Turns the error about an op that the device lacks into a diagram of the op's place.
fn show_refusal(source: &ModuleSource, module: &Valid, error: CliError, term: &Term) -> CliError {
    let site = match &error {
        CliError::Device(DeviceError::Op { site, .. }) | CliError::Load(LoadError::Refused { site, .. }) => {
            *site
        }
        _ => return error,
    };
    let shown = |place| Diagnostic::new("refused", place, error.to_string());
    CliError::Report(draw_site(source, module, (site, &shown), term))
}

/// Refuses a kernel that the module does not have, and names those that it has.
fn known_kernel(module: &Module, kernel: Option<&str>) -> Result<(), CliError> {
    let names: Vec<&str> = module.kernels().map(|func| module.functions[func].name.as_str()).collect();
    match kernel {
        Some(name) if !names.contains(&name) => {
            Err(CliError::Unknown { kind: "kernel", name: name.into(), hint: name_hint(name, &names) })
        }
        _ => Ok(()),
    }
}

/// Refuses a path that cannot be written, so that the kernel does not run for nothing.
pub(crate) fn check_writable(path: &Path) -> Result<(), CliError> {
    let fail = |source| CliError::Write { path: path.into(), source };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs::metadata(folder.unwrap_or(".".as_ref())).map_err(fail)?;
    if path.is_dir() { Err(fail(std::io::ErrorKind::IsADirectory.into())) } else { Ok(()) }
}

/// A buffer's declaration, and its contents.
type DeclaredData<'a> = (&'a BufferDecl, &'a BufferData);

/// Writes the buffers that `--out` names.
fn write_outs<'a>(args: &ExecArgs, results: impl Iterator<Item = DeclaredData<'a>>) -> Result<(), CliError> {
    for (decl, data) in results {
        for (_, path) in args.outs.iter().filter(|(name, _)| *name == decl.name) {
            write_words(path, data.elem(), data.iter().map(|c| c.bits()))?;
        }
    }
    Ok(())
}

/// Writes words to a file, in little-endian order.
pub(crate) fn write_words(path: &Path, elem: Type, words: impl Iterator<Item = u64>) -> Result<(), CliError> {
    let size = BufferData::element_bytes(elem) as usize;
    let written = fs::File::create(path).and_then(|file| {
        let mut file = BufWriter::new(file);
        for word in words {
            file.write_all(&word.to_le_bytes()[..size])?;
        }
        file.flush()
    });
    written.map_err(|source| CliError::Write { path: path.into(), source })
}

/// Whether to show a buffer: the kernel may have written it, and `--out` does not name it.
fn is_shown(args: &ExecArgs, decl: &BufferDecl) -> bool {
    decl.access.writes() && !args.outs.iter().any(|(name, _)| *name == decl.name)
}

fn print_buffers<'a>(
    args: &ExecArgs,
    term: &Term,
    results: impl Iterator<Item = DeclaredData<'a>>,
) -> Result<(), CliError> {
    for (decl, data) in results.filter(|(decl, _)| is_shown(args, decl)) {
        let name = term.paint(TextRole::Strong, &decl.name);
        term.line(format_args!("{name}: [{}; {}] = {}", decl.elem, data.len(), data.show_elements(SHOWN)))?;
    }
    Ok(())
}

/// Prints how the launch ended, with a diagram of the place if it did not end well.
fn explain_end(
    args: &ExecArgs,
    source: &ModuleSource,
    module: &Valid,
    report: &LaunchReport,
    took: Duration,
    term: &Term,
) {
    if let Some(fault) = &report.fault {
        let times =
            if fault.count > 1 { format!(", the first of {} faults", fault.count) } else { String::new() };
        let message = format!("the kernel recorded fault {}{times}", fault.code);
        let shown = |place| Diagnostic::new("fault", place, message.clone()).label("here");
        term.note(draw_site(source, module, (fault.site, &shown), term).trim_end());
    }
    if let End::Trapped { code, site } = report.end {
        let message = format!("the kernel trapped with code {code}");
        let shown = |place| Diagnostic::new("trap", place, message.clone()).label("here");
        term.note(draw_site(source, module, (site, &shown), term).trim_end());
    }
    let end = match (report.end, args.deadline) {
        (End::Done, _) => "done".into(),
        (End::Stopped, Some(deadline)) => format!("stopped at the deadline of {deadline:?}"),
        (End::Stopped, None) => "stopped".into(),
        (End::Trapped { .. }, _) => "trapped".into(),
    };
    let steps = report.steps.map(|steps| format!("{steps} steps in ")).unwrap_or_default();
    term.note(format_args!("{end}: {steps}{took:.1?} on {}", report.device));
}

/// Where the module's text has an instruction. One that comes from a library has no place there.
fn site_place(module: &Valid, site: Site) -> Option<TextPlace> {
    module.functions[site.func].debug.place(site.inst)
}

/// Draws something about an instruction over the module's text, or over the linked module if a library has it.
fn draw_site(
    source: &ModuleSource,
    module: &Valid,
    (site, shown): (Site, &dyn Fn(TextPlace) -> Diagnostic),
    term: &Term,
) -> String {
    match site_place(module, site) {
        Some(place) => source.render(&[shown(place)], term),
        None => {
            let listing = text::print_listing(module);
            text::render_diagnostics(
                "linked module",
                &listing.text,
                &[shown(listing.inst(site))],
                ColorMode::from_flag(term.err_color),
            )
        }
    }
}

fn exec_json<'a>(
    args: &ExecArgs,
    source: &ModuleSource,
    module: &Valid,
    report: &LaunchReport,
    took: Duration,
    results: impl Iterator<Item = DeclaredData<'a>>,
) -> Value {
    let at = |site| site_place(module, site).map(|at| json::position_json(&source.text, at.start as usize));
    let end = match report.end {
        End::Done => json!({ "kind": "done" }),
        End::Stopped => json!({ "kind": "stopped" }),
        End::Trapped { code, site } => json!({ "kind": "trapped", "code": code, "place": at(site) }),
    };
    let fault = report
        .fault
        .as_ref()
        .map(|fault| json!({ "code": fault.code, "count": fault.count, "place": at(fault.site) }));
    let visible = results.filter(|(decl, _)| is_shown(args, decl));
    let buffers: Map<String, Value> =
        visible.map(|(decl, data)| (decl.name.clone(), json::buffer_json(data))).collect();
    json!({
        "device": report.device,
        "kernel": args.kernel.as_deref().or_else(|| first_kernel(module)),
        "end": end,
        "fault": fault,
        "steps": report.steps,
        "seconds": took.as_secs_f64(),
        "buffers": buffers,
    })
}

/// The name of the kernel that runs if none is given.
fn first_kernel(module: &Module) -> Option<&str> {
    module.kernels().next().map(|func| module.functions[func].name.as_str())
}

#[cfg(test)]
mod tests {
    use super::parse_duration;
    use std::time::Duration;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "10", "s", "-1s", "1h", "1e400s", "nans", "infs", "1 é"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
