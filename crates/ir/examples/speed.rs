//! How fast the interpreter runs loops of simple ops on one core.
//!
//! `cargo run --release -p pelton-ir --example speed`

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use pelton_ir::builder::Builder;
use pelton_ir::interp::{BoundWords, InterpKernel, InterpLaunch, Schedule};
use pelton_ir::types::{Access, Len, Space};
use pelton_ir::valid::validate;

const ROUNDS: u32 = 10_000_000;

fn main() {
    let mut m = Builder::new();
    let out = m.buffer::<u32>("out", Len::Launch, Space::Global, Access::ReadWrite);
    m.kernel("xorshift", |f| {
        let sum = f.range((0, ROUNDS, 1), (f.lit(1), f.lit(0)), |_, _, (x, sum)| {
            let x = x ^ (x << 13);
            let x = x ^ (x >> 17);
            let x = x ^ (x << 5);
            (x, sum + x)
        });
        f.store(out.at(0), sum.1);
    });
    m.kernel("collatz", |f| {
        let steps = f.range((1, ROUNDS / 100, 1), f.lit(0), |_, n, total| {
            let (_, steps) = f.repeat(
                (n, total),
                |(n, _)| n.ne(1),
                |_, (n, steps)| {
                    let next = f.choose((n & 1).eq(0), || n >> 1, || n * 3 + 1);
                    (next, steps + 1)
                },
            );
            steps
        });
        f.store(out.at(0), steps);
    });
    m.kernel("memory", |f| {
        f.range((0, ROUNDS, 1), (), |_, k, ()| {
            let at = k >> 31;
            let x = f.load(out.at(at));
            f.store(out.at(at), x + k);
        });
    });
    let module = validate(m.finish()).expect("the module is valid");
    for kernel in ["xorshift", "collatz", "memory"] {
        let program = InterpKernel::new(&module, Some(kernel)).expect("it loads");
        let words = [AtomicU32::new(0)];
        let launch = InterpLaunch {
            groups: 1,
            lanes: 1,
            subgroup: 32,
            buffers: vec![BoundWords::W32(&words)],
            stop: None,
            deadline: None,
            schedule: Schedule::Threads(1),
        };
        let start = Instant::now();
        let report = program.run(&launch).expect("it runs");
        let rate = report.steps as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!("{kernel:9} {rate:6.0} M steps/s, result {}", words[0].load(Ordering::Relaxed));
    }
}
