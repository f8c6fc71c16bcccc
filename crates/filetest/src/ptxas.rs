//! Runs ptxas, NVIDIA's assembler, which checks PTX and reports what a kernel needs. It does not need a GPU.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::sync::atomic::{AtomicU32, Ordering};

use pelton_ir::emit::ptx::PtxTarget;

/// The resources that an assembled kernel needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// The number of registers per lane.
    pub registers: u32,
    /// The number of bytes per lane that did not fit into registers.
    pub spills: u32,
    /// The number of bytes of shared memory per group.
    pub shared: u32,
}

/// Finds the assembler: the file that the variable `PTXAS` names, `target/ptxas/ptxas` below the workspace, or a
/// `ptxas` on the search path.
pub fn find_ptxas() -> Option<PathBuf> {
    let named = env::var_os("PTXAS").map(PathBuf::from);
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ptxas/ptxas");
    let paths = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&paths).map(|folder| folder.join("ptxas"));
    named.into_iter().chain([fetched]).chain(found).find(|path| path.is_file())
}

/// Assembles a PTX text with one kernel.
pub fn assemble_ptx(text: &str, target: PtxTarget) -> Result<Usage, String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let ptxas = find_ptxas().ok_or("there is no ptxas; let the variable PTXAS name one")?;
    let name = format!("pelton-{}-{}.ptx", id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = env::temp_dir().join(name);
    fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let output =
        Command::new(ptxas).args(["-v", "-arch", target.name(), "-o", "/dev/null"]).arg(&path).output();
    let _ = fs::remove_file(&path);
    let output = output.map_err(|error| format!("cannot run ptxas: {error}"))?;
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    if output.status.success() { parse_usage(&said) } else { Err(said) }
}

/// Parses the numbers in the output of ptxas, such as `Used 22 registers` and `0 bytes spill stores`.
fn parse_usage(said: &str) -> Result<Usage, String> {
    let before = |what: &str| {
        let words = said.split_once(what)?.0;
        words.trim_end().rsplit(' ').next()?.parse().ok()
    };
    let missing = || format!("ptxas does not report what the kernel needs:\n{said}");
    Ok(Usage {
        registers: before("registers").ok_or_else(missing)?,
        spills: before("bytes spill stores").ok_or_else(missing)?,
        shared: before("bytes smem").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::{Usage, parse_usage};

    #[test]
    fn numbers_are_found() {
        let said = "ptxas info    : Function properties for k\n    0 bytes stack frame, 8 bytes spill stores, \
                    4 bytes spill loads\nptxas info    : Used 22 registers, used 1 barriers, 4112 bytes smem";
        assert_eq!(parse_usage(said), Ok(Usage { registers: 22, spills: 8, shared: 4112 }));
        assert!(parse_usage("ptxas info : nothing").is_err());
    }
}
