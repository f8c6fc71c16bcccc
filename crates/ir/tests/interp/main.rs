//! What the interpreter promises, on every schedule that can show it.

mod compute;
mod defer;
mod explore;
mod group;
mod launch;
mod memory;
mod schedule;
mod stepped;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pelton_ir::builder::{Buf, Builder, FunctionBuilder};
use pelton_ir::interp::{BoundWords, End, InterpKernel, InterpLaunch, InterpReport, Schedule};
use pelton_ir::types::{Access, Len, Space};
use pelton_ir::valid::validate;

/// Schedules that a program without races must give the same results on.
const SCHEDULES: [Schedule; 8] = [
    Schedule::Threads(1),
    Schedule::Threads(3),
    Schedule::Seeded(1),
    Schedule::Seeded(2),
    Schedule::Seeded(3),
    Schedule::Explore(1),
    Schedule::Explore(2),
    Schedule::Explore(3),
];

/// The only kernel of a module, decoded.
fn program(m: Builder) -> InterpKernel {
    InterpKernel::new(&validate(m.finish()).expect("the module is valid"), None).expect("the kernel loads")
}

/// A launch of subgroups of 32 lanes, at first on one thread.
fn launch<'a>(groups: u32, lanes: u32, buffers: &[BoundWords<'a>]) -> InterpLaunch<'a> {
    InterpLaunch {
        groups,
        lanes,
        subgroup: 32,
        buffers: buffers.to_vec(),
        stop: None,
        deadline: None,
        schedule: Schedule::Threads(1),
    }
}

/// Runs a launch to its end.
fn finish(program: &InterpKernel, launch: &InterpLaunch<'_>) -> InterpReport {
    let report = program.run(launch).expect("the launch is accepted");
    assert_eq!(report.end, End::Done);
    report
}

fn words(values: &[u32]) -> Vec<AtomicU32> {
    values.iter().map(|x| AtomicU32::new(*x)).collect()
}

fn long(values: &[u64]) -> Vec<AtomicU64> {
    values.iter().map(|x| AtomicU64::new(*x)).collect()
}

fn values(words: &[AtomicU32]) -> Vec<u32> {
    words.iter().map(|word| word.load(Ordering::Relaxed)).collect()
}

/// A module with one buffer `out`, whose kernel the closure writes.
fn kernel(build: impl for<'b> FnOnce(&'b FunctionBuilder<'b>, Buf<u32>)) -> InterpKernel {
    let mut m = Builder::new();
    let out = m.buffer::<u32>("out", Len::Launch, Space::Global, Access::ReadWrite);
    m.kernel("main", |f| build(f, out));
    program(m)
}

/// What such a kernel leaves in `out`, at first zero, run by one lane; the same on every schedule.
fn outcome(program: &InterpKernel, len: usize) -> Vec<u32> {
    let mut all = SCHEDULES.map(|schedule| {
        let out = words(&vec![0; len]);
        finish(program, &InterpLaunch { schedule, ..launch(1, 1, &[BoundWords::W32(&out)]) });
        values(&out)
    });
    all.iter().for_each(|other| assert_eq!(*other, all[0]));
    std::mem::take(&mut all[0])
}
