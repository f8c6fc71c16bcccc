//! `bench device`: kernels on the CPU device compared with the interpreter and the same loops in Rust, each on one
//! thread.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton_device::cpu::{Cpu, CpuConfig};
use pelton_device::{Device, Kernel, Launch, Memory, MemoryKind, WordWidth, open};
use pelton_ir::text::{self, ColorMode};
use pelton_ir::valid::{Valid, validate};

use super::BenchRow;
use super::rounds::{Sample, Series, play_rounds};
use crate::error::CliError;
use crate::stop;
use crate::term::Term;

/// The number of elements of the input: few enough for a cache, so that code is measured and not memory, but enough
/// that the cost of a launch does not matter.
const ELEMENTS: usize = 1 << 20;
/// The number of lanes per group.
const LANES: u32 = 1024;
/// The least time that a measurement lasts.
const TIME: Duration = Duration::from_millis(300);
/// The least time that a stretch of calls lasts.
const STRETCH: Duration = Duration::from_millis(15);
/// The number of rounds in which compiled code is measured.
const ROUNDS: u32 = 15;
/// The largest number of rounds in which the interpreter is measured, a single launch of which may take a second.
const SLOW_ROUNDS: u32 = 5;

/// A benchmark: a kernel over `input` and `output`, and the same loop in Rust.
struct KernelCase {
    name: &'static str,
    text: &'static str,
    lanes: u32,
    rust: fn(&[u32], &mut [u32]),
}

const CASES: [KernelCase; 5] = [
    KernelCase { name: "map", text: include_str!("kernels/map.pel"), lanes: LANES, rust: map },
    KernelCase {
        name: "hash, 64 dependent rounds",
        text: include_str!("kernels/hash.pel"),
        lanes: LANES,
        rust: hash,
    },
    KernelCase { name: "switch of 8", text: include_str!("kernels/switch.pel"), lanes: LANES, rust: switch },
    KernelCase {
        name: "histogram, shared memory",
        text: include_str!("kernels/histogram.pel"),
        lanes: 64,
        rust: histogram,
    },
    KernelCase { name: "sum by subgroups", text: include_str!("kernels/sum.pel"), lanes: LANES, rust: sum },
];

fn map(input: &[u32], output: &mut [u32]) {
    for (out, x) in output.iter_mut().zip(input) {
        *out = (x.wrapping_mul(2_654_435_761) ^ (x >> 7)).wrapping_add(12_345);
    }
}

fn hash(input: &[u32], output: &mut [u32]) {
    for (out, x) in output.iter_mut().zip(input) {
        let mut h = *x;
        for round in 0..64 {
            h = (h ^ round).wrapping_mul(0x9e37_79b1).rotate_left(13);
        }
        *out = h;
    }
}

fn switch(input: &[u32], output: &mut [u32]) {
    for (out, x) in output.iter_mut().zip(input) {
        *out = match (x >> 9) & 7 {
            0 => x.wrapping_add(1),
            1 => x.wrapping_mul(3),
            2 => x ^ 0x5555_5555,
            3 => x.rotate_left(5),
            4 => x.wrapping_sub(7),
            5 => !x,
            6 => x >> 3,
            _ => x.count_ones(),
        };
    }
}

fn histogram(input: &[u32], output: &mut [u32]) {
    output.fill(0);
    for x in input {
        output[(x >> 24) as usize] += 1;
    }
}

fn sum(input: &[u32], output: &mut [u32]) {
    for (chunk, out) in input.chunks(LANES as usize).zip(output.iter_mut()) {
        *out = chunk.iter().fold(0u32, |sum, x| sum.wrapping_add(x.wrapping_mul(*x)));
    }
}

/// Parses and validates the text of a built-in kernel.
pub(crate) fn parse_kernel(name: &str, source: &str) -> Result<Valid, CliError> {
    let module = text::parse(source)
        .map_err(|list| CliError::Report(text::render_diagnostics(name, source, &list, ColorMode::Plain)))?;
    validate(module).map_err(|invalid| CliError::Report(invalid.report(name, Some(source), ColorMode::Plain)))
}

/// A kernel with its memory, ready to be launched repeatedly.
struct ReadyKernel {
    kernel: Arc<dyn Kernel>,
    launch: Launch,
    output: Memory,
    name: String,
}

impl ReadyKernel {
    fn new(device: &Arc<dyn Device>, case: &KernelCase, input: &[u32]) -> Result<Self, CliError> {
        let module = parse_kernel(case.name, case.text)?;
        let kernel = device.load(&module, None, case.lanes)?;
        let memory = |words: &[u32]| -> Result<Memory, CliError> {
            let memory = device.alloc(MemoryKind::Device, WordWidth::W32, words.len())?;
            memory.upload(0, words)?;
            Ok(memory)
        };
        let output = memory(&vec![0; input.len()])?;
        let mut launch = Launch::new(input.len() as u32 / LANES);
        launch.buffers = vec![Some(memory(input)?), Some(output.clone())];
        launch.buffers.resize(module.buffers.len(), None);
        Ok(ReadyKernel { kernel, launch, output, name: device.caps().name.clone() })
    }

    fn run_once(&self) -> Result<(), CliError> {
        stop::wait_for_end(&*self.kernel.launch(&self.launch)?).map(drop)
    }

    /// Compares the result of one launch with that of the loop in Rust.
    fn verify(&self, case: &KernelCase, input: &[u32]) -> Result<(), CliError> {
        let mut found = vec![0u32; input.len()];
        self.output.upload(0, &found)?;
        self.run_once()?;
        self.output.download(0, &mut found)?;
        let mut expect = vec![0u32; input.len()];
        (case.rust)(input, &mut expect);
        match expect.iter().zip(&found).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(at) => Err(CliError::Wrong(format!(
                "the benchmark {} computes a wrong element {at} on {}",
                case.name, self.name
            ))),
        }
    }
}

/// The time per call in nanoseconds, the best of several stretches. Ctrl-C ends the measurement between two calls.
pub(super) fn best_time(mut call: impl FnMut() -> Result<(), CliError>) -> Result<f64, CliError> {
    stop::unless_pressed()?;
    call()?;
    let mut best = f64::INFINITY;
    let began = Instant::now();
    while began.elapsed() < TIME || best.is_infinite() {
        best = best.min(time_stretch(&mut call)?);
    }
    Ok(best)
}

/// The time per call in nanoseconds over one stretch of calls. Ctrl-C ends it between two calls.
fn time_stretch(mut call: impl FnMut() -> Result<(), CliError>) -> Result<f64, CliError> {
    let start = Instant::now();
    let mut calls = 0;
    while start.elapsed() < STRETCH || calls == 0 {
        stop::unless_pressed()?;
        call()?;
        calls += 1;
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(calls))
}

/// Measures the cases whose name contains `only`, and adds the rows of each case as soon as its rounds are over.
/// After Ctrl-C the rows come from the rounds that were complete.
pub(super) fn bench_device(
    only: &str,
    rounds: Option<u32>,
    rows: &mut Vec<BenchRow>,
    term: &Term,
) -> Result<(), CliError> {
    let input: Vec<u32> =
        (0..ELEMENTS as u32).map(|x| x.wrapping_mul(2_246_822_519).rotate_left(7)).collect();
    let one = CpuConfig { threads: Some(1), ..CpuConfig::default() };
    let cpu: Arc<dyn Device> = Arc::new(Cpu::new(one)?);
    let scalar: Arc<dyn Device> = Arc::new(Cpu::new(CpuConfig { simd: false, ..one })?);
    let reference = open("reference:1")?;
    let cases: Vec<&KernelCase> = CASES.iter().filter(|case| case.name.contains(only)).collect();
    let bar = term.bar(cases.len() as u64, "{bar:40} {msg}");
    for case in cases {
        bar.set_message(case.name);
        bar.suspend(|| term.note(format_args!("{} …", case.name)));
        let mut output = vec![0; ELEMENTS];
        let ready = |device| -> Result<ReadyKernel, CliError> {
            let ready = ReadyKernel::new(device, case, &input)?;
            ready.verify(case, &input)?;
            Ok(ready)
        };
        let (ours, single, slow) = (ready(&cpu)?, ready(&scalar)?, ready(&reference)?);
        // `None` stands for the loop in Rust.
        let mut measure = |ready: &mut Option<&ReadyKernel>| -> Result<Sample, CliError> {
            let ns = time_stretch(|| match ready {
                Some(ready) => ready.run_once(),
                None => {
                    (case.rust)(black_box(&input), black_box(&mut output));
                    Ok(())
                }
            })?;
            Ok(Sample::figure(ns / ELEMENTS as f64))
        };
        let rounds = rounds.unwrap_or(ROUNDS);
        let compiled = play_rounds(rounds, &mut [None, Some(&ours), Some(&single)], &mut measure)?;
        let interpreted =
            play_rounds(rounds.min(SLOW_ROUNDS), &mut [Some(&ours), Some(&slow)], &mut measure)?;
        let row = |device: &str, series: &Series, against: Option<(&str, &Series)>| {
            Some(BenchRow {
                group: "device",
                case: case.name.into(),
                device: device.into(),
                metric: "ns/elem".into(),
                value: series.value()?,
                spread: None,
                against: against.and_then(|(name, peer)| series.against(name, peer)),
            })
        };
        rows.extend(row("rust", &compiled[0], None));
        rows.extend(row("cpu", &compiled[1], Some(("rust", &compiled[0]))));
        rows.extend(row("cpu, no SIMD", &compiled[2], Some(("cpu", &compiled[1]))));
        rows.extend(row("reference", &interpreted[1], Some(("cpu", &interpreted[0]))));
        stop::unless_pressed()?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}
