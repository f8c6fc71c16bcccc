//! What lanes do together.

use pelton_ir::builder::{Builder, FunctionBuilder, Val};
use pelton_ir::interp::{BoundWords, InterpLaunch};
use pelton_ir::types::Order::{Acquire, Relaxed, Release};
use pelton_ir::types::Scope::Group;
use pelton_ir::types::{Access, Len, Need, Space};

use crate::{SCHEDULES, finish, kernel, launch, program, values, words};

#[test]
fn barriers_in_a_loop_keep_all_lanes_together() {
    // Every round each lane takes its neighbour's value and adds one; 33 lanes are a subgroup and a lonely lane.
    const LANES: u32 = 33;
    let mut m = Builder::new();
    let out = m.buffer::<u32>("out", Len::Launch, Space::Global, Access::ReadWrite);
    let ring = m.buffer::<u32>("ring", Len::Fixed(u64::from(LANES)), Space::Shared, Access::ReadWrite);
    m.kernel("main", |f| {
        let lane = f.lane();
        let last = f.range((0, 40, 1), lane * 100, |_, _, mine| {
            f.store(ring.at(lane), mine);
            f.barrier();
            let next = f.load(ring.at((lane + 1) % f.lanes()));
            f.barrier();
            next + 1
        });
        f.store(out.at(lane), last);
    });
    let p = program(m);
    let expected: Vec<u32> = (0..LANES).map(|lane| (lane + 40) % LANES * 100 + 40).collect();
    for schedule in SCHEDULES {
        let out = words(&[0; LANES as usize]);
        finish(
            &p,
            &InterpLaunch { schedule, ..launch(1, LANES, &[BoundWords::W32(&out), BoundWords::None]) },
        );
        assert_eq!(values(&out), expected, "{schedule:?}");
    }
}

/// Runs a kernel that leaves one word a lane, with subgroups of 4 lanes of which the last has 3.
fn lanes(build: impl for<'b> FnOnce(&'b FunctionBuilder<'b>) -> Val<'b, u32>) -> Vec<u32> {
    let p = kernel(|f, out| {
        let x = build(f);
        f.store(out.at(f.lane()), x);
    });
    let mut all = SCHEDULES.map(|schedule| {
        let out = words(&[0; 7]);
        finish(&p, &InterpLaunch { schedule, subgroup: 4, ..launch(1, 7, &[BoundWords::W32(&out)]) });
        values(&out)
    });
    all.iter().for_each(|other| assert_eq!(*other, all[0]));
    std::mem::take(&mut all[0])
}

#[test]
fn subgroups_are_numbered_and_may_be_partial() {
    let ids = lanes(|f| f.lane() + f.subgroup() * 10 + f.sublane() * 100 + f.subgroup_size() * 1000);
    assert_eq!(ids, [4000, 4101, 4202, 4303, 4014, 4115, 4216]);
    assert_eq!(lanes(|f| f.lanes() * 100 + f.groups() * 10 + f.group()), [710; 7]);
    assert_eq!(lanes(|f| f.cast(f.elect())), [1, 0, 0, 0, 1, 0, 0]);
}

#[test]
fn votes_count_the_lanes_that_are_there() {
    assert_eq!(lanes(|f| f.ballot((f.lane() & 1).eq(1))), [10, 10, 10, 10, 2, 2, 2]);
    assert_eq!(lanes(|f| f.cast(f.any(f.lane().eq(5)))), [0, 0, 0, 0, 1, 1, 1]);
    assert_eq!(lanes(|f| f.cast(f.all(f.lane().ge(4)))), [0, 0, 0, 0, 1, 1, 1]);
}

#[test]
fn a_value_from_an_absent_lane_is_zero() {
    assert_eq!(lanes(|f| f.shuffle(f.lane() + 1, f.sublane() ^ 1)), [2, 1, 4, 3, 6, 5, 0]);
    assert_eq!(lanes(|f| f.shuffle(f.lane() + 1, 4)), [0; 7]);
    assert_eq!(lanes(|f| f.broadcast(f.lane() + 1, 3)), [4, 4, 4, 4, 0, 0, 0]);
    assert_eq!(lanes(|f| f.group_broadcast(f.lane() + 1, 6)), [7; 7]);
    assert_eq!(lanes(|f| f.group_broadcast(f.lane() + 1, 7)), [0; 7]);
}

#[test]
fn reductions_combine_the_subgroup() {
    assert_eq!(
        lanes(|f| f.reduce_add(f.lane() + 0xffff_fffd)),
        [0xffff_fffa, 0xffff_fffa, 0xffff_fffa, 0xffff_fffa, 6, 6, 6]
    );
    assert_eq!(lanes(|f| f.reduce_and(f.lane() | 8)), [8, 8, 8, 8, 12, 12, 12]);
    assert_eq!(lanes(|f| f.reduce_or(f.lane())), [3, 3, 3, 3, 7, 7, 7]);
    assert_eq!(lanes(|f| f.reduce_xor(f.lane() + 1)), [4, 4, 4, 4, 4, 4, 4]);
    assert_eq!(lanes(|f| f.reduce_min(f.lane())), [0, 0, 0, 0, 4, 4, 4]);
    let signed = lanes(|f| {
        let x = f.cast::<i32>(f.lane()) - 5;
        f.bitcast(f.reduce_max(x))
    });
    assert_eq!(signed, [-2_i32 as u32, -2_i32 as u32, -2_i32 as u32, -2_i32 as u32, 1, 1, 1]);
    let float = lanes(|f| {
        let x = f.cast::<f32>(f.lane()) * -0.5;
        f.bitcast(f.reduce_min(x))
    });
    let expected = [-1.5_f32, -1.5, -1.5, -1.5, -3.0, -3.0, -3.0].map(f32::to_bits);
    assert_eq!(float, expected);
}

#[test]
fn subgroups_progress_without_each_other() {
    // The first subgroup talks within itself for a while, and then sets the word that the second waits for.
    let mut m = Builder::new();
    m.need(Need::Subgroups);
    let out = m.buffer::<u32>("out", Len::Launch, Space::Global, Access::ReadWrite);
    let flag = m.buffer::<u32>("flag", Len::Fixed(1), Space::Shared, Access::ReadWrite);
    m.kernel("main", |f| {
        f.choose(
            f.subgroup().eq(0),
            || {
                let sum = f.range((0, 50, 1), f.lane(), |_, _, x| f.reduce_add(x) & 0xff);
                f.when(f.elect(), || {
                    f.store(out.at(0), sum);
                    f.atomic_store(Release, Group, flag.at(0), 1);
                });
            },
            || {
                f.forever::<(), ()>((), |l, ()| {
                    let seen = f.atomic_load(Acquire, Group, flag.at(0));
                    f.when(seen.ne(0), || l.leave(()));
                    f.backoff(100);
                });
                let sum = f.load(out.at(0));
                f.atomic_add(Relaxed, Group, out.at(1), sum + 1);
            },
        );
    });
    let p = program(m);
    let mut sum: Vec<u32> = (0..4).collect();
    for _ in 0..50 {
        sum = vec![sum.iter().sum::<u32>() & 0xff; 4];
    }
    for schedule in SCHEDULES {
        let out = words(&[0; 2]);
        finish(
            &p,
            &InterpLaunch {
                schedule,
                subgroup: 4,
                ..launch(1, 8, &[BoundWords::W32(&out), BoundWords::None])
            },
        );
        assert_eq!(values(&out), [sum[0], 4 * (sum[0] + 1)], "{schedule:?}");
    }
}
