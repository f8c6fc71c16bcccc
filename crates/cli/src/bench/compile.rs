//! `bench compile`: the steps from text to code, timed one by one.

use std::hint::black_box;
use std::time::Instant;

use pelton_device::open;
use pelton_ir::pass::optimize;
use pelton_ir::valid::Valid;

use super::BenchRow;
use super::device::{best_time, parse_kernel};
use crate::error::CliError;
use crate::stop;
use crate::term::Term;

/// The sizes of the generated kernels, in instructions.
const SIZES: [u32; 2] = [2_000, 20_000];
/// The number of times that a kernel is loaded, of which the best counts.
const LOADS: u32 = 5;

/// Times the steps whose case contains `only` for kernels of two sizes, and adds a row for each.
pub(super) fn bench_compile(only: &str, rows: &mut Vec<BenchRow>, term: &Term) -> Result<(), CliError> {
    for size in SIZES {
        let cases = ["parse and validate", "optimise", "load, all of it", "load, from the cache"];
        let [parse, optimise, load, cached] = cases.map(|step| format!("{step}, {size} instructions"));
        let wanted = |case: &str| case.contains(only);
        if ![&parse, &optimise, &load, &cached].into_iter().any(|case| wanted(case)) {
            continue;
        }
        term.note(format_args!("{size} instructions …"));
        let source = generated_kernel(size);
        let module = parse_kernel("generated", &source)?;
        let mut row = |case: String, ns: f64| {
            let (group, metric, device) = ("compile", "ms".into(), "cpu".into());
            let (spread, against) = (None, None);
            rows.push(BenchRow { group, case, device, metric, value: ns / 1e6, spread, against });
        };
        if wanted(&parse) {
            row(parse, best_time(|| parse_kernel("generated", &source).map(drop))?);
        }
        if wanted(&optimise) {
            let ns = best_time(|| {
                black_box(optimize(&module));
                Ok(())
            })?;
            row(optimise, ns);
        }
        if wanted(&load) || wanted(&cached) {
            let [first, again] = best_loads(&module)?;
            if wanted(&load) {
                row(load, first);
            }
            if wanted(&cached) {
                row(cached, again);
            }
        }
    }
    Ok(())
}

/// The best times, in nanoseconds, of loading a kernel into a new device, and of loading it there again.
fn best_loads(module: &Valid) -> Result<[f64; 2], CliError> {
    let mut best = [f64::INFINITY; 2];
    for _ in 0..LOADS {
        stop::unless_pressed()?;
        // The device is new each time, because a device keeps what it has compiled.
        let device = open("cpu:1")?;
        for best in &mut best {
            let start = Instant::now();
            device.load(module, None, 1)?;
            *best = best.min(start.elapsed().as_nanos() as f64);
        }
    }
    Ok(best)
}

/// The text of a kernel of about `count` instructions in branches, none of which can be folded away.
fn generated_kernel(count: u32) -> String {
    let mut text =
        String::from("buffer data: [u32; ?] global read_write\nkernel main {\n  %x0 = load @data[0]\n");
    for k in 0..count / 10 {
        let (a, b) = (k * 10, (k + 1) * 10);
        text += &format!(
            "  %x{} = mul %x{a}, {}\n  %x{} = xor %x{}, {k}\n  %x{} = rotl %x{}, 7\n  %c{k} = gt %x{}, %x{a}\n",
            a + 1,
            2 * k + 3,
            a + 2,
            a + 1,
            a + 3,
            a + 2,
            a + 3,
        );
        text += &format!(
            "  %x{b}: u32 = if %c{k} {{\n    %y{k} = load @data[%x{}]\n    %z{k} = add %y{k}, %x{}\n    yield %z{k}\n  }} else {{\n    store @data[{k}], %x{}\n    yield %x{}\n  }}\n",
            a + 3,
            a + 2,
            a + 3,
            a + 1,
        );
    }
    text + &format!("  store @data[0], %x{}\n}}\n", count / 10 * 10)
}
