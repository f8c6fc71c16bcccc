//! Loads, stores and atomics, in range and out of it.

use std::sync::atomic::Ordering;

use pelton_ir::builder::Builder;
use pelton_ir::interp::{BoundWords, InterpLaunch};
use pelton_ir::types::Order::{AcqRel, Acquire, Relaxed, Release};
use pelton_ir::types::Scope::{Device, Group};
use pelton_ir::types::{Access, Len, Space};

use crate::{SCHEDULES, finish, kernel, launch, long, outcome, program, values, words};

#[test]
fn out_of_range_gives_zero_and_does_nothing() {
    let p = kernel(|f, out| {
        f.store(out.at(0), 5);
        f.store(out.at(8), 6);
        f.store(out.at(u32::MAX), 7);
        f.store(out.at(1), f.load(out.at(8)) + 1);
        f.store(out.at(2), f.atomic_load(Acquire, Device, out.at(9)) + 2);
        f.atomic_store(Release, Device, out.at(8), 3);
        f.store(out.at(3), f.atomic_add(Relaxed, Device, out.at(8), 3) + 3);
        f.store(out.at(4), f.atomic_cas(AcqRel, Device, out.at(1 << 31), 0, 1) + 4);
        f.store(out.at(5), f.len(out));
    });
    assert_eq!(outcome(&p, 8), [5, 1, 2, 3, 4, 8, 0, 0]);
}

#[test]
fn wide_accesses_take_sixteen_bytes_or_nothing() {
    let mut m = Builder::new();
    let out = m.buffer::<u32>("out", Len::Launch, Space::Global, Access::ReadWrite);
    let wide = m.buffer::<u64>("wide", Len::Launch, Space::Global, Access::ReadWrite);
    m.kernel("main", |f| {
        let all: [_; 4] = f.load_wide(Relaxed, Device, out.at(6));
        f.store_wide(Relaxed, Device, out.at(3), all.map(|x| x * 2));
        // Elements 8 and 9 are there, 10 and 11 are not.
        let none: [_; 4] = f.load_wide(Relaxed, Device, out.at(9));
        f.store(out.at(9), none[0] + none[1] + none[2] + none[3]);
        f.store_wide(Relaxed, Device, out.at(8), all);
        let beyond: [_; 4] = f.load_wide(Relaxed, Device, out.at(u32::MAX));
        f.store(out.at(8), beyond[3] + 1);
        let [a, b] = f.load_wide(Relaxed, Device, wide.at(1));
        f.store_wide(Relaxed, Device, wide.at(2), [b, a]);
        f.store_wide(Relaxed, Device, wide.at(4), [a, a]);
    });
    let p = program(m);
    for schedule in SCHEDULES {
        let out = words(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let wide = long(&[1 << 40, 2, 0, 0, 5]);
        finish(
            &p,
            &InterpLaunch { schedule, ..launch(1, 1, &[BoundWords::W32(&out), BoundWords::W64(&wide)]) },
        );
        assert_eq!(values(&out), [8, 10, 12, 14, 4, 5, 6, 7, 1, 0]);
        let wide: Vec<u64> = wide.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        assert_eq!(wide, [1 << 40, 2, 2, 1 << 40, 5]);
    }
}

#[test]
fn atomics_give_the_old_value_and_store_the_new() {
    let mut m = Builder::new();
    let out = m.buffer::<u32>("out", Len::Fixed(20), Space::Global, Access::ReadWrite);
    let signed = m.buffer::<i32>("signed", Len::Fixed(2), Space::Global, Access::ReadWrite);
    let wide = m.buffer::<u64>("wide", Len::Fixed(2), Space::Global, Access::ReadWrite);
    let float = m.buffer::<f32>("float", Len::Fixed(1), Space::Global, Access::ReadWrite);
    m.kernel("main", |f| {
        let word = || out.at(19);
        let old = [
            f.atomic_add(Relaxed, Device, word(), 0xffff_fffe),
            f.atomic_sub(Acquire, Device, word(), 1),
            f.atomic_and(Release, Device, word(), 0x00ff_ffff),
            f.atomic_or(AcqRel, Device, word(), 0xf000_0000),
            f.atomic_xor(Relaxed, Device, word(), 0xffff_0000),
            f.atomic_min(Relaxed, Device, word(), 0x0f00_0000),
            f.atomic_max(Relaxed, Device, word(), 0x1000_0000),
            f.atomic_exchange(Relaxed, Device, word(), 77),
            f.atomic_cas(Relaxed, Device, word(), 76, 1),
            f.atomic_cas(Relaxed, Device, word(), 77, 2),
            f.atomic_load(Relaxed, Device, word()),
        ];
        old.into_iter().zip(0..).for_each(|(x, at)| f.store(out.at(at), x));
        f.atomic_min(Relaxed, Device, signed.at(0), -3);
        f.atomic_max(Relaxed, Device, signed.at(1), -3);
        f.atomic_add(Relaxed, Device, wide.at(0), u64::from(u32::MAX));
        f.atomic_cas(Relaxed, Device, wide.at(1), 1 << 32, 1 << 33);
        let minus = f.atomic_exchange(Relaxed, Device, float.at(0), 1.5);
        f.store(out.at(11), f.bitcast(minus));
    });
    let p = program(m);
    for schedule in SCHEDULES {
        let (out, signed, wide) = (words(&[0; 20]), words(&[2, 0x8000_0000]), long(&[1, 1 << 32]));
        let float = words(&[0x8000_0000]);
        let buffers = [
            BoundWords::W32(&out),
            BoundWords::W32(&signed),
            BoundWords::W64(&wide),
            BoundWords::W32(&float),
        ];
        out[19].store(1, Ordering::Relaxed);
        finish(&p, &InterpLaunch { schedule, ..launch(1, 1, &buffers) });
        let expected = [
            1,
            0xffff_ffff,
            0xffff_fffe,
            0x00ff_fffe,
            0xf0ff_fffe,
            0x0f00_fffe,
            0x0f00_0000,
            0x1000_0000,
            77,
            77,
            2,
            0x8000_0000,
        ];
        assert_eq!(values(&out)[..12], expected);
        assert_eq!(values(&signed), [-3_i32 as u32; 2]);
        assert_eq!(wide[0].load(Ordering::Relaxed), 1 << 32);
        assert_eq!(wide[1].load(Ordering::Relaxed), 1 << 33);
        assert_eq!(values(&float), [1.5_f32.to_bits()]);
    }
}

#[test]
fn shared_memory_is_a_groups_own_and_starts_zero() {
    let mut m = Builder::new();
    let out = m.buffer::<u32>("out", Len::Launch, Space::Global, Access::ReadWrite);
    let sum = m.buffer::<u32>("sum", Len::Fixed(2), Space::Shared, Access::ReadWrite);
    let long = m.buffer::<u64>("long", Len::Fixed(3), Space::Shared, Access::ReadWrite);
    m.kernel("main", |f| {
        f.atomic_add(Relaxed, Group, sum.at(1), f.lane() + 1);
        f.atomic_add(Relaxed, Group, long.at(f.len(sum)), 1_u64);
        f.barrier();
        f.when(f.lane().eq(0), || {
            let all = f.load(sum.at(1)) * 100 + f.load(sum.at(0)) + f.cast::<u32>(f.load(long.at(2)));
            f.store(out.at(f.group()), all + f.len(long) * 1000);
        });
    });
    let p = program(m);
    for schedule in SCHEDULES {
        let out = words(&[0; 9]);
        finish(
            &p,
            &InterpLaunch {
                schedule,
                ..launch(9, 5, &[BoundWords::W32(&out), BoundWords::None, BoundWords::None])
            },
        );
        assert_eq!(values(&out), [4505; 9]);
    }
}
