//! Hostile handlers: what a stranger's handler can do to others, and what it cannot.

use pelton::ir::types::{Order, Scope, Type};
use pelton::kernel::{HandlerBody, Region, Width};
use pelton::protocol::FaultCode;
use pelton::{Error, Handler, Session, Spec, Task, Tenant};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    what_would_end_the_kernel_is_refused,
    what_is_not_a_handlers_to_name_is_refused,
    shared_memory_is_zero_when_a_task_begins,
    a_region_that_is_rewritten_is_read_as_it_is,
    lanes_meet_although_a_region_changes,
    fuel_bounds_work_and_not_only_turns,
    helpers_in_loops_burn_fuel_rightly,
    what_is_too_large_is_refused_by_name,
    what_is_as_large_as_may_be_runs,
    shared_buffers_are_nobody_elses_memory,
    calls_that_stay_calls_are_refused,
    loops_from_below_zero_burn_fuel,
    the_test_of_a_loop_takes_fuel_too,
    subgroups_leave_their_loops_together,
    names_of_the_kernels_own_are_refused,
    effects_that_are_allowed_harm_nobody,
];

/// The opcode of the handler that is tried.
const TRIED: u32 = 9;

/// Makes a handler from text, with the buffers that all handlers here have.
fn text(body: &str) -> Handler {
    let source =
        format!("buffer arg: [u32; 12] global read\nbuffer data: [u32; ?] global read_write\n{body}");
    Handler::from_text(&source)
}

fn refused(on: &On, shape: Shape, handler: Handler) -> String {
    refused_as(on, shape, "tried", handler)
}

fn refused_as(on: &On, shape: Shape, name: &str, handler: Handler) -> String {
    match Session::launch(on, &shape.spec(64, 2).handler_at(op(TRIED), name, handler)) {
        Err(Error::Refused(why)) => why.to_string(),
        Err(error) => panic!("{shape}: {error}"),
        Ok(_) => panic!("{shape}: it was taken"),
    }
}

/// Catches an op of a handler that reaches beyond its own task.
fn what_would_end_the_kernel_is_refused(on: &On) {
    for shape in shapes(on, &[near(8), far(8)]) {
        for (body, word) in [
            ("trap 7", "trap"),
            ("backoff 1000", "backoff"),
            ("wake", "wake"),
            ("barrier", "barrier"),
            ("%g = group", "group"),
            ("%g = groups", "groups"),
            ("%b = any true", "any"),
            ("%b = group_broadcast 1, 0", "group_broadcast"),
        ] {
            let why = refused(on, shape, text(&format!("fn tried() -> u32 {{\n  {body}\n  return 0\n}}")));
            assert!(why.contains(&format!("`{word}`")), "{shape}: {body}: {why}");
            // It is refused in a function that the handler calls, too.
            let behind = format!(
                "fn deep() -> u32 {{\n  {body}\n  return 0\n}}\nfn tried() -> u32 {{\n  %r = call deep()\n  return %r\n}}"
            );
            let why = refused(on, shape, text(&behind));
            assert!(why.contains(&format!("`{word}`")), "{shape}: {body} behind a call: {why}");
        }
        let own = "buffer words: [u32; 8] shared read_write\nfn tried() -> u32 {\n  %w = load @words[0]\n  return %w\n}";
        assert!(refused(on, shape, text(own)).contains("make it group-wide"), "{shape}");
    }
}

/// Catches a buffer of the kernel's own that a handler reaches by its name, and memory that is not its to write.
fn what_is_not_a_handlers_to_name_is_refused(on: &On) {
    let names = [
        "host",
        "control",
        "slots",
        "done",
        "log",
        "rows",
        "mirror",
        "observables",
        "region.data",
        "window",
        "notices",
    ];
    for shape in shapes(on, &[near(8), far(8)]) {
        for name in names {
            for space in ["global", "host"] {
                let body = format!(
                    "buffer {name}: [u32; ?] {space} read\nfn tried() -> u32 {{\n  %w = load @{name}[0]\n  return %w\n}}"
                );
                let why = refused(on, shape, text(&body));
                assert!(why.contains("buffer") || why.contains("name"), "{shape}: {name}: {why}");
            }
        }
        let table = Region::shared("table", Type::U32, 8);
        let body = "buffer table: [u32; ?] global read_write\nfn tried() -> u32 {\n  store @table[0], 1\n  return 0\n}";
        match Session::launch(on, &shape.spec(64, 2).region(table).handler_at(op(TRIED), "tried", text(body)))
        {
            Err(Error::Refused(why)) => assert!(why.to_string().contains("only read"), "{shape}: {why}"),
            other => panic!("{shape}: {other:?}"),
        }
    }
}

/// A handler that reads all its shared words and then stores its tenant's number in them.
fn leaves_words() -> Handler {
    const WORDS: u32 = 300;
    Handler::group_wide(|slot| {
        let f = slot.body();
        let (words, wide) = (slot.shared::<u32>("words", WORDS), slot.shared::<u64>("wide", 3));
        let found =
            f.range((f.lit(0), f.lit(WORDS), f.lit(1)), f.lit(0), |_, k, found| found | f.load(words.at(k)));
        let more =
            f.range((f.lit(0), f.lit(3), f.lit(1)), f.lit(0u64), |_, k, more| more | f.load(wide.at(k)));
        f.barrier();
        f.range((f.lane(), f.lit(WORDS), f.lanes()), (), |_, k, ()| f.store(words.at(k), slot.arg(0)));
        f.when(f.lane().eq(0), || f.store(wide.at(2), 7u64));
        f.barrier();
        slot.finish(found | f.cast::<u32>(more));
    })
}

/// Catches shared words that one tenant's task leaves behind and another tenant's task finds.
fn shared_memory_is_zero_when_a_task_begins(on: &On) {
    for shape in shapes(on, &[near(1), near(8), near(32), far(8), both(32)]) {
        let session = launch(
            on,
            &shape.spec(64, 1).tenant(Tenant::new(1)).handler_at(op(TRIED), "tried", leaves_words()),
        );
        let mut producers = [session.producer(0).unwrap(), session.producer(1).unwrap()];
        for round in 0..6u32 {
            let producer = &mut producers[round as usize % 2];
            let mut span = producer.submit_all([Task::new(op(TRIED)).args([round + 1]); 3]).unwrap();
            span.wait(soon()).unwrap();
            assert_eq!(span.results().collect::<Vec<_>>(), [Ok(0); 3], "{shape}, round {round}");
        }
    }
}

/// A table that handlers only read.
fn with_table(shape: Shape, len: u32) -> Spec {
    shape.spec(64, 2).region(Region::new("table", Type::U32, len).read_only())
}

/// Catches a read that comes from a cache which nothing renews. On a device that works in the host's memory there is
/// none.
fn a_region_that_is_rewritten_is_read_as_it_is(on: &On) {
    for shape in shapes(on, &[near(1), near(32), far(1), far(32), both(32)]) {
        let spec = with_table(shape, 64).handler_at(
            op(TRIED),
            "tried",
            Handler::lane_wide(|slot| {
                let table = slot.region::<u32>("table");
                slot.finish(slot.body().load(table.at(slot.arg(0))));
            }),
        );
        // The same handler with a loop, which a poller does not run itself.
        let spec = spec.handler_at(
            op(TRIED + 1),
            "tried_1",
            Handler::lane_wide(|slot| {
                let (f, table) = (slot.body(), slot.region::<u32>("table"));
                let last = f.range((f.lit(0), slot.arg(1), f.lit(1)), f.lit(0), |_, _, _| {
                    f.load(table.at(slot.arg(0)))
                });
                slot.finish(last);
            }),
        );
        let session = launch(on, &spec);
        let (table, cells) =
            (session.view::<u32>(0, "table").unwrap(), session.view::<u32>(0, "data").unwrap());
        let mut producer = session.producer(0).unwrap();
        for round in 0..200u32 {
            let at = round % 64;
            table.write(at as usize, &[round * 3 + 1]).unwrap();
            cells.write(at as usize, &[round * 5 + 1]).unwrap();
            for task in [Task::new(op(TRIED)).args([at]), Task::new(op(TRIED + 1)).args([at, 2])] {
                assert_eq!(run(&mut producer, task), Ok(round * 3 + 1), "{shape}, round {round}");
                let mut span = producer.submit_all([task; 6]).unwrap();
                span.wait(soon()).unwrap();
                assert!(span.results().all(|end| end == Ok(round * 3 + 1)), "{shape}, round {round}");
            }
            let load = Task::new(pelton::Opcode::COMPARE_SWAP).args([at, 0, 0]);
            assert_eq!(run(&mut producer, load), Ok(round * 5 + 1), "{shape}, round {round}");
        }
    }
}

/// Catches lanes that go different ways because the host changed what decides while they looked: they would never meet
/// again.
fn lanes_meet_although_a_region_changes(on: &On) {
    for shape in shapes(on, &[near(8), near(32), far(32)]) {
        let spec = with_table(shape, 1);
        // The table says how often the lanes meet.
        let meets = Handler::group_wide(|slot| {
            let (f, table) = (slot.body(), slot.region::<u32>("table"));
            let turns = f.forever::<_, _>(f.lit(0), |turns, k| {
                let much = f.load(table.at(0));
                f.when(k.ge(much & 15), || turns.leave(k));
                f.barrier();
                k + 1
            });
            slot.finish(turns);
        });
        let session = launch(on, &spec.handler_at(op(TRIED), "tried", meets));
        let table = session.view::<u32>(0, "table").unwrap();
        let mut producer = session.producer(0).unwrap();
        for round in 0..60u32 {
            let mut span = producer.submit_all([Task::new(op(TRIED)); 8]).unwrap();
            for change in 0..20u32 {
                table.write(0, &[round + change * 7]).unwrap();
            }
            assert_eq!(span.wait(soon()).unwrap().done, 8, "{shape}");
        }
    }
}

/// Catches a loop whose turns are few and long, and brief loops that make a turn long and take no fuel themselves.
fn fuel_bounds_work_and_not_only_turns(on: &On) {
    for shape in shapes(on, &[near(8), far(8)]) {
        let spec = shape.spec(64, 2).fuel(1000).handler_at(
            op(TRIED),
            "tried",
            Handler::lane_wide(|slot| {
                let f = slot.body();
                let turns = f.range((f.lit(0), slot.arg(0), f.lit(1)), f.lit(0), |_, _, turns| {
                    // Four brief loops of 256 turns each: more than 2,048 instructions.
                    for _ in 0..4 {
                        f.range((0u32, 256u32, 1u32), (), |_, k, ()| slot.store(1, k));
                    }
                    turns + 1
                });
                slot.finish(turns);
            }),
        );
        let session = launch(on, &spec);
        let mut producer = session.producer(0).unwrap();
        assert_eq!(run(&mut producer, Task::new(op(TRIED)).args([30])), Ok(30), "{shape}");
        assert_eq!(run(&mut producer, Task::new(op(TRIED)).args([999])), fault(FaultCode::FUEL), "{shape}");
        assert_eq!(run(&mut producer, add(1, 5)), Ok(0), "{shape}");
    }
}

/// Catches fuel that is decided on before helpers are in their place: a handler whose loops are all in helpers, or
/// whose helpers are in loops, had none at all.
fn helpers_in_loops_burn_fuel_rightly(on: &On) {
    for shape in shapes(on, &[near(1), near(8), far(8)]) {
        for width in [Width::Lane, Width::Group] {
            let session =
                launch(on, &shape.spec(64, 2).handler_at(op(TRIED), "tried", helpers().width(width)));
            let mut producer = session.producer(0).unwrap();
            assert_eq!(run(&mut producer, Task::new(op(TRIED)).args([3])), Ok(240), "{shape}, {width:?}");
            let session = {
                drop(session);
                launch(on, &shape.spec(64, 2).fuel(4).handler_at(op(TRIED), "tried", helpers().width(width)))
            };
            let mut producer = session.producer(0).unwrap();
            assert_eq!(
                run(&mut producer, Task::new(op(TRIED)).args([3])),
                fault(FaultCode::FUEL),
                "{shape}, {width:?}"
            );
        }
    }
}

/// Ten turns of a loop that calls a helper, which calls another with a brief loop.
fn helpers() -> Handler {
    use pelton::ir::builder::Builder;
    use pelton::ir::types::{Access, Len, Space};
    let mut m = Builder::new();
    let arg = m.buffer::<u32>("arg", Len::Fixed(12), Space::Global, Access::Read);
    let inner =
        m.function::<u32, u32>("inner", |f, n| f.range((0u32, 8u32, 1u32), f.lit(0), |_, _, sum| sum + n));
    let middle = m.function::<u32, u32>("middle", |f, n| f.call(inner, n));
    m.function::<(), u32>("tried", |f, ()| {
        let n = f.load(arg.at(0));
        f.range((0u32, 10u32, 1u32), f.lit(0), |_, _, sum| sum + f.call(middle, n))
    });
    Handler::from_text(&pelton::ir::text::print(&m.finish()))
}

/// Makes a handler whose regions are nested so deep.
fn nested(depth: u32) -> Handler {
    fn nest(slot: &HandlerBody<'_>, left: u32) {
        let f = slot.body();
        match left {
            0 => slot.store(2, 5),
            _ => f.when(slot.arg(0).ge(left), || nest(slot, left - 1)),
        }
    }
    Handler::lane_wide(|slot| {
        nest(&slot, depth - 1);
        slot.finish(slot.load(2));
    })
}

/// Catches a handler with which the assembled kernel is not valid, which would be reported as a defect of Pelton.
fn what_is_too_large_is_refused_by_name(on: &On) {
    // Every device has far rings.
    let shape = far(8);
    let shared = |name: &str, words: u32| {
        Handler::group_wide(|slot| {
            slot.shared::<u32>(name, words);
            slot.finish(1);
        })
    };
    let cases = [
        (nested(100), "nested 100 deep"),
        (shared("words", 1 << 16), "bytes of shared memory"),
        (shared(&"w".repeat(40), 8), "is longer than"),
        (long(140_000), "instructions"),
        (loads(10_000), "instructions"),
        (shared_arg(), "arguments of the task"),
    ];
    for (handler, why) in cases {
        let said = refused(on, shape, handler);
        assert!(said.contains(why), "{said}");
    }
    let said = refused_as(on, shape, &"n".repeat(40), Handler::lane_wide(|slot| slot.finish(1)));
    assert!(said.contains("is longer than"), "{said}");
}

/// Makes a handler of so many instructions in a row.
fn long(insts: u32) -> Handler {
    Handler::lane_wide(|slot| {
        let value = (0..insts / 2).fold(slot.arg(0), |value, k| (value ^ (k | 1)) * 3);
        slot.finish(value);
    })
}

/// A handler that takes the name of the task's arguments for memory of its own.
fn shared_arg() -> Handler {
    let source =
        "buffer arg: [f32; 8] shared read_write\nfn tried() -> u32 {\n  store @arg[0], 1.0\n  return 0\n}";
    Handler::from_text(source).width(Width::Group)
}

/// Makes a handler of so many checked accesses in a row.
fn loads(count: u32) -> Handler {
    Handler::lane_wide(|slot| {
        let sum = (0..count).fold(slot.arg(0), |sum, k| sum + slot.load(k % 1024));
        slot.finish(sum);
    })
}

/// Catches limits that are wider than the kernel around a handler leaves room for.
fn what_is_as_large_as_may_be_runs(on: &On) {
    for shape in shapes(on, &[near(1), near(32), far(32), both(32)]) {
        let session = launch(on, &shape.spec(64, 2).handler_at(op(TRIED), "tried", nested(80)));
        let mut producer = session.producer(0).unwrap();
        assert_eq!(run(&mut producer, Task::new(op(TRIED)).args([200])), Ok(5), "{shape}");
        assert_eq!(run(&mut producer, add(1, 5)), Ok(0), "{shape}");
    }
}

/// Catches an effect of one tenant's handler that another tenant's task meets.
fn effects_that_are_allowed_harm_nobody(on: &On) {
    for shape in shapes(on, &[near(8), far(8), both(32)]) {
        let wide = Handler::group_wide(|slot| {
            let f = slot.body();
            let words = slot.shared::<u64>("words", 32);
            f.store_wide(
                Order::Relaxed,
                Scope::Group,
                words.at(f.lane() % 16 * 2),
                [f.lit(7u64), f.lit(9u64)],
            );
            f.fence(Order::SeqCst, Scope::System);
            f.barrier();
            let all = f.reduce_max(f.lane());
            let [low, _] = f.load_wide::<u64, 2>(Order::Relaxed, Scope::Group, words.at(f.lane() % 16 * 2));
            slot.finish(f.select(all.ge(0u32), f.cast::<u32>(low), 0));
        });
        let spec =
            shape.spec(64, 2).tenant(Tenant::new(1)).handler_at(op(TRIED + 1), "wide", wide).handler_at(
                op(TRIED),
                "tried",
                Handler::lane_wide(|slot| {
                    let f = slot.body();
                    let now = f.clock();
                    f.fence(Order::SeqCst, Scope::System);
                    slot.fault(0);
                    slot.store(u32::MAX, 1);
                    slot.finish(f.cast::<u32>(now));
                }),
            );
        let session = launch(on, &spec);
        let (mut hostile, mut other) = (session.producer(0).unwrap(), session.producer(1).unwrap());
        for round in 0..20 {
            let mut span = hostile.submit_all([Task::new(op(TRIED)); 5]).unwrap();
            let mut wide = hostile.submit_all([Task::new(op(TRIED + 1)); 5]).unwrap();
            assert_eq!(run(&mut other, add(1, 3)), Ok(round), "{shape}");
            assert_eq!(span.wait(soon()).unwrap().faults, 5, "{shape}");
            wide.wait(soon()).unwrap();
            assert!(wide.results().all(|end| end == Ok(7)), "{shape}");
        }
        assert!(data(&session).iter().all(|word| *word == 0), "{shape}");
    }
}

/// Catches a shared buffer whose name in the kernel is that of another buffer: it would be that buffer, whoever's
/// memory that is.
fn shared_buffers_are_nobody_elses_memory(on: &On) {
    for shape in shapes(on, &[near(8), far(8), both(32)]) {
        let reads = |buffer: &str, len: u32| {
            Handler::group_wide(|slot| {
                let (f, words) = (slot.body(), slot.shared::<u32>(buffer, len));
                let found = f.load(words.at(slot.arg(0)));
                f.barrier();
                f.store(words.at(slot.arg(0)), 77);
                slot.finish(f.select(f.len(words).eq(len), found, u32::MAX));
            })
        };
        let spec = shape.spec(64, 1).tenant(Tenant::new(1));
        let spec = spec
            .handler_at(op(TRIED), "region", reads("data", 8))
            .handler_at(op(TRIED + 1), "slots", reads("words", 200))
            .handler_at(op(TRIED + 2), "window", reads("data", 300));
        let session = launch(on, &spec);
        let pattern: Vec<u32> = (1..=300).collect();
        session.view::<u32>(0, "data").unwrap().write(0, &pattern).unwrap();
        let mut producer = session.producer(1).unwrap();
        for (code, at) in [(TRIED, 5), (TRIED + 1, 199), (TRIED + 2, 299), (TRIED, 5)] {
            assert_eq!(run(&mut producer, Task::new(op(code)).args([at])), Ok(0), "{shape}, {code}");
        }
        assert_eq!(data(&session)[..300], pattern, "{shape}");
    }
}

/// Catches a call that could not be written in place: it would call a function of the kernel by its number.
fn calls_that_stay_calls_are_refused(on: &On) {
    use pelton::ir::builder::{Builder, Callee, FunctionBuilder};
    fn nest<'b>(f: &'b FunctionBuilder<'b>, depth: u32, inner: &dyn Fn()) {
        match depth {
            0 => inner(),
            _ => f.when(f.lane().lt(depth + 1000), || nest(f, depth - 1, inner)),
        }
    }
    let mut m = Builder::new();
    let deep: Callee<u32, u32> = m.function("deep", |f, x| {
        nest(f, 100, &|| f.fault(0x100));
        x
    });
    m.function::<(), u32>("tried", |f, ()| {
        nest(f, 60, &|| {
            f.call(deep, f.lit(1));
        });
        f.lit(0)
    });
    let handler = Handler::from_text(&pelton::ir::text::print(&m.finish()));
    for shape in shapes(on, &[near(8), far(8)]) {
        let why = refused(on, shape, handler.clone());
        assert!(why.contains("written in place"), "{shape}: {why}");
    }
}

/// Catches turns that are counted by the bits of their bounds: from below zero to above it there are many.
fn loops_from_below_zero_burn_fuel(on: &On) {
    for shape in shapes(on, &[near(8), far(8)]) {
        for (from, to) in [(i32::MIN, 100), (-1_000_000, 1), (-300, i32::MAX)] {
            let spec = shape.spec(64, 1).fuel(1000).handler_at(
                op(TRIED),
                "tried",
                Handler::lane_wide(|slot| {
                    let f = slot.body();
                    let turns =
                        f.range((f.lit(from), f.lit(to), f.lit(1i32)), f.lit(0), |_, _, turns| turns + 1);
                    slot.finish(turns);
                }),
            );
            let session = launch(on, &spec);
            let end = run(&mut session.producer(0).unwrap(), Task::new(op(TRIED)));
            assert_eq!(end, fault(FaultCode::FUEL), "{shape}, {from} to {to}");
        }
    }
}

/// Catches work that is hidden in the test of a loop: it is done in every turn.
fn the_test_of_a_loop_takes_fuel_too(on: &On) {
    for shape in shapes(on, &[near(8), far(8)]) {
        let spec = shape.spec(64, 1).fuel(1000).handler_at(
            op(TRIED),
            "tried",
            Handler::lane_wide(|slot| {
                let f = slot.body();
                let turns = f.repeat(
                    f.lit(0),
                    |k| {
                        for _ in 0..4 {
                            f.range((0u32, 256u32, 1u32), (), |_, j, ()| slot.store(1, j));
                        }
                        k.lt(slot.arg(0))
                    },
                    |_, k| k + 1,
                );
                slot.finish(turns);
            }),
        );
        // A test that fails at once, in a loop that has nothing else to do.
        let spec = spec.handler_at(
            op(TRIED + 1),
            "tried_1",
            Handler::lane_wide(|slot| {
                let f = slot.body();
                let turns = f.range((f.lit(0), slot.arg(0), f.lit(1)), f.lit(0), |_, _, turns| {
                    let test = |_| {
                        for _ in 0..4 {
                            f.range((0u32, 256u32, 1u32), (), |_, j, ()| slot.store(1, j));
                        }
                        f.lit(false)
                    };
                    f.repeat(f.lit(0), test, |_, k| k + 1);
                    turns + 1
                });
                slot.finish(turns);
            }),
        );
        let session = launch(on, &spec);
        let mut producer = session.producer(0).unwrap();
        for code in [TRIED, TRIED + 1] {
            assert_eq!(run(&mut producer, Task::new(op(code)).args([30])), Ok(30), "{shape}, {code}");
            assert_eq!(
                run(&mut producer, Task::new(op(code)).args([999])),
                fault(FaultCode::FUEL),
                "{shape}, {code}"
            );
        }
    }
}

/// Catches a loop that a subgroup goes through together and leaves lane by lane when the fuel is gone: its lanes would
/// not meet again.
fn subgroups_leave_their_loops_together(on: &On) {
    for shape in shapes(on, &[near(8), near(64), far(64)]) {
        let sums = Handler::group_wide(|slot| {
            let f = slot.body();
            let all = f
                .range((f.subgroup(), slot.arg(0), f.lit(1)), f.lit(0), |_, _, all| all + f.reduce_add(1u32));
            f.barrier();
            slot.finish(all);
        });
        let session = launch(on, &shape.spec(64, 1).fuel(1000).handler_at(op(TRIED), "tried", sums));
        let mut producer = session.producer(0).unwrap();
        let lanes = shape.lanes.min(32);
        assert_eq!(run(&mut producer, Task::new(op(TRIED)).args([10])), Ok(10 * lanes), "{shape}");
        assert_eq!(
            run(&mut producer, Task::new(op(TRIED)).args([1 << 30])),
            fault(FaultCode::FUEL),
            "{shape}"
        );
        assert_eq!(run(&mut producer, Task::new(op(TRIED)).args([10])), Ok(10 * lanes), "{shape}");
    }
}

/// Catches a handler whose name is that of a function of the kernel.
fn names_of_the_kernels_own_are_refused(on: &On) {
    let names = [
        "main",
        "dispatch",
        "light",
        "watch",
        "route",
        "near.look",
        "far.pick",
        "nop.packed",
        "a.packed",
        "nop",
    ];
    for name in names {
        let why = refused_as(on, near(8), name, Handler::lane_wide(|slot| slot.finish(1)));
        assert!(why.contains("name") && why.contains(&format!("{name:?}")), "{name}: {why}");
    }
    let many = near(8)
        .spec(64, 1)
        .tenant(Tenant::new(0).observables(u32::MAX))
        .tenant(Tenant::new(1).observables(2));
    assert!(matches!(Session::launch(on, &many), Err(Error::Refused(_))));
}
