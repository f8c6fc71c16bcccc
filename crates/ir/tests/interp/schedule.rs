//! Hosts, ends, and who runs when.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use pelton_ir::builder::Builder;
use pelton_ir::interp::{BoundWords, End, Fault, InterpKernel, InterpLaunch, Schedule};
use pelton_ir::module::Site;
use pelton_ir::op::Op;
use pelton_ir::types::Order::{Acquire, Relaxed, Release};
use pelton_ir::types::Scope::{Device, System};
use pelton_ir::types::{Access, Len, Space};
use pelton_ir::valid::{Valid, validate};

use crate::{finish, kernel, launch, program, values, words};

const REAL: [Schedule; 3] = [Schedule::Threads(1), Schedule::Threads(2), Schedule::Seeded(7)];

#[test]
fn a_host_feeds_a_running_kernel() {
    // Word 0 of `inbox` counts what the host has published in word 1; the kernel answers likewise, until it gets 0.
    const COUNT: u32 = 300;
    let mut m = Builder::new();
    let inbox = m.buffer::<u32>("inbox", Len::Fixed(2), Space::Host, Access::Read);
    let outbox = m.buffer::<u32>("outbox", Len::Fixed(2), Space::Host, Access::Write);
    m.kernel("main", |f| {
        f.forever::<_, ()>(f.lit(1), |l, expected| {
            let count = f.atomic_load(Acquire, System, inbox.at(0));
            f.when(count.ne(expected), || {
                f.backoff(1000);
                l.next(expected);
            });
            let x = f.load(inbox.at(1));
            f.when(x.eq(0), || l.leave(()));
            f.store(outbox.at(1), x * x);
            f.atomic_store(Release, System, outbox.at(0), count);
            expected + 1
        });
    });
    let p = program(m);
    for schedule in REAL {
        let (inbox, outbox) = (words(&[0; 2]), words(&[0; 2]));
        let launch =
            InterpLaunch { schedule, ..launch(1, 1, &[BoundWords::W32(&inbox), BoundWords::W32(&outbox)]) };
        thread::scope(|scope| {
            let host = scope.spawn(|| {
                let publish = |count, x| {
                    inbox[1].store(x, Ordering::Relaxed);
                    // Its partner is the kernel's acquire of the same word.
                    inbox[0].store(count, Ordering::Release);
                };
                for k in 1..=COUNT {
                    publish(k, k + 1);
                    while outbox[0].load(Ordering::Acquire) != k {
                        thread::yield_now();
                    }
                    assert_eq!(outbox[1].load(Ordering::Relaxed), (k + 1) * (k + 1));
                }
                publish(COUNT + 1, 0);
            });
            finish(&p, &launch);
            host.join().expect("the host saw every answer");
        });
    }
}

/// A kernel that says it runs and then never ends: polite if it backs off.
fn endless(polite: bool) -> InterpKernel {
    kernel(|f, out| {
        f.atomic_add(Relaxed, Device, out.at(0), 1);
        f.forever::<(), ()>((), |_, ()| {
            if polite {
                f.backoff(1_000_000);
            }
        });
    })
}

#[test]
fn the_stop_word_ends_any_loop() {
    for polite in [false, true] {
        let p = endless(polite);
        for schedule in REAL {
            let (out, stop) = (words(&[0]), AtomicU32::new(0));
            let launch =
                InterpLaunch { schedule, stop: Some(&stop), ..launch(3, 40, &[BoundWords::W32(&out)]) };
            thread::scope(|scope| {
                scope.spawn(|| {
                    while out[0].load(Ordering::Relaxed) < 120 {
                        thread::yield_now();
                    }
                    stop.store(1, Ordering::Relaxed);
                });
                let report = p.run(&launch).expect("the launch is accepted");
                assert_eq!(report.end, End::Stopped);
                assert_eq!(values(&out), [120]);
                assert!(report.steps >= 120);
            });
        }
    }
}

#[test]
fn a_deadline_ends_any_loop() {
    let p = endless(false);
    for schedule in [Schedule::Threads(2), Schedule::Seeded(1), Schedule::Explore(1)] {
        let out = words(&[0]);
        let deadline = Some(Duration::from_millis(5));
        let launch = InterpLaunch { schedule, deadline, ..launch(2, 4, &[BoundWords::W32(&out)]) };
        assert_eq!(p.run(&launch).expect("the launch is accepted").end, End::Stopped);
    }
    let done = kernel(|f, out| f.store(out.at(0), 1));
    let (out, deadline) = (words(&[0]), Some(Duration::from_secs(3600)));
    finish(&done, &InterpLaunch { deadline, ..launch(1, 1, &[BoundWords::W32(&out)]) });
}

/// A kernel in which lane 3 traps or records faults from inside a function, and the instruction that does.
fn faulty(op: Op) -> (Valid, Site) {
    let mut m = Builder::new();
    let fail = m.function::<u32, ()>("fail", |f, code| {
        f.when(code.ge(100), || match op {
            Op::Trap => f.trap(code + 1),
            _ => f.fault(code + 1),
        });
    });
    m.kernel("main", |f| {
        f.range((0, 3, 1), (), |_, k, ()| f.when(f.lane().eq(3), || f.call(fail, k + 99)));
    });
    let module = validate(m.finish()).expect("the module is valid");
    let found = module.functions[fail.handle()].insts().find(|(_, node)| node.op == op);
    let site = Site { func: fail.handle(), inst: found.expect("it is there").0 };
    (module, site)
}

#[test]
fn a_trap_ends_the_launch_where_it_is() {
    let (module, site) = faulty(Op::Trap);
    let p = InterpKernel::new(&module, None).expect("the kernel loads");
    for schedule in [Schedule::Threads(2), Schedule::Seeded(1), Schedule::Explore(1)] {
        let report = p.run(&InterpLaunch { schedule, ..launch(4, 5, &[]) }).expect("the launch is accepted");
        assert_eq!(report.end, End::Trapped { code: 101, site });
        assert_eq!(report.fault, None);
    }
}

#[test]
fn faults_are_counted_and_the_first_is_kept() {
    let (module, site) = faulty(Op::Fault);
    let p = InterpKernel::new(&module, None).expect("the kernel loads");
    for schedule in [Schedule::Threads(1), Schedule::Seeded(1), Schedule::Explore(1)] {
        let report = finish(&p, &InterpLaunch { schedule, ..launch(1, 5, &[]) });
        assert_eq!(report.fault, Some(Fault { code: 101, site, count: 2 }));
        let report = finish(&p, &InterpLaunch { schedule, ..launch(1, 3, &[]) });
        assert_eq!(report.fault, None);
    }
}

#[test]
fn a_seed_decides_everything() {
    // A race: every lane adds to one word in two steps, and notes the clock.
    let p = kernel(|f, out| {
        f.range((0, 10, 1), (), |_, _, ()| {
            let old = f.atomic_load(Relaxed, Device, out.at(0));
            f.atomic_store(Relaxed, Device, out.at(0), old + 1);
        });
        f.store(out.at(f.lane() + 1), f.cast(f.clock()));
    });
    let run = |schedule| {
        let out = words(&[0; 7]);
        let report = finish(&p, &InterpLaunch { schedule, ..launch(1, 6, &[BoundWords::W32(&out)]) });
        (values(&out), report.steps)
    };
    for make in [Schedule::Seeded, Schedule::Explore] {
        let all: Vec<_> = (0..20).map(|seed| run(make(seed))).collect();
        (0..20).for_each(|seed| assert_eq!(run(make(seed)), all[seed as usize]));
        assert!(all.iter().any(|(out, _)| out[0] != all[0].0[0]), "no seed made another race");
        assert!(all.iter().any(|(out, _)| out[0] < 60), "no seed lost an addition");
    }
}

#[test]
fn groups_may_wait_for_later_ones() {
    // Each group waits for the one after it; the last starts the chain.
    const GROUPS: u32 = 60;
    let p = kernel(|f, out| {
        let next = f.group() + 1;
        f.when(next.lt(f.groups()), || {
            f.forever::<(), ()>((), |l, ()| {
                let done = f.atomic_load(Acquire, Device, out.at(next));
                f.when(done.ne(0), || l.leave(()));
                f.backoff(100);
            });
        });
        let before = f.load(out.at(next));
        f.atomic_store(Release, Device, out.at(f.group()), before + 1);
    });
    for schedule in [REAL[0], REAL[1], REAL[2], Schedule::Explore(1)] {
        let out = words(&[0; GROUPS as usize]);
        finish(&p, &InterpLaunch { schedule, ..launch(GROUPS, 1, &[BoundWords::W32(&out)]) });
        assert_eq!(values(&out), (1..=GROUPS).rev().collect::<Vec<_>>());
    }
}

#[test]
fn every_group_runs_once() {
    let p = kernel(|f, out| {
        f.atomic_add(Relaxed, Device, out.at(f.group() % 7), f.lane() + 1);
    });
    for schedule in REAL {
        let out = words(&[0; 7]);
        let report = finish(&p, &InterpLaunch { schedule, ..launch(7000, 3, &[BoundWords::W32(&out)]) });
        assert_eq!(values(&out), [6000; 7]);
        assert!(report.steps >= 21_000);
    }
}

#[test]
fn the_clock_never_goes_back() {
    let p = kernel(|f, out| {
        let start = f.clock();
        f.range((0, 1000, 1), start, |_, _, last| {
            let now = f.clock();
            f.when(now.lt(last), || f.store(out.at(0), 1));
            now
        });
    });
    for schedule in [REAL[0], REAL[1], REAL[2], Schedule::Explore(1)] {
        let out = words(&[0]);
        finish(&p, &InterpLaunch { schedule, ..launch(2, 2, &[BoundWords::W32(&out)]) });
        assert_eq!(values(&out), [0]);
    }
}
