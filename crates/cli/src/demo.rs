//! `pelton demo`: a histogram with shared memory and a barrier, run and checked.
//!
//! Every group counts into a histogram of its own in shared memory, waits at a barrier, and adds it to the common
//! one. Meanwhile it tells through a host buffer how far it is, which is what moves the progress bar.

use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::{Duration, Instant};

use pelton_filetest::data::Data;
use pelton_filetest::init::Init;
use pelton_ir::builder::Builder;
use pelton_ir::interp::{End, Launch, Program, Report, Schedule, Words};
use pelton_ir::module::Module;
use pelton_ir::text;
use pelton_ir::types::{Access, Len, Order, Scope, Space};
use pelton_ir::valid::{Valid, validate};

use crate::error::Error;
use crate::term::{Role, Term};
use crate::{Status, stop};

const BINS: u64 = 256;
const LANES: u32 = 64;

/// Values that a lane counts before the group says how far it is.
const STRIDE: u32 = 64;

/// Lines of the kernel's text that are shown.
const EXCERPT: usize = 24;

/// Count a few million values on the reference interpreter, and check the result
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton demo
  pelton demo --values 20000000
  pelton demo --text > histogram.pel && pelton check histogram.pel")]
pub struct Args {
    /// How many values to count
    #[arg(long, value_name = "N", default_value_t = 16_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 26))]
    values: u64,

    /// Print the kernel's whole text and do nothing else
    #[arg(long)]
    text: bool,
}

/// The histogram's module: four buffers and one kernel, from Rust.
fn histogram() -> Module {
    let mut m = Builder::new();
    let data = m.buffer::<u32>("data", Len::Launch, Space::Global, Access::Read);
    let bins = m.buffer::<u32>("bins", Len::Fixed(BINS), Space::Global, Access::ReadWrite);
    let own = m.buffer::<u32>("own", Len::Fixed(BINS), Space::Shared, Access::ReadWrite);
    let progress = m.buffer::<u32>("progress", Len::Launch, Space::Host, Access::Write);
    m.kernel("histogram", |f| {
        let (lane, lanes, group) = (f.lane(), f.lanes(), f.group());
        let tile = lanes * STRIDE;
        let (first, all) = (group * tile, f.groups() * tile);
        f.count((first, f.len(data), all), (), |_, start, ()| {
            f.count((lane, tile, lanes), (), |_, at, ()| {
                let at = start + at;
                f.when(at.lt(f.len(data)), || {
                    let value = f.load(data.at(at));
                    f.atomic_add(Order::Relaxed, Scope::Group, own.at(value >> 24), 1);
                });
            });
            f.when(lane.eq(0), || {
                f.atomic_store(Order::Relaxed, Scope::System, progress.at(group), start + tile);
            });
        });
        f.barrier();
        f.count((lane, BINS as u32, lanes), (), |_, bin, ()| {
            let count = f.load(own.at(bin));
            f.atomic_add(Order::Relaxed, Scope::Device, bins.at(bin), count);
        });
    });
    m.finish()
}

pub fn run(args: &Args, term: &Term) -> Result<Status, Error> {
    let module = validate(histogram())
        .map_err(|invalid| Error::Report(invalid.report("histogram", None, term.err_color)))?;
    let printed = text::print(&module);
    if args.text {
        term.text(&printed)?;
        return Ok(Status::Fine);
    }
    excerpt(&printed, term)?;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let groups = threads as u32 * 4;
    term.line(format_args!(
        "counting {} random values into {BINS} bins: {groups} groups of {LANES} lanes on {threads} threads",
        args.values
    ))?;
    let decl = |name: &str| {
        let buffer = module.buffer(name).expect("the module declares it");
        &module.buffers[buffer]
    };
    let fail = |source| Error::Bind(pelton_filetest::bind::BindError::Init { name: "data".into(), source });
    let data = Init::Random(1, Some(args.values)).data(decl("data")).map_err(fail)?;
    let bins = Init::Zero(None).data(decl("bins")).map_err(fail)?;
    let progress: Vec<AtomicU32> = (0..groups).map(|_| AtomicU32::new(0)).collect();
    let (report, took) = launch(&module, &[&data, &bins], &progress, threads, term)?;
    if stop::pressed() {
        term.note("interrupted");
        return Ok(Status::Interrupted);
    }
    if report.end != End::Done {
        return Err(Error::Wrong(format!("the kernel did not end well: {:?}", report.end)));
    }
    verify(&data, &bins)?;
    let rate = |n: u64| n as f64 / took / 1e6;
    term.line(format_args!(
        "{}: every bin is what Rust counts; {took:.2} s, {:.1} million values/s, {:.0} million steps/s",
        term.paint(Role::Good, "right"),
        rate(args.values),
        rate(report.steps),
    ))?;
    Ok(Status::Fine)
}

/// The first lines of the kernel.
fn excerpt(printed: &str, term: &Term) -> Result<(), Error> {
    for line in printed.lines().take(EXCERPT) {
        term.line(format_args!("  {}", term.paint(Role::Faint, line)))?;
    }
    let more = printed.lines().count().saturating_sub(EXCERPT);
    if more > 0 {
        let note = format!("… {more} more lines: pelton demo --text");
        term.line(format_args!("  {}", term.paint(Role::Faint, note)))?;
    }
    term.line("")
}

/// Runs the kernel while this thread watches the words by which its groups tell how far they are.
fn launch(
    module: &Valid,
    [data, bins]: &[&Data; 2],
    progress: &[AtomicU32],
    threads: usize,
    term: &Term,
) -> Result<(Report, f64), Error> {
    use std::sync::atomic::Ordering::Relaxed;
    let program = Program::new(module, None)?;
    let launch = Launch {
        groups: progress.len() as u32,
        lanes: LANES,
        subgroup: 32,
        buffers: vec![data.words(), bins.words(), Words::None, Words::W32(progress)],
        stop: Some(stop::word()?),
        deadline: None,
        schedule: Schedule::Threads(threads),
    };
    let len = data.len() as u64;
    let bar = term.bar(len, "{bar:40} {human_pos} of {human_len} values");
    let report = thread::scope(|scope| {
        let kernel = scope.spawn(|| {
            let began = Instant::now();
            program.run(&launch).map(|report| (report, began.elapsed().as_secs_f64()))
        });
        while !kernel.is_finished() {
            // Relaxed, as in the kernel: a bar that is a little behind does no harm.
            let furthest = progress.iter().map(|word| u64::from(word.load(Relaxed)).min(len));
            bar.set_position(furthest.sum::<u64>() / progress.len() as u64);
            thread::park_timeout(Duration::from_millis(50));
        }
        kernel.join()
    });
    bar.finish_and_clear();
    Ok(report.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
}

/// Counts again, in Rust.
fn verify(data: &Data, bins: &Data) -> Result<(), Error> {
    let mut expect = [0u64; BINS as usize];
    for value in data.iter() {
        expect[(value.bits() >> 24) as usize] += 1;
    }
    for (bin, (expect, found)) in expect.iter().zip(bins.iter()).enumerate() {
        if *expect != found.bits() {
            return Err(Error::Wrong(format!("bin {bin} holds {}, and Rust counts {expect}", found.bits())));
        }
    }
    Ok(())
}
