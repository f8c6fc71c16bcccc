//! Loads that are done late: whatever needs the value gets it.

use pelton_ir::builder::{Builder, Val};
use pelton_ir::interp::{BoundWords, InterpLaunch, Schedule};
use pelton_ir::types::Order::Relaxed;
use pelton_ir::types::Scope::Device;
use pelton_ir::types::{Access, Len, Space};

use crate::{finish, kernel, launch, program, values, words};

#[test]
fn every_kind_of_step_waits_for_what_it_reads() {
    let mut m = Builder::new();
    let input = m.buffer::<u32>("input", Len::Fixed(8), Space::Global, Access::Read);
    let out = m.buffer::<u32>("out", Len::Fixed(32), Space::Global, Access::ReadWrite);
    let twice = m.function::<u32, u32>("twice", |_, x| x + x);
    m.kernel("main", |f| {
        let at = std::cell::Cell::new(0);
        let put = |x: Val<'_, u32>| {
            f.store(out.at(at.get()), x);
            at.set(at.get() + 1);
        };
        let get = |k: u32| f.load(input.at(k));
        put(get(3));
        put(f.popcount(get(7)) + get(1));
        put(f.select(get(1).eq(1), get(2), get(4)));
        put(f.choose(get(5).gt(get(4)), || get(6), || get(0)));
        put(f.switch(get(2)).case([2], || get(5)).default(|| get(0)));
        put(f.range((get(1), get(7), get(2)), get(3), |_, k, sum| sum + k));
        put(f.repeat(get(1), |x| x.lt(get(6)), |_, x| x * get(3)));
        put(f.call(twice, get(4)));
        put(f.load(input.at(get(6))));
        f.store(out.at(get(4) + 20), get(5));
        let wide: [_; 4] = f.load_wide(Relaxed, Device, input.at(get(4)));
        let last = f.load_byte(input.at(get(5)), get(0));
        put(last + f.load_byte(input.at(get(5)), get(4)));
        put(wide[0] * 1000 + wide[1] * 100 + wide[2] * 10 + wide[3]);
        f.store_wide(Relaxed, Device, out.at(get(7) + 21), [get(0), get(1), get(2), get(3)]);
        f.atomic_add(Relaxed, Device, out.at(get(2) + 20), get(6));
        put(f.atomic_cas(Relaxed, Device, out.at(get(4) + 20), get(5), get(7)));
        put(f.shuffle(get(3), get(0)));
        put(f.group_broadcast(get(6), get(0)));
        f.backoff(get(1));
        f.fault(get(7));
    });
    let p = program(m);
    let run = |schedule| {
        let (input, out) = (words(&[0, 1, 2, 3, 4, 5, 6, 7]), words(&[0; 32]));
        let report = finish(
            &p,
            &InterpLaunch { schedule, ..launch(1, 1, &[BoundWords::W32(&input), BoundWords::W32(&out)]) },
        );
        assert_eq!(report.fault.map(|fault| fault.code), Some(7));
        values(&out)
    };
    let expected = run(Schedule::Threads(1));
    assert_eq!(expected[..15], [3, 4, 2, 6, 5, 12, 9, 8, 6, 5, 4567, 5, 3, 6, 0]);
    assert_eq!(expected[20..], [0, 0, 6, 0, 7, 0, 0, 0, 0, 1, 2, 3]);
    (0..300).for_each(|seed| assert_eq!(run(Schedule::Explore(seed)), expected, "seed {seed}"));
}

#[test]
fn a_register_that_is_used_again_is_not_filled_late() {
    // Each pair of regions has the same registers; the first leaves a load behind that nobody needs.
    let p = kernel(|f, out| {
        let at = std::cell::Cell::new(0);
        let after = |store: &dyn Fn(u32)| {
            f.when(f.group().eq(0), || {
                f.load(out.at(19));
            });
            f.when(f.group().eq(0), || store(at.get()));
            at.set(at.get() + 1);
        };
        after(&|k| f.store(out.at(k), f.load(out.at(10))));
        after(&|k| f.store(out.at(k), f.lane() + 10));
        after(&|k| f.store(out.at(k), f.select(true, 10, 11)));
        after(&|k| f.store(out.at(k), f.atomic_or(Relaxed, Device, out.at(10), 0)));
        after(&|k| f.store(out.at(k), f.atomic_cas(Relaxed, Device, out.at(10), 1, 2)));
        after(&|k| f.store(out.at(k), f.shuffle(10, 0)));
        after(&|k| f.store(out.at(k), f.choose(f.lane().eq(0), || f.lit(10), || f.lit(11))));
        after(&|k| {
            let wide: [_; 4] = f.load_wide(Relaxed, Device, out.at(8));
            f.store(out.at(k), wide[0] + wide[2]);
        });
        after(&|k| f.store(out.at(k), f.cast::<u32>(f.clock()) >> 31));
        after(&|k| f.range((0, 2, 1), (), |_, i, ()| f.store(out.at(k), i)));
    });
    for seed in 0..300 {
        let mut expected: Vec<u32> = (0..20).collect();
        let out = words(&expected);
        expected[..10].copy_from_slice(&[10, 10, 10, 10, 10, 10, 10, 18, 0, 1]);
        finish(
            &p,
            &InterpLaunch { schedule: Schedule::Explore(seed), ..launch(1, 1, &[BoundWords::W32(&out)]) },
        );
        assert_eq!(values(&out), expected, "seed {seed}");
    }
}
