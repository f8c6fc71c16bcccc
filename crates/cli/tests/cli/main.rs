//! The built program, run as people run it.

mod bench;
mod check;
mod demo;
mod devices;
mod exec;
mod fmt;
mod general;
#[cfg(unix)]
mod interrupt;
mod kernel;
mod link;
mod litmus;
mod opt;
mod pages;
mod run;
mod test;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder that exists for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the folder can be made");
        Folder(path)
    }

    /// Writes a file and gives its path.
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

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a run of the program gave.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pelton"));
    command.env_remove("BLESS").env_remove("NO_COLOR");
    command
}

fn pelton(args: &[&str]) -> Ran {
    command().args(args).stdin(Stdio::null()).output().expect("the program starts").into()
}

fn pelton_with(args: &[&str], input: impl AsRef<[u8]>) -> Ran {
    let pipe = Stdio::piped;
    let mut child =
        command().args(args).stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("it was piped");
    let input = input.as_ref().to_vec();
    // The program may answer before it has read all of its input, or refuse it.
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
