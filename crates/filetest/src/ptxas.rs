//! NVIDIA's assembler, which says whether PTX is well-formed and what it needs. It needs no GPU.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::sync::atomic::{AtomicU32, Ordering};

use pelton_ir::emit::ptx::Target;

/// What an assembled kernel takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Registers a lane.
    pub registers: u32,
    /// Bytes that did not fit into registers.
    pub spills: u32,
    /// Bytes of shared memory a group.
    pub shared: u32,
}

/// Where the assembler is: what `PTXAS` names, `target/ptxas/ptxas` below the workspace, or on the path.
pub fn find() -> Option<PathBuf> {
    let named = env::var_os("PTXAS").map(PathBuf::from);
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ptxas/ptxas");
    let paths = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&paths).map(|folder| folder.join("ptxas"));
    named.into_iter().chain([fetched]).chain(found).find(|path| path.is_file())
}

/// Assembles a text with one kernel.
pub fn assemble(text: &str, target: Target) -> Result<Usage, String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let ptxas = find().ok_or("there is no ptxas")?;
    let name = format!("pelton-{}-{}.ptx", id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = env::temp_dir().join(name);
    fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let output =
        Command::new(ptxas).args(["-v", "-arch", target.name(), "-o", "/dev/null"]).arg(&path).output();
    let _ = fs::remove_file(&path);
    let output = output.map_err(|error| format!("cannot run ptxas: {error}"))?;
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    if output.status.success() { usage(&said) } else { Err(said) }
}

/// The numbers in what ptxas says, such as `Used 22 registers` and `0 bytes spill stores`.
fn usage(said: &str) -> Result<Usage, String> {
    let before = |what: &str| {
        let words = said.split_once(what)?.0;
        words.trim_end().rsplit(' ').next()?.parse().ok()
    };
    let missing = || format!("ptxas does not say what the kernel takes:\n{said}");
    Ok(Usage {
        registers: before("registers").ok_or_else(missing)?,
        spills: before("bytes spill stores").ok_or_else(missing)?,
        shared: before("bytes smem").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::{Usage, usage};

    #[test]
    fn numbers_are_found() {
        let said = "ptxas info    : Function properties for k\n    0 bytes stack frame, 8 bytes spill stores, \
                    4 bytes spill loads\nptxas info    : Used 22 registers, used 1 barriers, 4112 bytes smem";
        assert_eq!(usage(said), Ok(Usage { registers: 22, spills: 8, shared: 4112 }));
        assert!(usage("ptxas info : nothing").is_err());
    }
}
