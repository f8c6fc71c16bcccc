//! Launches that advance only when their host says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pelton_ir::interp::{
    BoundWords, End, InterpKernel, InterpLaunch, LaunchError, LaunchWords, Schedule, SteppedRun,
};
use pelton_ir::types::Order::Relaxed;
use pelton_ir::types::Scope::Device;

use crate::{finish, kernel, launch, values, words};

/// The words of a launch's only buffer.
struct OneBuffer(Vec<AtomicU32>);

impl LaunchWords for OneBuffer {
    fn words(&self, _: usize) -> BoundWords<'_> {
        BoundWords::W32(&self.0)
    }
}

/// A program whose results depend on who runs when.
fn racy() -> InterpKernel {
    kernel(|f, out| {
        f.range((f.lit(0), f.lit(10), f.lit(1)), (), |_, _, ()| {
            let old = f.atomic_load(Relaxed, Device, out.at(0));
            f.atomic_store(Relaxed, Device, out.at(0), old + 1);
        });
        f.store(out.at(f.lane() + 1), f.cast(f.clock()));
    })
}

/// Catches an order that depends on how many steps are asked for at a time.
#[test]
fn a_launch_in_steps_runs_as_one_at_a_stretch() {
    let program = Arc::new(racy());
    for seed in 0..20 {
        let out = words(&[0; 7]);
        let shape =
            InterpLaunch { schedule: Schedule::Seeded(seed), ..launch(1, 6, &[BoundWords::W32(&out)]) };
        let report = finish(&program, &shape);
        for steps in [1, 7, 100, u64::MAX] {
            let stepped = Arc::new(OneBuffer(words(&[0; 7])));
            let mut run = SteppedRun::new(program.clone(), &shape, stepped.clone(), seed).unwrap();
            let mut turns = 0;
            while run.advance(steps).is_none() {
                turns += 1;
            }
            assert_eq!((values(&stepped.0), run.report()), (values(&out), Some(&Ok(report))), "seed {seed}");
            assert!(turns > 0 || steps > 7, "it ran before it was told to");
        }
    }
}

/// Catches a launch that goes on after it was cut, or that is cut after it has ended.
#[test]
fn a_launch_is_cut_where_it_is() {
    let program = Arc::new(racy());
    let (out, words) = (words(&[0; 7]), Arc::new(OneBuffer(words(&[0; 7]))));
    let shape = launch(1, 6, &[BoundWords::W32(&out)]);
    let mut run = SteppedRun::new(program.clone(), &shape, words.clone(), 3).unwrap();
    assert!(run.advance(60).is_none());
    run.cut();
    let then = values(&words.0);
    assert_eq!(run.advance(1 << 20).map(|report| report.clone().unwrap().end), Some(End::Stopped));
    assert_eq!(values(&words.0), then);
    let mut run = SteppedRun::new(program.clone(), &shape, words.clone(), 3).unwrap();
    run.advance(u64::MAX);
    run.cut();
    assert_eq!(run.report().map(|report| report.clone().unwrap().end), Some(End::Done));
    words.0[0].store(0, Ordering::Relaxed);
    let none = InterpLaunch { groups: 0, ..shape };
    assert!(matches!(SteppedRun::new(program, &none, words, 3), Err(LaunchError::Zero { what: "group" })));
}
