//! Tests of the built program, run as users run it.

mod bench;
mod check;
mod demo;
mod devices;
mod exec;
mod fmt;
mod general;
mod graph;
#[cfg(unix)]
mod interrupt;
mod journal;
mod journal_damage;
#[cfg(unix)]
mod journal_kills;
mod kernel;
mod link;
mod litmus;
mod opt;
mod pages;
mod replay;
mod run;
mod run_graphs;
mod run_losses;
mod run_payload;
mod run_steps;
mod run_stream;
mod run_watch;
mod scan;
mod scan_files;
#[cfg(unix)]
mod scan_interrupt;
mod scan_rules;
mod scan_staged;
mod soak;
mod test;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that exists during one test.
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Makes a folder. Tests that run at once may use the same name.
    fn new(name: &str) -> ScratchFolder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only the number itself is shared.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{name}-{}-{number}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).expect("the folder can be made");
        ScratchFolder(path)
    }

    /// Writes a file, and returns its path.
    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        fs::write(self.0.join(name), text).expect("the file can be written");
        self.path(name)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join(name)).expect("the file can be read")
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The exit status and output of a run of the program.
#[derive(Debug)]
struct RunOutput {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for RunOutput {
    fn from(output: Output) -> RunOutput {
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        RunOutput { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pelton"));
    command.env_remove("BLESS").env_remove("NO_COLOR");
    command
}

fn pelton(args: &[&str]) -> RunOutput {
    command().args(args).stdin(Stdio::null()).output().expect("the program starts").into()
}

fn pelton_with(args: &[&str], input: impl AsRef<[u8]>) -> RunOutput {
    let pipe = Stdio::piped;
    let mut child =
        command().args(args).stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("it was piped");
    let input = input.as_ref().to_vec();
    // The program may end before it has read all of its input.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("the writer ends");
    output.into()
}

/// A kernel that doubles its buffer.
const DOUBLE: &str = "\
buffer x: [u32; ?] global read_write

kernel double {
  %i = lane
  %v = load @x[%i]
  %w = add %v, %v
  store @x[%i], %w
}
";

fn exists(path: impl AsRef<Path>) -> bool {
    path.as_ref().exists()
}
