//! `pelton scan`: finds the matches of many rules in files, folders and pipes.
//!
//! The inputs are found first and sorted. Then threads scan them and deliver what they find, which is printed in the
//! order of the inputs.

mod added_lines;
mod args;
mod baseline;
mod blobs;
mod check_rules;
mod device;
mod escape;
mod explain;
mod fingerprint;
mod format;
mod git;
mod ignore_file;
mod inputs;
mod order;
mod pipe_reader;
mod print;
mod redact;
mod report;
mod rule_options;
mod sorter;
mod staged;
mod stats;
mod text_reader;
mod threads;
mod walk;
mod work;
mod worker;

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use pelton_scan::RuleSet;

use self::args::EngineArgs;
pub(crate) use self::args::ScanArgs;
use self::baseline::Baseline;
use self::check_rules::check_rules;
use self::device::{OpenedScanner, open_scanner};
use self::escape::shown_text;
use self::explain::print_rules;
use self::format::{FindingFormatter, OutputFormat};
use self::ignore_file::IgnoredPlaces;
use self::inputs::{GatheredInputs, gather_inputs};
use self::print::{ProgressUse, ScanEnd, ScanPrinter};
use self::redact::SecretMode;
use self::report::{FindingReporter, ScanCounters};
use self::rule_options::{CollectedRules, collect_rules, rejection_text};
use self::staged::gather_staged;
use self::stats::{ScanTimes, print_stats, print_summary};
use self::threads::WorkerThreads;
use self::work::{FileReading, ScanWork, WorkOptions};
use crate::error::CliError;
use crate::term::Term;
use crate::{CliStatus, stop};

/// How often Ctrl-C is looked for while rules are prepared.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the command. It has exit statuses of its own, by which a commit hook can distinguish findings from errors.
pub(crate) fn run_scan(args: &ScanArgs, term: &Term) -> ExitCode {
    match scan(args, term) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let error = match error {
                // The text may quote what is in files.
                CliError::Wrong(text) => {
                    CliError::Wrong(text.lines().map(shown_text).collect::<Vec<_>>().join("\n"))
                }
                error => error,
            };
            term.error(&error);
            match error {
                // Whoever reads the output has closed it, which is not an error.
                CliError::Pipe => CliStatus::Fine.into(),
                CliError::Interrupted => CliStatus::Interrupted.into(),
                _ => CliStatus::Failed.into(),
            }
        }
    }
}

fn scan(args: &ScanArgs, term: &Term) -> Result<u8, CliError> {
    stop::listen()?;
    let began = Instant::now();
    if args.rules.check_rules {
        let CollectedRules { set, bad_expressions } = collect_rules(&args.rules)?;
        bad_expressions.iter().for_each(|problem| term.wrong(problem));
        warn_of_rejected(&set, term);
        let failed = check_rules(&set, term)? || !bad_expressions.is_empty() || !set.rejected.is_empty();
        return Ok(if failed { CliStatus::Failed as u8 } else { CliStatus::Fine as u8 });
    }
    let (opened, mut failed) = prepare_rules(args, term)?;
    if args.rules.explain {
        print_rules(&opened, args, term)?;
        return Ok(if failed { CliStatus::Failed as u8 } else { CliStatus::Fine as u8 });
    }
    let mut baseline = Baseline::default();
    for file in &args.rules.baselines {
        baseline.read(file)?;
    }
    let prepared = Instant::now();
    let threads = args.engine.thread_count();
    let gathered = match args.files.staged {
        true => gather_staged(&args.files.paths)?,
        false => gather_inputs(&args.files, threads),
    };
    stop::unless_pressed()?;
    for problem in &gathered.problems {
        term.wrong(problem);
        failed = true;
    }
    let walked = Instant::now();
    let reporter = FindingReporter {
        formatter: FindingFormatter {
            format: OutputFormat::from_args(&args.output),
            secrets: secret_mode(args),
            color: term.out_color,
        },
        baseline,
        ignored: ignored_places(&gathered)?,
        counters: ScanCounters::default(),
    };
    let work =
        Arc::new(ScanWork::new(opened.scanner, gathered.inputs, reporter, work_options(args, threads)));
    let progress = if args.output.no_progress { ProgressUse::Hide } else { ProgressUse::Show };
    let mut printer = ScanPrinter::new(term, &work, progress);
    let threads = WorkerThreads::start(&work)?;
    let end = printer.print_all(&threads)?;
    drop(threads);
    failed |= printer.problems > 0;
    let times = ScanTimes { prepare: prepared - began, walk: walked - prepared, scan: walked.elapsed() };
    if args.output.stats {
        print_stats(&work, times, end, opened.no_gpu.as_deref(), term);
    } else if io::stderr().is_terminal() && end != ScanEnd::Unread {
        print_summary(&work, times, end, term);
    } else if end == ScanEnd::Interrupted {
        term.note("interrupted: these are the findings so far");
    }
    Ok(exit_code(&work, args, end, failed))
}

/// Makes the scanner. Also returns whether an expression that was given with `-e` cannot be used.
fn prepare_rules(args: &ScanArgs, term: &Term) -> Result<(OpenedScanner, bool), CliError> {
    let CollectedRules { set, bad_expressions } = collect_rules(&args.rules)?;
    for problem in &bad_expressions {
        term.wrong(problem);
    }
    let opened = open_unless_interrupted(set, &args.engine)?;
    let rules = opened.scanner.rules();
    warn_of_rejected(rules, term);
    let bad_expression = !bad_expressions.is_empty()
        || rules.rejected.iter().any(|rejected| args.rules.expressions.contains(&rejected.id));
    if rules.rules.is_empty() {
        return Err(CliError::Wrong("none of the rules can be used, so nothing was scanned".into()));
    }
    Ok((opened, bad_expression))
}

/// Says which rules cannot be used.
fn warn_of_rejected(set: &RuleSet, term: &Term) {
    for rejected in &set.rejected {
        term.note(format_args!("warning: {}", rejection_text(rejected)));
    }
}

/// Makes the scanner on another thread, because compiling many rules takes long and Ctrl-C ends the program at once.
fn open_unless_interrupted(set: RuleSet, args: &EngineArgs) -> Result<OpenedScanner, CliError> {
    let (device, threads) = (args.device.clone(), args.thread_count());
    let (sender, receiver) = mpsc::channel();
    let opener = thread::Builder::new().name("pelton-scan-rules".into());
    let opener = opener.spawn(move || {
        // After Ctrl-C nobody waits for it.
        let _ = sender.send(open_scanner(set, &device, threads));
    });
    opener.map_err(|error| CliError::Wrong(format!("cannot start a thread: {error}")))?;
    loop {
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(opened) => return opened,
            Err(RecvTimeoutError::Timeout) => stop::unless_pressed()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(CliError::Wrong("preparing the rules failed; this is a bug in pelton".into()));
            }
        }
    }
}

fn secret_mode(args: &ScanArgs) -> SecretMode {
    let shown = args.output.no_redact || io::stdout().is_terminal() && !args.output.redact;
    if shown { SecretMode::Shown } else { SecretMode::Redacted }
}

fn work_options(args: &ScanArgs, threads: usize) -> WorkOptions {
    WorkOptions {
        reading: if args.files.binary { FileReading::Bytes } else { FileReading::Text },
        max_filesize: args.files.max_filesize.unwrap_or(u64::MAX),
        max_retain: usize::try_from(args.files.max_retain).unwrap_or(usize::MAX),
        threads,
    }
}

/// Reads what `.gitleaksignore` lists, in the current folder and in those that are scanned.
fn ignored_places(gathered: &GatheredInputs) -> Result<IgnoredPlaces, CliError> {
    let mut ignored = IgnoredPlaces::default();
    ignored.read(Path::new(""))?;
    for folder in gathered.folders.iter().filter(|folder| !folder.as_os_str().is_empty()) {
        ignored.read(folder)?;
    }
    Ok(ignored)
}

/// Returns the exit status. An error counts more than a finding, so that nobody takes an incomplete scan for a complete
/// one.
fn exit_code(work: &ScanWork, args: &ScanArgs, end: ScanEnd, failed: bool) -> u8 {
    match end {
        ScanEnd::Interrupted => CliStatus::Interrupted as u8,
        _ if failed => CliStatus::Failed as u8,
        _ if ScanCounters::get(&work.reporter.counters.found) > 0 => args.output.exit_code,
        _ => CliStatus::Fine as u8,
    }
}
