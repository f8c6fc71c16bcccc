//! The work of a scan, which threads share: the inputs, cut into jobs, and where the output goes.

use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pelton_scan::Scanner;
use pelton_scan::scanner::StreamOptions;

use crate::scan::inputs::ScanInput;
use crate::scan::order::OrderedOutput;
use crate::scan::report::FindingReporter;
use crate::stop;

/// The largest number of inputs per job.
const JOB_MAX: usize = 1024;

/// The number of bytes of output that are held for jobs that have to wait for others.
const OUTPUT_LIMIT: usize = 16 << 20;

/// Which inputs are scanned, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkOptions {
    /// How files are read.
    pub reading: FileReading,
    /// Files in folders that are larger are skipped.
    pub max_filesize: u64,
    /// The largest number of bytes that are kept of a pipe.
    pub max_retain: usize,
    /// The number of threads.
    pub threads: usize,
}

/// How files are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FileReading {
    /// As text: UTF-16 is decoded, and binary files in folders are skipped.
    Text,
    /// As the bytes that they are.
    Bytes,
}

/// Everything that the threads of a scan share.
pub(super) struct ScanWork {
    /// What finds matches.
    pub scanner: Scanner,
    /// What is scanned, in the order of the output.
    pub inputs: Vec<ScanInput>,
    /// What is done with findings.
    pub reporter: FindingReporter,
    /// Where output goes.
    pub output: OrderedOutput,
    /// How inputs are scanned.
    pub options: WorkOptions,
    /// Held while all threads scan one file.
    pub large_file: Mutex<()>,
    next_job: AtomicUsize,
    job_size: usize,
    over: AtomicBool,
}

impl ScanWork {
    /// Cuts the inputs into jobs.
    pub(super) fn new(
        scanner: Scanner,
        inputs: Vec<ScanInput>,
        reporter: FindingReporter,
        options: WorkOptions,
    ) -> ScanWork {
        // With many jobs per thread, all threads are busy until the end.
        let job_size = (inputs.len() / (options.threads * 16)).clamp(1, JOB_MAX);
        ScanWork {
            scanner,
            inputs,
            reporter,
            output: OrderedOutput::new(OUTPUT_LIMIT),
            options,
            large_file: Mutex::new(()),
            next_job: AtomicUsize::new(0),
            job_size,
            over: AtomicBool::new(false),
        }
    }

    /// Returns the number of jobs.
    pub(super) fn job_count(&self) -> usize {
        self.inputs.len().div_ceil(self.job_size)
    }

    /// Takes the next job, if there is one left and the scan goes on.
    pub(super) fn take_job(&self) -> Option<usize> {
        if self.is_over() {
            return None;
        }
        let job = self.next_job.fetch_add(1, Ordering::Relaxed);
        (job < self.job_count()).then_some(job)
    }

    /// Returns the inputs of a job.
    pub(super) fn job_inputs(&self, job: usize) -> Range<usize> {
        let first = job * self.job_size;
        first..(first + self.job_size).min(self.inputs.len())
    }

    /// Ends the scan early: because of Ctrl-C, or because nobody reads the output any more.
    pub(super) fn end_early(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Returns whether the scan ends early.
    pub(super) fn is_over(&self) -> bool {
        stop::pressed() || self.over.load(Ordering::Relaxed)
    }

    /// Returns the flag that is set when the scan ends early.
    pub(super) fn over(&self) -> &AtomicBool {
        &self.over
    }

    /// Returns how long inputs are scanned.
    pub(super) fn stream_options(&self) -> StreamOptions<'_> {
        let progress = Some(&self.reporter.counters.bytes);
        StreamOptions { threads: 1, retain: self.options.max_retain, progress, stop: None, cut_short: None }
    }

    /// Returns the path of an input.
    pub(super) fn path(&self, input: usize) -> &Path {
        &self.inputs[input].path
    }
}
