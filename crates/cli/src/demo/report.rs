//! The demo's report, for people and for programs.

use std::time::Duration;

use indicatif::HumanCount;
use pelton::Snapshot;
use pelton::kernel::Layout;
use pelton::telemetry::{NamedCount, Quantiles};
use pelton_device::Caps;
use serde_json::{Value, json};

use super::feed::ALL_FEEDERS;
use super::kernel::TENANTS;
use super::tally::{ROWS, Tally};
use crate::bench::machine;
use crate::error::CliError;
use crate::term::{Term, TextRole};

/// The number of printed lines that the report shows.
const SHOWN: usize = 2;

/// The results of the demo.
pub(super) struct DemoReport {
    pub device: String,
    /// The lines that describe the machine, the device and the kernel.
    pub opening: Vec<String>,
    /// The number of tasks that were asked for.
    pub asked: u64,
    /// The number of tasks that were submitted, ended and checked.
    pub tasks: u64,
    pub seconds: f64,
    /// The latency of single tasks without other work, and then with it.
    pub idle: Quantiles,
    pub busy: Quantiles,
    pub snapshot: Snapshot,
    /// The lines that tasks printed.
    pub lines: Vec<String>,
    pub tally: Tally,
    pub interrupted: bool,
}

/// The lines that describe the machine, the device and the kernel, printed before the kernel is fed.
pub(super) fn opening_lines(caps: &Caps, layout: &Layout, tasks: u64, launched: Duration) -> Vec<String> {
    let placement = layout.placement();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = ALL_FEEDERS as usize + 1;
    let mut lines = vec![
        machine::machine_line(),
        format!("{}: {}", caps.name, caps.about),
        format!(
            "one kernel of {} groups of {} {} with {placement} rings, launched in {:.1} ms",
            layout.groups,
            layout.lanes,
            if layout.lanes == 1 { "lane" } else { "lanes" },
            launched.as_secs_f64() * 1e3
        ),
        format!(
            "{ALL_FEEDERS} threads of {} tenants feed it {} tasks, and one thread measures",
            TENANTS.len(),
            HumanCount(tasks)
        ),
    ];
    let at_work = threads + if caps.name.starts_with("cuda") { 0 } else { layout.groups as usize };
    if at_work > cores {
        lines.push(format!(
            "{at_work} threads share {cores} cores, so latencies under load depend on the scheduler"
        ));
    }
    let load = load_average().filter(|load| *load > 0.5);
    lines.extend(load.map(|load| {
        format!("the machine was busy with other work (load average {load:.1}), so the figures are too low")
    }));
    lines
}

/// The load average of the last minute, if the system reports one.
fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Compares the kernel's own counts with what was submitted: the numbers of printed lines, of the sampler's tasks,
/// and of the feeders' tasks.
pub(super) fn check_counts(snapshot: &Snapshot, tally: &mut Tally, (lines, sampled, tasks): (u64, u64, u64)) {
    tally.ran[0] += sampled;
    let of = |counts: &[NamedCount]| counts.iter().map(|count| count.count).sum::<u64>();
    for (at, (op, _)) in ROWS.iter().enumerate() {
        let (found, expect) = (kernel_count(snapshot, op), tally.ran[at]);
        if found != expect {
            tally.wrong(format!("the kernel counted {found} tasks of {op}, but {expect} were submitted"));
        }
    }
    let [n, sum, squares] = tally.epochs;
    if (sum, squares) != (n * (n + 1) / 2, n * (n + 1) * (2 * n + 1) / 6) {
        tally.wrong(format!("the {n} fences did not return each epoch from 1 to {n} exactly once"));
    }
    for (what, found, expect) in [
        ("tasks that ended", snapshot.done, tasks + sampled),
        ("tasks of all tenants", of(&snapshot.tenants), tasks + sampled),
        ("tasks of all priorities", of(&snapshot.priorities), tasks + sampled),
        ("fences passed", snapshot.epoch, n as u64),
        ("printed lines", lines, tally.printed),
        ("checks that failed", snapshot.checks, 0),
    ] {
        if found != expect {
            tally.wrong(format!("{what}: {found}, expected {expect}"));
        }
    }
}

/// The kernel's count of an opcode.
fn kernel_count(snapshot: &Snapshot, op: &pelton::Opcode) -> u64 {
    let name = opcode_name(op);
    snapshot.opcodes.iter().find(|count| count.name == name).map_or(0, |count| count.count)
}

fn opcode_name(op: &pelton::Opcode) -> String {
    match *op {
        super::kernel::MIX => "mix".into(),
        super::kernel::SUM => "sum".into(),
        op => op.to_string(),
    }
}

impl DemoReport {
    fn rate(&self) -> f64 {
        self.tasks as f64 / self.seconds.max(1e-9)
    }

    /// Prints the report for people.
    pub(super) fn print(&self, term: &Term) -> Result<(), CliError> {
        let head = |text: &str| term.line(format_args!("\n{}", term.paint(TextRole::Strong, text)));
        head("opcode                 ran  checked")?;
        for (op, how) in ROWS.iter().filter(|row| kernel_count(&self.snapshot, &row.0) > 0) {
            term.line(format_args!(
                "{:<13} {:>12}  {how}",
                opcode_name(op),
                HumanCount(kernel_count(&self.snapshot, op)).to_string()
            ))?;
        }
        head("refused as expected, with memory unchanged")?;
        for (fault, count) in &self.tally.faults {
            term.line(format_args!("{:>26}  {fault}", HumanCount(*count).to_string()))?;
        }
        head("tenants and priorities")?;
        for count in self.snapshot.tenants.iter().chain(&self.snapshot.priorities) {
            term.line(format_args!("{:<13} {:>12}", count.name, HumanCount(count.count).to_string()))?;
        }
        for line in self.lines.iter().take(SHOWN) {
            term.line(format_args!("printed: {line}"))?;
        }
        head("latency of a single task                        p50        p99      p99.9        max")?;
        print_latency("without other work", self.idle, term)?;
        print_latency("while others feed", self.busy, term)?;
        self.verdict(term)
    }

    fn verdict(&self, term: &Term) -> Result<(), CliError> {
        let tasks = HumanCount(self.tasks);
        term.line(format_args!(
            "\n{tasks} tasks in {:.2} s: {:.2} million per second, each made, run and checked",
            self.seconds,
            self.rate() / 1e6
        ))?;
        if self.interrupted {
            term.line(format_args!(
                "interrupted: {} of {} tasks were submitted",
                tasks,
                HumanCount(self.asked)
            ))?;
        }
        match self.tally.wrong {
            0 => term.line(format_args!(
                "{}: every result, every word of both tenants' memory, and every count",
                term.paint(TextRole::Good, "right")
            )),
            n => term.line(format_args!(
                "{}: {} differences",
                term.paint(TextRole::Bad, "wrong"),
                HumanCount(n)
            )),
        }
    }

    /// The report for programs.
    pub(super) fn json(&self) -> Value {
        json!({
            "device": self.device,
            "about": self.opening,
            "asked": self.asked,
            "tasks": self.tasks,
            "seconds": self.seconds,
            "tasks_per_s": self.rate(),
            "idle": self.idle,
            "busy": self.busy,
            "faults": self.tally.faults,
            "printed": self.lines.len(),
            "wrong": self.tally.wrong,
            "interrupted": self.interrupted,
            "snapshot": self.snapshot,
        })
    }
}

fn print_latency(what: &str, of: Quantiles, term: &Term) -> Result<(), CliError> {
    let us = |ns: u64| format!("{:.1} us", ns as f64 / 1e3);
    let what = format!("{what} ({} samples)", of.samples);
    let [p50, p99, p999, max] = [of.p50_ns, of.p99_ns, of.p999_ns, of.max_ns].map(us);
    term.line(format_args!("{what:<40} {p50:>10} {p99:>10} {p999:>10} {max:>10}"))
}
