//! `pelton demo`: a histogram with shared memory and a barrier, run and checked.
//!
//! Every group counts into a histogram of its own in shared memory, waits at a barrier, and adds it to the common
//! one. Meanwhile it tells through a host buffer how far it is, which is what moves the progress bar.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pelton_device::{Device, Kernel, Kind, Launch, Memory, Outcome, Width, open};
use pelton_ir::builder::Builder;
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

/// How often the bar moves and Ctrl-C is looked for.
const GLANCE: Duration = Duration::from_millis(20);

/// Lines of the kernel's text that are shown.
const EXCERPT: usize = 24;

/// Count millions of values on the best device, and check the result
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton demo
  pelton demo --values 60000000
  pelton demo --device reference
  pelton demo --text > histogram.pel && pelton check histogram.pel")]
pub struct Args {
    /// How many values to count
    #[arg(long, value_name = "N", default_value_t = 16_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 26))]
    values: u64,

    /// What to run it on; `pelton devices` lists what there is
    #[arg(long, short, value_name = "NAME", default_value = "auto")]
    device: String,

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
    let device = open(&args.device)?;
    let caps = device.caps();
    let groups = caps.groups * 4;
    term.line(format_args!(
        "counting {} random values into {BINS} bins on {} ({}): {groups} groups of {LANES} lanes",
        args.values, caps.name, caps.about
    ))?;
    let mut seed = 1u64;
    let values: Vec<u32> = (0..args.values).map(|_| next(&mut seed)).collect();
    let demo = Demo::new(&*device, &module, &values, groups)?;
    let Some(took) = demo.count(values.len() as u64, term)? else {
        term.note("interrupted: the kernel was stopped, and nothing was checked");
        return Ok(Status::Interrupted);
    };
    verify(&values, &demo.bins)?;
    term.line(format_args!(
        "{}: every bin is what Rust counts; {took:.3} s, {:.0} million values/s",
        term.paint(Role::Good, "right"),
        args.values as f64 / took / 1e6,
    ))?;
    Ok(Status::Fine)
}

/// The next value of a sequence that is the same at every run.
fn next(state: &mut u64) -> u32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 32) as u32
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

/// The kernel with its memory.
struct Demo {
    kernel: Arc<dyn Kernel>,
    launch: Launch,
    bins: Memory,
    progress: Memory,
}

impl Demo {
    fn new(device: &dyn Device, module: &Valid, values: &[u32], groups: u32) -> Result<Self, Error> {
        let kernel = device.load(module, None, LANES)?;
        let data = device.alloc(Kind::Device, Width::W32, values.len())?;
        data.upload(0, values)?;
        let bins = device.alloc(Kind::Device, Width::W32, BINS as usize)?;
        let progress = device.alloc(Kind::Host, Width::W32, groups as usize)?;
        let mut launch = Launch::new(groups);
        launch.buffers = vec![Some(data), Some(bins.clone()), None, Some(progress.clone())];
        Ok(Demo { kernel, launch, bins, progress })
    }

    /// Launches, and moves the bar by what the groups tell. Gives the seconds it took, or none if it was stopped.
    fn count(&self, len: u64, term: &Term) -> Result<Option<f64>, Error> {
        stop::word()?;
        let bar = term.bar(len, "{bar:40} {human_pos}/{human_len} values, {per_sec}");
        let began = Instant::now();
        let run = self.kernel.launch(&self.launch)?;
        let ended = loop {
            if let Some(ended) = run.wait(Some(GLANCE))? {
                break ended;
            }
            if stop::pressed() {
                run.stop();
            }
            // Relaxed, as in the kernel: a bar that is a little behind does no harm.
            let words = self.progress.words32().unwrap_or(&[]);
            let furthest = words.iter().map(|word| u64::from(word.load(Ordering::Relaxed)).min(len));
            bar.set_position(furthest.sum::<u64>() / words.len().max(1) as u64);
        };
        bar.finish_and_clear();
        Ok((ended.outcome == Outcome::Done && !stop::pressed()).then(|| began.elapsed().as_secs_f64()))
    }
}

/// Counts again, in Rust.
fn verify(values: &[u32], bins: &Memory) -> Result<(), Error> {
    let mut expect = [0u32; BINS as usize];
    for value in values {
        expect[(value >> 24) as usize] += 1;
    }
    let mut found = [0u32; BINS as usize];
    bins.download(0, &mut found)?;
    match expect.iter().zip(&found).position(|(expect, found)| expect != found) {
        None => Ok(()),
        Some(bin) => {
            Err(Error::Wrong(format!("bin {bin} holds {}, and Rust counts {}", found[bin], expect[bin])))
        }
    }
}
