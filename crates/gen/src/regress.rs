//! A broken law as a filetest.

use std::fmt::Write;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use pelton_ir::interp::Schedule;
use pelton_ir::text;
use pelton_ir::types::Const;
use pelton_ir::valid::validate;

use crate::case::{Case, Data, Ended, Outcome};
use crate::law::Broken;

/// Where regressions are kept.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/regress")
}

/// Writes what breaks a law into a folder and gives the path.
pub fn save(folder: &Path, case: &Case, broken: &Broken) -> io::Result<PathBuf> {
    // The same hasher at every run, so that the same module is the same file.
    let mut hasher = DefaultHasher::new();
    case.module.hash(&mut hasher);
    let path = folder.join(format!("{}-{:08x}.pel", broken.law, hasher.finish() as u32));
    fs::create_dir_all(folder)?;
    fs::write(&path, file(case, broken))?;
    Ok(path)
}

/// The filetest: the module, and a run line with what the module gives before any pass.
pub fn file(case: &Case, broken: &Broken) -> String {
    let mut out = String::new();
    if let Some(pass) = broken.pass {
        out.push_str(format!("; test opt {pass}").trim_end());
        out.push('\n');
    }
    out.push_str("; test run\n");
    for line in broken.why.lines() {
        let _ = writeln!(out, "; {line}");
    }
    out.push_str(&text::print(&case.module));
    let _ = writeln!(out, "\n; run: {}", line(case));
    out
}

fn line(case: &Case) -> String {
    let geometry = case.geometry;
    let (groups, lanes, subgroup) = (geometry.groups, geometry.lanes, geometry.subgroup);
    let mut line = format!("groups={groups} lanes={lanes} subgroup={subgroup}");
    line.push_str(&lists(case, &case.data()));
    line.push_str(" ->");
    let module = validate(case.module.clone()).ok();
    let Some(outcome) = module.and_then(|module| case.run(&module, Schedule::Seeded(1)).ok()) else {
        return line + " done";
    };
    if outcome.end == Ended::Done {
        line.push_str(&lists(case, &outcome.data));
    }
    line + &ending(&outcome)
}

/// The contents of all buffers that a launch binds.
fn lists(case: &Case, all: &[Option<Data>]) -> String {
    let mut out = String::new();
    for ((_, decl), data) in case.module.buffers.iter().zip(all) {
        let Some(data) = data else { continue };
        let words: Vec<String> = data.iter().map(|bits| Const::new(decl.elem, *bits).to_string()).collect();
        let _ = write!(out, " {}=[{}]", decl.name, words.join(" "));
    }
    out
}

fn ending(outcome: &Outcome) -> String {
    let end = match outcome.end {
        Ended::Done => " done".into(),
        Ended::Stopped => " stopped".into(),
        Ended::Trapped(code) => format!(" trap={code}"),
    };
    match outcome.code {
        Some(code) => format!("{end} fault={code}"),
        None => end,
    }
}
