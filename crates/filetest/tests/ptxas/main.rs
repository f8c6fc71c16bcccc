//! Assembles the kernels of `filetests/emit` and `filetests/run` for every target, as well as megakernels and
//! generated kernels. A kernel that spills registers fails.
//!
//! The number of registers of each kernel is recorded in `filetests/emit/registers.txt`. A difference is printed,
//! and `BLESS=1` accepts it.

mod spec;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial, run};
use pelton_filetest::diff::diff_lines;
use pelton_filetest::emit::{emit_config, emit_kernels};
use pelton_filetest::file::TestFile;
use pelton_filetest::ptxas::{assemble_ptx, find_ptxas};
use pelton_filetest::suite::Bless;
use pelton_filetest::valid_module;
use pelton_gen::case::GeneratedCase;
use pelton_gen::config::GeneratorConfig;
use pelton_gen::hold::hold_law;
use pelton_gen::law::BrokenLaw;
use pelton_ir::emit::ptx::{PtxConfig, PtxTarget, emit_ptx};
use pelton_ir::valid::validate;

use spec::MadeKernel;

/// The number of registers by kernel, one number per target.
type RegisterTable = BTreeMap<String, Vec<u32>>;

/// The number of generated modules that are assembled; `PROPTEST_CASES` asks for another number.
const CASES: u32 = 60;

/// The number of lanes per group for kernels whose file does not give one.
const LANES: u32 = 64;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests");
    let table: Arc<Mutex<RegisterTable>> = Arc::default();
    let mut trials = Vec::new();
    for folder in ["emit/ptx", "run", "kernel"] {
        for path in pel_files(&root.join(folder)) {
            let stem = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let name = format!("{folder}/{stem}");
            trials.push(trial(name.clone(), &table, move || load_kernel(&name, &path)));
        }
    }
    for (name, spec) in spec::gpu() {
        trials.push(trial(format!("gpu/{name}"), &table, move || spec::on_gpu(&spec)));
    }
    let generated = || {
        hold_law(CASES, &GeneratorConfig::DEFAULT, assembles);
        Ok(())
    };
    trials.push(
        Trial::test("generated", generated).with_kind("ptxas").with_ignored_flag(find_ptxas().is_none()),
    );
    let conclusion = run(&Arguments::from_args(), trials);
    let found = table.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Err(why) = check_record(&root.join("emit/registers.txt"), &found, conclusion.num_filtered_out == 0)
    {
        eprintln!("{why}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

fn pel_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "pel")).collect();
    paths.sort();
    paths
}

/// A test that assembles the kernel that `make` returns for every target.
fn trial(
    name: String,
    table: &Arc<Mutex<RegisterTable>>,
    make: impl FnOnce() -> Result<MadeKernel, String> + Send + 'static,
) -> Trial {
    let (row, table) = (name.clone(), table.clone());
    let test = move || make().and_then(|made| assemble_for_all(&row, made, &table)).map_err(Failed::from);
    Trial::test(name, test).with_kind("ptxas").with_ignored_flag(find_ptxas().is_none())
}

/// The module of a file: its own text, or the megakernel that it asks for.
fn load_kernel(name: &str, path: &Path) -> Result<MadeKernel, String> {
    let file = TestFile::load(path, name.into()).map_err(|error| error.to_string())?;
    let asks = |command| file.tests.iter().find(|task| task.command.name() == command);
    if let Some(task) = asks("kernel") {
        return spec::asked(&task.args);
    }
    let lanes = match asks("emit") {
        Some(task) => emit_config(&task.args).map_err(|error| error.to_string())?.lanes,
        None => LANES,
    };
    Ok((valid_module(&file).map_err(|failure| failure.to_string())?, lanes))
}

/// Assembles the kernels of a module for every target.
fn assemble_for_all(
    name: &str,
    (module, lanes): MadeKernel,
    table: &Mutex<RegisterTable>,
) -> Result<(), String> {
    for target in PtxTarget::ALL {
        let kernels =
            emit_kernels(&module, PtxConfig { target: *target, lanes }).map_err(|error| error.to_string())?;
        for kernel in kernels {
            let usage =
                assemble_ptx(&kernel.text, *target).map_err(|why| format!("{}: {why}", kernel.entry))?;
            if usage.spills > 0 {
                return Err(format!("{} spills {} bytes on {target}", kernel.entry, usage.spills));
            }
            let row = format!("{name} {}", kernel.entry);
            let mut table = table.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            table.entry(row).or_default().push(usage.registers);
        }
    }
    Ok(())
}

/// The law that every valid module can be emitted and assembled.
fn assembles(case: &GeneratedCase) -> Result<(), BrokenLaw> {
    let broken = |why: String| BrokenLaw::new("assembles", why);
    let module = validate(case.module.clone()).map_err(|invalid| broken(invalid.to_string()))?;
    let config = PtxConfig { target: PtxTarget::Sm90, lanes: case.geometry.lanes };
    let kernel = emit_ptx(&module, None, &config).map_err(|error| broken(error.to_string()))?;
    assemble_ptx(&kernel.text, config.target).map(drop).map_err(broken)
}

/// Compares the numbers with the record, or writes them as the new record.
fn check_record(path: &Path, found: &RegisterTable, whole: bool) -> Result<(), String> {
    if found.is_empty() || !whole {
        return Ok(());
    }
    let targets: Vec<&str> = PtxTarget::ALL.iter().map(|target| target.name()).collect();
    let mut text = format!("registers of a lane: {}\n", targets.join(" "));
    for (row, numbers) in found {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        text.push_str(&format!("{row} {}\n", numbers.join(" ")));
    }
    let before = fs::read_to_string(path).unwrap_or_default();
    if before == text {
        return Ok(());
    }
    match Bless::from_env() {
        Bless::Yes => {
            fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
        }
        Bless::No => {
            println!(
                "registers differ (- recorded, + found); run again with BLESS=1 to accept them\n{}",
                diff_lines(&before, &text)
            );
            Ok(())
        }
    }
}
