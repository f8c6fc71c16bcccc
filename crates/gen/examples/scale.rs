//! Shows how the time and memory of each part of the language grow with the size of a module: `cargo run --release
//! -p pelton-gen --example scale`.
//!
//! Each row is one part on one generated module: the best time of a few runs, and the peak of allocated bytes above
//! the start. Both are also given per instruction, so a column that stays the same shows linear growth.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pelton_gen::make;
use pelton_ir::module::Module;
use pelton_ir::{interp::InterpKernel, pass, text, valid};

/// The number of times that each part is timed.
const ROUNDS: usize = 5;

fn main() {
    let asked: Vec<usize> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let sizes = if asked.is_empty() { vec![25_000, 50_000, 100_000] } else { asked };
    println!(
        "{:>9}  {:<9} {:>9} {:>8} {:>11} {:>8}",
        "insts", "part", "ms", "ns/inst", "peak bytes", "per inst"
    );
    for size in sizes {
        let module = make::sized(size);
        let source = text::print(&module);
        let insts = instruction_count(&module);
        let row = |part: &str, (time, bytes): (Duration, usize)| {
            let (ms, each) = (time.as_secs_f64() * 1e3, time.as_nanos() / insts as u128);
            println!("{insts:>9}  {part:<9} {ms:>9.1} {each:>8} {bytes:>11} {:>8}", bytes / insts);
        };
        let parse = || text::parse(&source).expect("what is printed can be read");
        let validate = |module: Module| valid::validate(module).expect("what is made is valid");
        let proof = validate(module.clone());
        row("print", measure(|| (), |()| text::print(&module)));
        row("parse", measure(|| (), |()| parse()));
        row("validate", measure(|| module.clone(), validate));
        row("optimize", measure(|| (), |()| pass::optimize(&proof)));
        row("decode", measure(|| (), |()| InterpKernel::new(&proof, None).expect("what is made can be run")));
        let after = pass::optimize(&proof);
        println!(
            "{insts:>9}  the text has {} bytes; {} instructions are left",
            source.len(),
            instruction_count(&after)
        );
    }
}

/// The number of instructions of a module.
fn instruction_count(module: &Module) -> usize {
    module.functions.iter().map(|(_, function)| function.insts().len()).sum()
}

/// The best time of some work, and the most memory that it took above the start.
fn measure<I, O>(input: impl Fn() -> I, work: impl Fn(I) -> O) -> (Duration, usize) {
    let mut best = (Duration::MAX, usize::MAX);
    for _ in 0..ROUNDS {
        let input = black_box(input());
        let before = LIVE.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let start = Instant::now();
        let output = black_box(work(input));
        let time = start.elapsed();
        let peak = PEAK.load(Ordering::Relaxed) - before;
        drop(output);
        best = (best.0.min(time), best.1.min(peak));
    }
    best
}

/// The system's allocator, with counts of bytes.
struct Counted;

/// The number of bytes that are allocated now.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The largest value of `LIVE` since this counter was last set.
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counted = Counted;

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let live = LIVE.fetch_add(size, Ordering::Relaxed) + size;
        PEAK.fetch_max(live, Ordering::Relaxed);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.realloc(place, layout, size) }
    }
}
