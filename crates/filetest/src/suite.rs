//! Collects the filetests of files and folders into named tests.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pelton_ir::text;

use crate::command::CommandContext;
use crate::device::{CpuTarget, CudaTarget};
use crate::diff::diff_lines;
use crate::failure::Failure;
use crate::file::{FileError, TestFile, TestLine};
use crate::target::{ReferenceTarget, TestTarget};
use crate::totals::Totals;

/// The deepest nesting of folders that is searched.
const MAX_DEPTH: usize = 32;

/// A set of filetests, and the devices to test them on.
pub struct Suite {
    files: Vec<SuiteFile>,
    targets: Vec<Arc<dyn TestTarget>>,
}

/// A file of the suite, or the reason why it is not a filetest.
struct SuiteFile {
    name: String,
    file: Result<Arc<TestFile>, Arc<FileError>>,
}

/// What to do when the output differs from the expected one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bless {
    /// Fail the test.
    No,
    /// Write the output into the file as the expected one.
    Yes,
}

impl Bless {
    /// Reads the environment variable `BLESS`: the value `1` means [`Bless::Yes`].
    pub fn from_env() -> Bless {
        if std::env::var_os("BLESS").is_some_and(|value| value == "1") { Bless::Yes } else { Bless::No }
    }
}

/// One test of a suite.
#[derive(Clone)]
pub struct SuiteTest {
    /// The test's name: the name of its file, and of its device if it has one.
    pub name: String,
    /// The name of the command that the test runs.
    pub command: &'static str,
    /// The reason why the test cannot run on this machine, if it cannot.
    pub absent: Option<String>,
    work: Result<TestWork, Arc<FileError>>,
}

#[derive(Clone)]
struct TestWork {
    file: Arc<TestFile>,
    task: TestLine,
    target: Arc<dyn TestTarget>,
}

/// Every device that tests are named after, whether it is present or not.
pub fn test_targets() -> Vec<Arc<dyn TestTarget>> {
    vec![Arc::new(ReferenceTarget), Arc::new(CpuTarget), Arc::new(CudaTarget)]
}

impl Suite {
    /// Reads the filetests at these paths: files, or folders with all `.pel` files below them. A file that cannot
    /// be read becomes a test that fails; a path that does not exist is an error.
    pub fn load(paths: &[PathBuf], targets: Vec<Arc<dyn TestTarget>>) -> Result<Suite, FileError> {
        let mut files = Vec::new();
        for path in paths {
            let fail = |source| FileError::Read { path: path.clone(), source };
            if fs::metadata(path).map_err(fail)?.is_dir() {
                let before = files.len();
                collect_files(path, path, MAX_DEPTH, &mut files).map_err(fail)?;
                if files.len() == before {
                    return Err(fail(io::Error::new(
                        io::ErrorKind::NotFound,
                        "the folder has no .pel files",
                    )));
                }
            } else {
                files.push(SuiteFile::load(path, path.display().to_string()));
            }
        }
        Ok(Suite { files, targets })
    }

    /// The suite's tests, in the order of the files.
    pub fn tests(&self) -> Vec<SuiteTest> {
        let mut tests = Vec::new();
        for SuiteFile { name, file } in &self.files {
            match file {
                Ok(file) => {
                    for task in &file.tests {
                        self.add_tests(file, task, &mut tests);
                    }
                }
                Err(error) => {
                    let (name, work) = (name.clone(), Err(error.clone()));
                    tests.push(SuiteTest { name, command: "read", absent: None, work });
                }
            }
        }
        tests
    }

    /// Adds the tests of one `test` line.
    fn add_tests(&self, file: &Arc<TestFile>, task: &TestLine, tests: &mut Vec<SuiteTest>) {
        let command = task.command.name();
        let work = |target: &Arc<dyn TestTarget>| {
            Ok(TestWork { file: file.clone(), task: task.clone(), target: target.clone() })
        };
        if task.command.runs_per_device() {
            let needs = text::parse(&file.source).map(|module| module.needs).unwrap_or_default();
            for target in &self.targets {
                let name = format!("{}@{}", file.name, target.name());
                let absent = target
                    .absent()
                    .or_else(|| target.lacking(&needs))
                    .or_else(|| unsuited_reason(file, &**target));
                tests.push(SuiteTest { name, command, absent, work: work(target) });
            }
        } else {
            let target: Arc<dyn TestTarget> = Arc::new(ReferenceTarget);
            tests.push(SuiteTest { name: file.name.clone(), command, absent: None, work: work(&target) });
        }
    }

    /// Counts the suite's files and tests, and what they cover. No test is run for this.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { files: self.files.len(), tests: self.tests().len(), ..Totals::default() };
        for file in self.files.iter().filter_map(|entry| entry.file.as_ref().ok()) {
            for task in &file.tests {
                let coverage = task.command.coverage(file);
                totals.coverage.rules.extend(coverage.rules);
                totals.coverage.ops.extend(coverage.ops);
            }
        }
        totals
    }
}

impl SuiteFile {
    fn load(path: &Path, name: String) -> SuiteFile {
        let file = TestFile::load(path, name.clone()).map(Arc::new).map_err(Arc::new);
        SuiteFile { name, file }
    }
}

/// The reason why no line of a file can run on a device, if none can.
fn unsuited_reason(file: &TestFile, target: &dyn TestTarget) -> Option<String> {
    let runs = file.runs.iter().map(|run| &run.setup);
    let mut setups = runs.chain(file.litmus.iter().map(|litmus| &litmus.setup)).peekable();
    setups.peek()?;
    let none = !setups.any(|setup| target.suits_geometry(setup.geometry));
    none.then(|| format!("no line of the file has subgroups of the size that {} has", target.name()))
}

/// Adds the `.pel` files below a folder in the order of their names. Links to folders are not followed.
fn collect_files(root: &Path, folder: &Path, depth: usize, files: &mut Vec<SuiteFile>) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() && depth > 0 {
            collect_files(root, &path, depth - 1, files)?;
        } else if path.extension().is_some_and(|extension| extension == "pel") && path.is_file() {
            let name = path.strip_prefix(root).unwrap_or(&path);
            let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
            files.push(SuiteFile::load(&path, parts.join("/")));
        }
    }
    Ok(())
}

impl SuiteTest {
    /// Runs the test.
    pub fn run_test(&self, bless: Bless) -> Result<(), Failure> {
        let TestWork { file, task, target } = match &self.work {
            Ok(work) => work,
            Err(error) => return Err(Failure::File(error.clone())),
        };
        let context = CommandContext { file, args: &task.args, target: &**target };
        let Some(printed) = task.command.run_on(&context)? else {
            return Ok(());
        };
        let printed = trim_line_ends(&printed);
        let expected = file.output.clone().unwrap_or_default();
        if printed == expected && file.output.is_some() {
            return Ok(());
        }
        match bless {
            Bless::Yes => file.bless(&printed).map_err(Failure::Bless),
            Bless::No => Err(Failure::Output(diff_lines(&expected, &printed))),
        }
    }
}

/// Removes white space at the ends of lines, because a file does not keep it.
fn trim_line_ends(text: &str) -> String {
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}
