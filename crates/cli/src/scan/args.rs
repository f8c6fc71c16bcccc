//! The options of `pelton scan`.

use std::path::PathBuf;

use crate::count::parse_count_in;
use crate::size::parse_size;

/// Find secrets, or whatever else rules describe, in files, folders and pipes
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    pub(super) files: FileArgs,

    #[command(flatten)]
    pub(super) rules: RuleArgs,

    #[command(flatten)]
    pub(super) output: OutputArgs,

    #[command(flatten)]
    pub(super) engine: EngineArgs,
}

const AFTER: &str = "\
Examples:
  pelton scan                            scan the current folder for secrets
  pelton scan src .env                   scan a folder and a file
  git log -p | pelton scan -             scan a pipe
  pelton scan -e 'TODO|FIXME' src        search for an expression instead
  pelton scan --rules .gitleaks.toml     use the rules of a file instead of the starter rules
  pelton scan --staged                   scan what the next commit would add, as a commit hook
  pelton scan --json > known.jsonl       write one JSON object per finding
  pelton scan --baseline known.jsonl     report only what that file does not list
  pelton scan --explain                  list the rules, and how each one is searched for

In folders, hidden files are scanned, and files that git ignores are not, unless git tracks them.
Symbolic links are not followed. What is named on the command line is always scanned.

A finding is printed as `path:line:column: rule: text`, where columns count bytes from 1. If the
output is not a terminal, only the beginning of each secret is printed; --no-redact prints all of
it. Lines that contain `gitleaks:allow` or `pelton:allow` are not reported, and neither is what
.gitleaksignore lists. SIZE is a number of bytes, or a number with K, M, G or T.

Exit status:
    0  nothing was found
    1  something was found; --exit-code sets another status
    2  an error, such as a file that could not be read; findings are printed anyway.
       With --check-rules: a rule does not do what its examples say, or cannot be used
   64  the command line is wrong
  130  interrupted by Ctrl-C, after the findings so far were printed";

/// What is scanned.
#[derive(clap::Args)]
pub(super) struct FileArgs {
    /// The files and folders to scan; `-` is standard input [default: the current folder]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Scan the lines that the next git commit would add, instead of files and folders
    #[arg(long)]
    pub staged: bool,

    /// Also scan files that git ignores
    #[arg(long, conflicts_with = "staged")]
    pub no_ignore: bool,

    /// Also scan binary files in folders, and do not decode UTF-16
    #[arg(long)]
    pub binary: bool,

    /// Skip files in folders that are larger than this, such as 500K, 10M or 1G
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_filesize: Option<u64>,

    /// How many bytes of a pipe are kept at most while a match may still continue
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256M")]
    pub max_retain: u64,
}

/// What is searched for.
#[derive(clap::Args)]
pub(super) struct RuleArgs {
    /// Search for a regular expression instead of using the starter rules; may be repeated
    #[arg(short = 'e', long = "regexp", value_name = "EXPR", allow_hyphen_values = true)]
    pub expressions: Vec<String>,

    /// Use the rules of a file instead of the starter rules: in the TOML format of Pelton or gitleaks if
    /// its name ends in .toml, otherwise one expression per line; may be repeated
    #[arg(long = "rules", value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Do not report findings that are in this file, which is an earlier output of --json or --sarif or a
    /// JSON report of gitleaks; may be repeated
    #[arg(long = "baseline", value_name = "FILE")]
    pub baselines: Vec<PathBuf>,

    /// List the rules and how each one is searched for, and scan nothing
    #[arg(long, conflicts_with_all = ["sarif", "count", "files_with_matches", "staged", "baselines"])]
    pub explain: bool,

    /// Test each rule with its own positive and negative examples, and scan nothing
    #[arg(long, conflicts_with_all = ["explain", "json", "sarif", "count", "files_with_matches", "staged", "baselines", "paths"])]
    pub check_rules: bool,
}

/// What is printed, and in which format.
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each of them is an option of the command line")]
pub(super) struct OutputArgs {
    /// Print each finding as a JSON object on a line of its own
    #[arg(long, conflicts_with_all = ["sarif", "count", "files_with_matches"])]
    pub json: bool,

    /// Print a report in the SARIF 2.1.0 format
    #[arg(long, conflicts_with_all = ["count", "files_with_matches"])]
    pub sarif: bool,

    /// Print the number of findings in each file that has any
    #[arg(long, conflicts_with = "files_with_matches")]
    pub count: bool,

    /// Print only the paths of files with findings
    #[arg(long, short = 'l')]
    pub files_with_matches: bool,

    /// Print only the beginning of each secret, even on a terminal
    #[arg(long, conflicts_with = "no_redact")]
    pub redact: bool,

    /// Print secrets in full, even if the output is not a terminal
    #[arg(long)]
    pub no_redact: bool,

    /// The exit status if something was found
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_count_in::<u8>(0..=255), allow_negative_numbers = true)]
    pub exit_code: u8,

    /// Print what was scanned, and how fast, on standard error at the end
    #[arg(long)]
    pub stats: bool,

    /// Show no progress bar
    #[arg(long)]
    pub no_progress: bool,
}

/// The device that scans, and the number of threads.
#[derive(clap::Args)]
pub(super) struct EngineArgs {
    /// The device to scan on: cpu, cuda for an NVIDIA GPU, or auto for a GPU if there is one; `pelton
    /// devices` lists all
    #[arg(long, short, value_name = "NAME", default_value = "cpu")]
    pub device: String,

    /// The number of threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = parse_count_in::<usize>(1..=1024), allow_negative_numbers = true)]
    pub threads: Option<usize>,
}

impl EngineArgs {
    /// Returns the number of threads to scan on.
    pub(super) fn thread_count(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }
}
