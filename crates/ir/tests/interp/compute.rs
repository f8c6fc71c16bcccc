//! Control flow, carried values and calls.

use pelton_ir::builder::{Builder, FunctionBuilder, Val};
use pelton_ir::types::{Access, Len, Space};

use crate::{kernel, outcome, program};

#[test]
fn carried_values_swap() {
    let p = kernel(|f, out| {
        let (a, b) = f.range((0, 5, 1), (f.lit(1), f.lit(2)), |_, _, (a, b)| (b, a));
        f.store(out.at(0), a);
        f.store(out.at(1), b);
        let [a, b, c] = f.range((0, 4, 1), [f.lit(1), f.lit(2), f.lit(3)], |_, _, [a, b, c]| [c, a, b]);
        f.store(out.at(2), a * 100 + b * 10 + c);
        let (a, b) = f.range((0, 10, 1), (f.lit(0), f.lit(1)), |_, _, (a, b)| (b, a + b));
        f.store(out.at(3), a);
        f.store(out.at(4), b);
    });
    assert_eq!(outcome(&p, 5), [2, 1, 312, 55, 89]);
}

/// One next value of a carried one: another carried value as it is, or plus a number.
fn step<'b>(f: &'b FunctionBuilder<'b>, old: [Val<'b, u32>; 6], (from, add): (usize, u32)) -> Val<'b, u32> {
    if add == 0 { old[from] } else { f.add(old[from], add) }
}

#[test]
fn carried_values_move_all_at_once() {
    let mut seed = 1_u64;
    let mut dice = |n: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % n
    };
    for _ in 0..200 {
        let map: [(usize, u32); 6] = std::array::from_fn(|_| (dice(6) as usize, dice(3) as u32));
        let mut expected: [u32; 6] = std::array::from_fn(|k| k as u32 * 10);
        for _ in 0..3 {
            expected = map.map(|(from, add)| expected[from] + add);
        }
        let p = kernel(|f, out| {
            let init = std::array::from_fn(|k| f.lit(k as u32 * 10));
            let end = f.range((0, 3, 1), init, |_, _, old| map.map(|to| step(f, old, to)));
            end.into_iter().zip(0..).for_each(|(x, at)| f.store(out.at(at), x));
        });
        assert_eq!(outcome(&p, 6), expected, "{map:?}");
    }
}

#[test]
fn a_value_for_the_next_iteration_does_not_touch_this_one() {
    // The sum is computed before it is known whether it is carried on; the other way out needs the old value.
    let p = kernel(|f, out| {
        let last: Val<'_, u32> = f.forever((f.lit(0), f.lit(0)), |l, (x, k)| {
            let next = x + 3;
            f.when(k.lt(4), || l.next((next, k + 1)));
            f.store(out.at(1), x);
            l.leave(x * 2);
            (x, k)
        });
        f.store(out.at(0), last);
    });
    assert_eq!(outcome(&p, 2), [24, 12]);
}

#[test]
fn jumps_leave_the_loop_they_name() {
    let p = kernel(|f, out| {
        // The first i, j with i × j = 42 and i > 3, found from two loops deep.
        let [i, j] = f.range((1, 100, 1), [f.lit(0), f.lit(0)], |outer, i, none| {
            f.when(i.le(3), || outer.next(none));
            f.range((1, 100, 1), (), |inner, j, ()| {
                f.when((i * j).gt(42), || inner.leave(()));
                f.when((i * j).eq(42), || outer.leave([i, j]));
            });
            none
        });
        f.store(out.at(0), i * 100 + j);
        let found = f.block(|b| {
            f.range((0, 10, 1), (), |_, k, ()| {
                f.when(k.eq(7), || b.leave(k * k));
            });
            f.lit(1)
        });
        f.store(out.at(1), found);
        let odd = f.range((0, 10, 1), f.lit(0), |l, k, sum| {
            f.when((k & 1).eq(0), || l.next(sum));
            sum + k
        });
        f.store(out.at(2), odd);
    });
    assert_eq!(outcome(&p, 3), [607, 49, 25]);
}

#[test]
fn a_body_sees_what_its_test_computed() {
    let p = kernel(|f, out| {
        let seen = std::cell::Cell::new(None);
        let (x, sum) = f.repeat(
            (f.lit(1), f.lit(0)),
            |(x, _)| {
                let square = x * x;
                seen.set(Some(square));
                square.lt(50)
            },
            |l, (x, sum)| {
                let square = seen.get().expect("the test was built");
                f.when(square.eq(16), || l.next((x + 1, sum)));
                (x + 1, sum + square)
            },
        );
        f.store(out.at(0), x);
        f.store(out.at(1), sum);
    });
    assert_eq!(outcome(&p, 2), [8, 1 + 4 + 9 + 25 + 36 + 49]);
}

#[test]
fn a_switch_runs_one_region() {
    let p = kernel(|f, out| {
        f.range((0, 9, 1), (), |_, k, ()| {
            let x = f
                .switch::<Val<'_, u32>>(k)
                .case([3], || f.lit(30))
                .case([1, 7], || k * 2)
                .case([0], || f.lit(5))
                .default(|| f.lit(99));
            f.store(out.at(k), x);
        });
    });
    assert_eq!(outcome(&p, 9), [5, 2, 99, 30, 99, 99, 99, 14, 99]);
}

#[test]
fn loops_run_as_often_as_the_table_says() {
    const MAX: u32 = u32::MAX;
    for (from, to, step, times, sum) in [
        (0, 10, 1, 10, 45),
        (0, 10, 3, 4, 18),
        (0, 9, 3, 3, 9),
        (5, 5, 1, 0, 0),
        (6, 5, 1, 0, 0),
        (0, 10, 0, 0, 0),
        (0, 10, MAX, 1, 0),
        (MAX - 3, MAX, 2, 2, u64::from(MAX - 3) + u64::from(MAX - 1)),
        (0, MAX, 1 << 31, 2, 1 << 31),
        (1, MAX, 0x5555_5555, 3, 3 + 0xffff_ffff),
    ] as [(u32, u32, u32, u32, u64); 10]
    {
        let p = kernel(|f, out| {
            let (count, total) =
                f.range((f.lit(from), to, step), (f.lit(0), f.lit(0)), |_, i, (n, sum)| (n + 1, sum + i));
            f.store(out.at(0), count);
            f.store(out.at(1), total);
        });
        assert_eq!(outcome(&p, 2), [times, sum as u32], "{from} to {to} step {step}");
    }
    for (from, to, step, times) in [
        (-5, 5, 3, 4),
        (5, -5, 1, 0),
        (-5, 5, -1, 0),
        (i32::MIN, i32::MAX, i32::MAX, 3),
        (i32::MAX - 1, i32::MAX, 2, 1),
    ] {
        let p = kernel(|f, out| {
            let count = f.range((f.lit(from), to, step), f.lit(0), |_, _, n| n + 1);
            f.store(out.at(0), count);
        });
        assert_eq!(outcome(&p, 1), [times], "{from} to {to} step {step}");
    }
}

#[test]
fn calls_give_several_values() {
    let mut m = Builder::new();
    let out = m.buffer::<u32>("out", Len::Launch, Space::Global, Access::ReadWrite);
    let divide = m.function::<(u32, u32), (u32, u32)>("divide", |_, (a, b)| (a / b, a % b));
    let digits = m.function::<u32, (u32, u32, u32)>("digits", |f, x| {
        let (rest, ones) = f.call(divide, (x, f.lit(10)));
        let (hundreds, tens) = f.call(divide, (rest, f.lit(10)));
        (hundreds, tens, ones)
    });
    let sign = m.function::<i32, i32>("sign", |f, x| {
        f.when(x.lt(0), || f.ret(f.lit(-1)));
        f.range((0, 3, 1), (), |_, k, ()| {
            f.when(x.eq(f.lit(0)), || f.ret(f.lit(0)));
            f.when(k.gt(1), || f.ret(f.lit(1)));
        });
        f.lit(7)
    });
    m.kernel("main", |f| {
        let (a, b, c) = f.call(digits, f.lit(472));
        // An argument computed before a call that passes through the same function.
        let x = a + b;
        let (_, _, y) = f.call(digits, f.lit(999));
        let (z, _) = f.call(divide, (x, f.lit(2)));
        for (k, x) in [a, b, c, y, z].into_iter().enumerate() {
            f.store(out.at(k as u32), x);
        }
        for (k, x) in [-9, 0, 12].into_iter().enumerate() {
            let sign = f.call(sign, f.lit(x));
            f.store(out.at(5 + k as u32), f.bitcast(sign));
        }
    });
    assert_eq!(outcome(&program(m), 8), [4, 7, 2, 9, 5, u32::MAX, 0, 1]);
}

#[test]
fn a_comparison_decides_as_it_computes() {
    // Each comparison once as the condition that follows it, and once as a value.
    let p = kernel(|f, out| {
        let pairs = [(1_u32, 2_u32), (2, 2), (3, 2), (u32::MAX, 0)];
        f.range((0, 1, 1), (), |_, zero, ()| {
            let mut at = 0;
            for (a, b) in pairs {
                let (a, b) = (zero + a, zero + b);
                let compare = |k: usize| match k {
                    0 => a.eq(b),
                    1 => a.ne(b),
                    2 => a.lt(b),
                    3 => a.le(b),
                    4 => a.gt(b),
                    _ => a.ge(b),
                };
                for k in 0..6 {
                    let chosen = f.choose(compare(k), || f.lit(1), || f.lit(0));
                    let kept = compare(k);
                    f.store(out.at(at), f.cast::<u32>(kept) + chosen * 2);
                    at += 1;
                }
                let less = f.lt(a, b);
                f.when(less, || f.store(out.at(at), 1));
                f.store(out.at(at), f.load(out.at(at)) + f.cast::<u32>(less));
                at += 1;
            }
        });
    });
    let row = |a: u32, b: u32| {
        let all = [a == b, a != b, a < b, a <= b, a > b, a >= b];
        all.map(|c| if c { 3 } else { 0 }).into_iter().chain([2 * u32::from(a < b)])
    };
    let expected: Vec<u32> =
        [(1, 2), (2, 2), (3, 2), (u32::MAX, 0)].into_iter().flat_map(|(a, b)| row(a, b)).collect();
    assert_eq!(outcome(&p, 28), expected);
}
