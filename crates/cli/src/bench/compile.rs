//! From text to code, step by step.

use std::hint::black_box;
use std::time::Instant;

use pelton_device::open;
use pelton_ir::pass::optimize;

use super::BenchRow;
use super::device::{best_time, parse_kernel};
use crate::error::CliError;
use crate::stop;
use crate::term::Term;

/// Times each step for modules of two sizes, and adds a row for each.
pub fn bench_compile(only: &str, rows: &mut Vec<BenchRow>, term: &Term) -> Result<(), CliError> {
    for count in [2_000u32, 20_000].into_iter().filter(|count| count.to_string() == only || only.is_empty()) {
        term.note(format_args!("{count} instructions …"));
        let source = generated_kernel(count);
        let parsed = parse_kernel("generated", &source)?;
        let case = |step: &str| format!("{step}, {count} instructions");
        let mut row = |step: &str, ns: f64| {
            let (group, metric, device) = ("compile", "ms".into(), "cpu".to_string());
            rows.push(BenchRow {
                group,
                case: case(step),
                device,
                metric,
                value: ns / 1e6,
                spread: None,
                against: None,
            });
        };
        row("parse and validate", best_time(|| parse_kernel("generated", &source).map(drop))?);
        row(
            "optimise",
            best_time(|| {
                black_box(optimize(&parsed));
                Ok(())
            })?,
        );
        // A device of its own each time, since it keeps what it compiled.
        let mut best = f64::INFINITY;
        let mut hit = f64::INFINITY;
        for _ in 0..5 {
            stop::unless_pressed()?;
            let device = open("cpu:1")?;
            let start = Instant::now();
            device.load(&parsed, None, 1)?;
            best = best.min(start.elapsed().as_nanos() as f64);
            let start = Instant::now();
            device.load(&parsed, None, 1)?;
            hit = hit.min(start.elapsed().as_nanos() as f64);
        }
        row("load, all of it", best);
        row("load, from the cache", hit);
    }
    Ok(())
}

/// A kernel of so many instructions, in loops and branches, that nothing can fold away.
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
