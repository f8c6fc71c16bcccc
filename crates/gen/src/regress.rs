//! Saves a case that breaks a law as a filetest.

use std::fmt::Write;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use pelton_ir::interp::Schedule;
use pelton_ir::text;
use pelton_ir::types::Const;
use pelton_ir::valid::validate;

use crate::case::{CaseEnd, CaseOutcome, ElementBits, GeneratedCase};
use crate::law::BrokenLaw;

/// The folder in which regressions are kept.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/regress")
}

/// Writes a case that breaks a law into a folder, and returns the path of the file.
pub fn save(folder: &Path, case: &GeneratedCase, broken: &BrokenLaw) -> io::Result<PathBuf> {
    // The hasher is the same in every run, so the same module always has the same file name.
    let mut hasher = DefaultHasher::new();
    case.module.hash(&mut hasher);
    let path = folder.join(format!("{}-{:08x}.pel", broken.law, hasher.finish() as u32));
    fs::create_dir_all(folder)?;
    fs::write(&path, file_text(case, broken))?;
    Ok(path)
}

/// The text of the filetest: the module, and a run line with the results of the module before any pass.
pub fn file_text(case: &GeneratedCase, broken: &BrokenLaw) -> String {
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
    let _ = writeln!(out, "\n; run: {}", run_line(case));
    out
}

fn run_line(case: &GeneratedCase) -> String {
    let geometry = case.geometry;
    let (groups, lanes, subgroup) = (geometry.groups, geometry.lanes, geometry.subgroup);
    let mut line = format!("groups={groups} lanes={lanes} subgroup={subgroup}");
    line.push_str(&buffer_lists(case, &case.data()));
    line.push_str(" ->");
    let module = validate(case.module.clone()).ok();
    let Some(outcome) = module.and_then(|module| case.run(&module, Schedule::Seeded(1)).ok()) else {
        return line + " done";
    };
    if outcome.end == CaseEnd::Done {
        line.push_str(&buffer_lists(case, &outcome.data));
    }
    line + &end_words(&outcome)
}

/// The contents of all buffers that a launch binds.
fn buffer_lists(case: &GeneratedCase, all: &[Option<ElementBits>]) -> String {
    let mut out = String::new();
    for ((_, decl), data) in case.module.buffers.iter().zip(all) {
        let Some(data) = data else { continue };
        let words: Vec<String> = data.iter().map(|bits| Const::new(decl.elem, *bits).to_string()).collect();
        let _ = write!(out, " {}=[{}]", decl.name, words.join(" "));
    }
    out
}

fn end_words(outcome: &CaseOutcome) -> String {
    let end = match outcome.end {
        CaseEnd::Done => " done".into(),
        CaseEnd::Stopped => " stopped".into(),
        CaseEnd::Trapped(code) => format!(" trap={code}"),
    };
    match outcome.code {
        Some(code) => format!("{end} fault={code}"),
        None => end,
    }
}
