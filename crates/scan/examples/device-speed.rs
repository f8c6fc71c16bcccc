//! Measures the stages that a device does: over text that lies in its memory, and over text that the host feeds.
//!
//! ```sh
//! cargo run --release -p pelton-scan --example device-speed -- --device cuda --text sources.txt --rules hard
//! ```
//!
//! `--rules` is `easy` or `hard`, which are generated sets, or a file with one expression per line. The text is repeated
//! until there are `--resident-mib` of it on the device, and `--fed-mib` in arenas. Each option
//! `--shape LANES,GROUPS,PIECE,TURN,WINDOWS,HOT` is a row of its own; a number of 0 stands for what suits the device.

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pelton::device::{Device, open};
use pelton_scan::engine::{CandidateEngine, NativeEngine};
use pelton_scan::factor::extract_factors;
use pelton_scan::sample_rules::SampleRules;
use pelton_scan::session::{KernelShape, SessionConfig, SessionEngine};
use pelton_scan::{Catalog, Expression, ScanError};

type Failure = Box<dyn Error>;

/// How many bytes of the text the native engine scans too, to compare what is found.
const SAMPLE_BYTES: usize = 4 << 20;

struct Options {
    device: String,
    text: String,
    rules: String,
    resident_mib: usize,
    fed_mib: usize,
    threads: Vec<u32>,
    rounds: usize,
    shapes: Vec<String>,
}

fn main() -> Result<(), Failure> {
    let options = read_options()?;
    let device = open(&options.device)?;
    println!("{}: {}", device.caps().name, device.caps().about);
    let catalog = Arc::new(make_catalog(&options.rules)?);
    let text = std::fs::read(&options.text)?;
    let sample = &text[..text.len().min(SAMPLE_BYTES)];
    let mut expected = Vec::new();
    let begun = Instant::now();
    NativeEngine::new(catalog.clone()).find(sample, 0..sample.len(), &mut expected);
    let speed = gigabytes(sample.len(), begun.elapsed());
    println!("native engine: {speed:.3} GB/s, {} candidates in {} bytes", expected.len(), sample.len());
    for shape in &options.shapes {
        let config = read_shape(shape, &*device)?;
        println!("shape {shape:?}: {:?}", config.shape);
        let bench =
            DeviceBench { options: &options, device: &device, catalog: &catalog, text: &text, config };
        bench.resident()?;
        for threads in &options.threads {
            bench.fed(*threads)?;
        }
    }
    Ok(())
}

fn read_options() -> Result<Options, Failure> {
    let (device, text, rules) = ("auto".into(), String::new(), "easy".into());
    let (resident_mib, fed_mib, threads, rounds, shapes) = (64, 64, vec![1, 4], 3, Vec::new());
    let mut options = Options { device, text, rules, resident_mib, fed_mib, threads, rounds, shapes };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        match &*name {
            "--device" => options.device = value,
            "--text" => options.text = value,
            "--rules" => options.rules = value,
            "--resident-mib" => options.resident_mib = value.parse()?,
            "--fed-mib" => options.fed_mib = value.parse()?,
            "--threads" => options.threads = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "--rounds" => options.rounds = value.parse()?,
            "--shape" => options.shapes.push(value),
            _ => return Err(format!("there is no option {name}").into()),
        }
    }
    if options.text.is_empty() {
        return Err("--text names a file with the text to scan".into());
    }
    if options.shapes.is_empty() {
        options.shapes.push(String::new());
    }
    Ok(options)
}

fn make_catalog(rules: &str) -> Result<Catalog, Failure> {
    let of_set =
        |rules: SampleRules| rules.set().rules.into_iter().filter_map(|rule| rule.expression).collect();
    let expressions: Vec<Expression> = match rules {
        "easy" => of_set(SampleRules::easy()),
        "hard" => of_set(SampleRules::hard()),
        file => std::fs::read_to_string(file)?.lines().map(Expression::parse).collect::<Result<_, _>>()?,
    };
    let begun = Instant::now();
    let catalog = Catalog::build(&expressions.iter().map(extract_factors).collect::<Vec<_>>())?;
    let automata: Vec<_> =
        catalog.factors().iter().map(|table| (table.state_count, table.class_count)).collect();
    println!(
        "{} rules, {} branches, automata {automata:?}, {} runs, windows {:.1} MB, built in {:.1?}",
        expressions.len(),
        catalog.branches().len(),
        catalog.class_runs().len(),
        catalog.windows().next.len() as f64 * 2e-6,
        begun.elapsed(),
    );
    Ok(catalog)
}

fn read_shape(shape: &str, device: &dyn Device) -> Result<SessionConfig, Failure> {
    let mut config = SessionConfig::default();
    let mut kernel = KernelShape::suiting(device.caps());
    let numbers = shape.split(',').filter(|number| !number.is_empty()).map(str::parse);
    for (k, number) in numbers.collect::<Result<Vec<u32>, _>>()?.into_iter().enumerate() {
        match (k, number) {
            (_, 0) => {}
            (0, _) => config.lanes = Some(number),
            (1, _) => config.groups = Some(number),
            (2, _) => config.piece_bytes = number,
            (3, _) => kernel.turn_blocks = number,
            (4, _) => kernel.window_room = number,
            _ => kernel.hot_words = number,
        }
    }
    config.shape = Some(kernel);
    Ok(config)
}

fn gigabytes(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64() / 1e9
}

/// Fills memory with the text, repeated. `at` is how many bytes were filled before.
fn fill(mut memory: &mut [u8], text: &[u8], mut at: usize) {
    while !memory.is_empty() {
        let from = at % text.len();
        let count = memory.len().min(text.len() - from);
        memory[..count].copy_from_slice(&text[from..from + count]);
        (memory, at) = (&mut memory[count..], at + count);
    }
}

struct DeviceBench<'a> {
    options: &'a Options,
    device: &'a Arc<dyn Device>,
    catalog: &'a Arc<Catalog>,
    text: &'a [u8],
    config: SessionConfig,
}

impl DeviceBench<'_> {
    fn launch(&self, config: SessionConfig) -> Result<SessionEngine, ScanError> {
        SessionEngine::launch(self.device.clone(), self.catalog.clone(), config)
    }

    /// Measures a text that lies in the device's memory.
    fn resident(&self) -> Result<(), Failure> {
        let len = self.options.resident_mib << 20;
        if len == 0 {
            return Ok(());
        }
        let chunk_bytes = u32::try_from(len.next_power_of_two())?;
        let config = SessionConfig { callers: 1, chunk_bytes, candidate_room: 1 << 23, ..self.config };
        let begun = Instant::now();
        let engine = self.launch(config)?;
        println!("  {}, opened in {:.2?}", engine.describe(), begun.elapsed());
        let mut at = 0;
        let mut resident = engine.resident_text(len, |part| {
            fill(part, self.text, at);
            at += part.len();
        })?;
        let sample = resident.count(0..self.text.len().min(SAMPLE_BYTES).min(len))?;
        println!("  in the sample: {sample:?}");
        for _ in 0..self.options.rounds {
            let begun = Instant::now();
            let counts = resident.count(0..len)?;
            let speed = gigabytes(len, begun.elapsed());
            let [hits, records] = [counts.hits, counts.records].map(|count| count as f64 * 1e6 / len as f64);
            println!("  resident: {speed:.1} GB/s, {hits:.0} hits and {records:.1} records per MB");
        }
        Ok(())
    }

    /// Measures text that several threads feed from arenas.
    fn fed(&self, threads: u32) -> Result<(), Failure> {
        let len = (self.options.fed_mib << 20) / threads.max(1) as usize;
        if len == 0 {
            return Ok(());
        }
        let engine = self.launch(SessionConfig { callers: threads, ..self.config })?;
        let arenas = (0..threads).map(|_| {
            let mut arena = engine.arena(len)?;
            fill(arena.bytes_mut(), self.text, 0);
            Ok(arena)
        });
        let mut arenas = arenas.collect::<Result<Vec<_>, ScanError>>()?;
        for _ in 0..self.options.rounds {
            let begun = Instant::now();
            let found = thread::scope(|scope| {
                let scans = arenas.iter_mut().map(|arena| {
                    let engine = &engine;
                    scope.spawn(move || {
                        let mut out = Vec::new();
                        engine.candidates(&**arena, len, 0..len, &mut out).map(|()| out.len())
                    })
                });
                let scans: Vec<_> = scans.collect();
                scans.into_iter().map(|scan| scan.join().expect("no scan panics")).sum::<Result<usize, _>>()
            })?;
            let all = len * threads as usize;
            let (speed, found) = (gigabytes(all, begun.elapsed()), found as f64 * 1e6 / all as f64);
            println!("  host-fed, {threads} threads: {speed:.1} GB/s, {found:.1} candidates per MB");
        }
        Ok(())
    }
}
