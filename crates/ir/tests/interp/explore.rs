//! Litmus tests: what the memory model forbids is never seen, and what it allows is.

use std::collections::BTreeSet;

use pelton_ir::builder::{Buf, Builder, FunctionBuilder, Val};
use pelton_ir::interp::{BoundWords, InterpLaunch, Schedule};
use pelton_ir::types::Order::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
use pelton_ir::types::Scope::{self, Device, Group};
use pelton_ir::types::{Access, Len, Space};

use crate::{finish, launch, program, values, words};

const X: u32 = 0;
const Y: u32 = 1;

/// Seeds to try: enough that what can happen does.
const SEEDS: u64 = 3000;

/// The two words that a test is about, and where lanes leave what they saw.
#[derive(Clone, Copy)]
struct World<'b> {
    f: &'b FunctionBuilder<'b>,
    data: Buf<u32>,
    out: Buf<u32>,
}

impl<'b> World<'b> {
    fn load(self, order: Order, scope: Scope, at: u32) -> Val<'b, u32> {
        self.f.atomic_load(order, scope, self.data.at(at))
    }

    fn store(self, order: Order, scope: Scope, at: u32, value: u32) {
        self.f.atomic_store(order, scope, self.data.at(at), value);
    }

    fn saw(self, at: u32, value: Val<'b, u32>) {
        self.f.store(self.out.at(at), value);
    }

    /// Waits until a word is not zero.
    fn wait(self, order: Order, scope: Scope, at: u32) {
        self.f.forever::<(), ()>((), |l, ()| {
            let seen = self.load(order, scope, at);
            self.f.when(seen.ne(0), || l.leave(()));
        });
    }
}

/// How the lanes of a test lie.
#[derive(Clone, Copy)]
enum Lie {
    Together,
    Apart,
}

/// What lanes can see: all outcomes over many seeds, as the words of `out` and then those of `data`.
fn outcomes<const N: usize>(
    lie: Lie,
    lanes: u32,
    build: impl for<'b> Fn(World<'b>, Val<'b, u32>),
) -> BTreeSet<[u32; N]> {
    let mut m = Builder::new();
    let data = m.buffer::<u32>("data", Len::Fixed(4), Space::Global, Access::ReadWrite);
    let out = m.buffer::<u32>("out", Len::Fixed(4), Space::Global, Access::ReadWrite);
    m.kernel("main", |f| build(World { f, data, out }, f.group() + f.lane()));
    let p = program(m);
    let (groups, lanes) = match lie {
        Lie::Together => (1, lanes),
        Lie::Apart => (lanes, 1),
    };
    let run = |seed| {
        let (data, out) = (words(&[0; 4]), words(&[0; 4]));
        let schedule = Schedule::Explore(seed);
        finish(
            &p,
            &InterpLaunch {
                schedule,
                ..launch(groups, lanes, &[BoundWords::W32(&data), BoundWords::W32(&out)])
            },
        );
        let all = [values(&out), values(&data)].concat();
        std::array::from_fn(|k| all[k])
    };
    (0..SEEDS).map(run).collect()
}

/// Runs the region of each lane by its number.
fn each<'b, const N: usize>(f: &'b FunctionBuilder<'b>, lane: Val<'b, u32>, regions: [&dyn Fn(); N]) {
    for (k, region) in regions.into_iter().enumerate() {
        f.when(lane.eq(k as u32), region);
    }
}

/// Message passing: whether the reader can see the flag and not the data.
fn stale(lie: Lie, (release, wide): (Order, Scope), (acquire, reach): (Order, Scope)) -> bool {
    let all: BTreeSet<[u32; 2]> = outcomes(lie, 2, |w, lane| {
        let write = || {
            w.f.store(w.data.at(X), 1);
            w.store(release, wide, Y, 1);
        };
        let read = || {
            w.saw(0, w.load(acquire, reach, Y));
            w.saw(1, w.f.load(w.data.at(X)));
        };
        each(w.f, lane, [&write, &read]);
    });
    assert!(all.contains(&[0, 0]) && all.contains(&[1, 1]), "the schedules are all alike: {all:?}");
    all.contains(&[1, 0])
}

#[test]
fn release_and_acquire_pass_messages() {
    for lie in [Lie::Together, Lie::Apart] {
        assert!(!stale(lie, (Release, Device), (Acquire, Device)));
        assert!(stale(lie, (Relaxed, Device), (Acquire, Device)), "a missing release does not show");
        assert!(stale(lie, (Release, Device), (Relaxed, Device)), "a missing acquire does not show");
    }
}

#[test]
fn a_scope_that_leaves_the_other_out_orders_nothing() {
    assert!(!stale(Lie::Together, (Release, Group), (Acquire, Group)));
    assert!(!stale(Lie::Together, (Release, Group), (Acquire, Device)));
    assert!(stale(Lie::Apart, (Release, Group), (Acquire, Device)));
    assert!(stale(Lie::Apart, (Release, Device), (Acquire, Group)));
}

#[test]
fn fences_pass_messages() {
    let stale = |(release, wide), (acquire, reach)| {
        let all: BTreeSet<[u32; 2]> = outcomes(Lie::Apart, 2, |w, lane| {
            let write = || {
                w.f.store(w.data.at(X), 1);
                w.f.fence(release, wide);
                w.store(Relaxed, Device, Y, 1);
            };
            let read = || {
                w.saw(0, w.load(Relaxed, Device, Y));
                w.f.fence(acquire, reach);
                w.saw(1, w.f.load(w.data.at(X)));
            };
            each(w.f, lane, [&write, &read]);
        });
        assert!(all.contains(&[1, 1]));
        all.contains(&[1, 0])
    };
    assert!(!stale((Release, Device), (Acquire, Device)));
    assert!(!stale((AcqRel, Device), (AcqRel, Device)));
    assert!(!stale((SeqCst, Device), (SeqCst, Device)));
    assert!(stale((Acquire, Device), (Acquire, Device)));
    assert!(stale((Release, Device), (Release, Device)));
    assert!(stale((Release, Group), (Acquire, Device)));
    assert!(stale((Release, Device), (Acquire, Group)));
}

#[test]
fn store_buffering_needs_sequential_fences() {
    let both_zero = |lie, fences: [Option<(Order, Scope)>; 2]| {
        let all: BTreeSet<[u32; 2]> = outcomes(lie, 2, |w, lane| {
            let side = |mine: u32, other: u32| {
                w.store(Release, Device, mine, 1);
                if let Some((order, scope)) = fences[mine as usize] {
                    w.f.fence(order, scope);
                }
                w.saw(mine, w.load(Acquire, Device, other));
            };
            each(w.f, lane, [&|| side(X, Y), &|| side(Y, X)]);
        });
        assert!(all.contains(&[1, 1]));
        all.contains(&[0, 0])
    };
    let (near, wide) = (Some((SeqCst, Group)), Some((SeqCst, Device)));
    assert!(both_zero(Lie::Apart, [None; 2]));
    assert!(both_zero(Lie::Apart, [wide, None]));
    assert!(both_zero(Lie::Apart, [Some((AcqRel, Device)); 2]));
    assert!(both_zero(Lie::Apart, [near, wide]));
    assert!(!both_zero(Lie::Apart, [wide; 2]));
    assert!(!both_zero(Lie::Together, [near; 2]));
    assert!(!both_zero(Lie::Together, [near, wide]));
}

#[test]
fn loads_are_buffered_but_nothing_comes_from_thin_air() {
    let seen = |acquire, release, fence: Option<Order>, dependent: bool| -> BTreeSet<[u32; 2]> {
        outcomes(Lie::Apart, 2, |w, lane| {
            let side = |from: u32, to: u32| {
                let x = w.load(acquire, Device, from);
                fence.into_iter().for_each(|order| w.f.fence(order, Device));
                if dependent {
                    w.f.atomic_store(release, Device, w.data.at(to), x);
                } else {
                    w.store(release, Device, to, 1);
                }
                w.saw(from, x);
            };
            each(w.f, lane, [&|| side(X, Y), &|| side(Y, X)]);
        })
    };
    assert!(seen(Relaxed, Relaxed, None, false).contains(&[1, 1]), "load buffering does not show");
    assert!(!seen(Acquire, Relaxed, None, false).contains(&[1, 1]));
    assert!(!seen(Relaxed, Release, None, false).contains(&[1, 1]));
    assert!(!seen(Relaxed, Relaxed, Some(AcqRel), false).contains(&[1, 1]));
    assert_eq!(seen(Relaxed, Relaxed, None, true), BTreeSet::from([[0, 0]]));
}

#[test]
fn one_word_has_one_order() {
    // Two writers, two readers who each look twice.
    let all: BTreeSet<[u32; 5]> = outcomes(Lie::Apart, 4, |w, lane| {
        let write = |value: u32| w.store(Relaxed, Device, X, value);
        let read = |at: u32| {
            let (first, second) = (w.load(Relaxed, Device, X), w.load(Relaxed, Device, X));
            w.saw(at, first);
            w.saw(at + 1, second);
        };
        each(w.f, lane, [&|| write(1), &|| write(2), &|| read(0), &|| read(2)]);
    });
    let backwards = |pair: &[u32], order: [u32; 3]| {
        let place = |x: u32| order.iter().position(|y| *y == x);
        place(pair[0]) > place(pair[1])
    };
    for seen in &all {
        let fits = [[0, 1, 2], [0, 2, 1]].into_iter().any(|order| {
            order[2] == seen[4] && !backwards(&seen[..2], order) && !backwards(&seen[2..4], order)
        });
        assert!(fits, "{seen:?}");
    }
    assert!(all.iter().any(|seen| seen[4] == 1) && all.iter().any(|seen| seen[4] == 2));
    assert!(all.iter().any(|seen| seen[..2] == [1, 2]) && all.iter().any(|seen| seen[..2] == [2, 1]));
}

#[test]
fn a_lane_sees_its_own_writes_once_they_are_done() {
    let all: BTreeSet<[u32; 3]> = outcomes(Lie::Apart, 2, |w, lane| {
        let own = || {
            let before = w.load(Relaxed, Device, X);
            w.store(Relaxed, Device, X, 1);
            w.store(Relaxed, Device, X, 2);
            w.saw(0, before);
            w.saw(1, w.load(Relaxed, Device, X));
            w.saw(2, w.load(Relaxed, Device, X));
        };
        each(w.f, lane, [&own, &|| w.store(Relaxed, Device, X, 3)]);
    });
    assert_eq!(all, BTreeSet::from([[0, 2, 2], [0, 2, 3], [0, 3, 3], [3, 2, 2]]));
}

#[test]
fn writes_to_two_words_may_cross() {
    let both_first = |fence: Option<Order>| {
        let all: BTreeSet<[u32; 6]> = outcomes(Lie::Apart, 2, |w, lane| {
            let side = |first: u32, second: u32| {
                w.store(Relaxed, Device, first, 1);
                fence.into_iter().for_each(|order| w.f.fence(order, Device));
                w.store(Relaxed, Device, second, 2);
            };
            each(w.f, lane, [&|| side(X, Y), &|| side(Y, X)]);
        });
        all.iter().any(|seen| seen[4..] == [1, 1])
    };
    assert!(both_first(None));
    assert!(!both_first(Some(SeqCst)));
}

#[test]
fn readers_agree_on_independent_writes_only_with_sequential_fences() {
    let disagree = |fence: Option<Order>| {
        let all: BTreeSet<[u32; 4]> = outcomes(Lie::Apart, 4, |w, lane| {
            let write = |at: u32| w.store(Release, Device, at, 1);
            let read = |first: u32, second: u32, out: u32| {
                w.saw(out, w.load(Acquire, Device, first));
                fence.into_iter().for_each(|order| w.f.fence(order, Device));
                w.saw(out + 1, w.load(Acquire, Device, second));
            };
            each(w.f, lane, [&|| write(X), &|| write(Y), &|| read(X, Y, 0), &|| read(Y, X, 2)]);
        });
        all.contains(&[1, 0, 1, 0])
    };
    assert!(disagree(None));
    assert!(!disagree(Some(SeqCst)));
}

#[test]
fn a_release_lives_on_through_atomics_that_modify() {
    // Lane 1 passes on lane 0's flag, with an atomic or with a store of its own.
    let stale = |modify: bool| {
        let all: BTreeSet<[u32; 2]> = outcomes(Lie::Apart, 3, |w, lane| {
            let write = || {
                w.store(Relaxed, Device, X, 1);
                w.store(Release, Device, Y, 1);
            };
            let pass = || {
                w.wait(Relaxed, Device, Y);
                if modify {
                    w.f.atomic_add(Relaxed, Device, w.data.at(Y), 1);
                } else {
                    w.store(Relaxed, Device, Y, 2);
                }
            };
            let read = || {
                w.saw(0, w.load(Acquire, Device, Y));
                w.saw(1, w.load(Relaxed, Device, X));
            };
            each(w.f, lane, [&write, &pass, &read]);
        });
        assert!(all.contains(&[2, 1]));
        all.contains(&[2, 0])
    };
    assert!(!stale(true));
    assert!(stale(false));
}

#[test]
fn causality_passes_from_scope_to_scope() {
    // Group 0 releases to the device; lane 0 of group 1 acquires that and releases to its own group.
    let stale = |inner: Order| {
        let mut m = Builder::new();
        let data = m.buffer::<u32>("data", Len::Fixed(4), Space::Global, Access::ReadWrite);
        let flag = m.buffer::<u32>("flag", Len::Fixed(1), Space::Shared, Access::ReadWrite);
        let out = m.buffer::<u32>("out", Len::Fixed(4), Space::Global, Access::ReadWrite);
        m.kernel("main", |f| {
            let w = World { f, data, out };
            let write = || {
                f.store(data.at(X), 1);
                w.store(Release, Device, Y, 1);
            };
            let pass = || {
                w.wait(Acquire, Device, Y);
                f.atomic_store(inner, Group, flag.at(0), 1);
            };
            let read = || {
                w.saw(0, f.atomic_load(Acquire, Group, flag.at(0)));
                w.saw(1, f.load(data.at(X)));
            };
            each(f, f.group() * 2 + f.lane(), [&write, &|| (), &pass, &read]);
        });
        let p = program(m);
        (0..SEEDS).any(|seed| {
            let (data, out) = (words(&[0; 4]), words(&[0; 4]));
            let buffers = [BoundWords::W32(&data), BoundWords::None, BoundWords::W32(&out)];
            finish(&p, &InterpLaunch { schedule: Schedule::Explore(seed), ..launch(2, 2, &buffers) });
            values(&out)[..2] == [1, 0]
        })
    };
    assert!(!stale(Release));
    assert!(stale(Relaxed));
}

#[test]
fn a_barrier_orders_the_group() {
    let stale = |barrier: bool| {
        let all: BTreeSet<[u32; 1]> = outcomes(Lie::Together, 2, |w, lane| {
            w.f.when(lane.eq(0), || w.f.store(w.data.at(X), 1));
            if barrier {
                w.f.barrier();
            }
            w.f.when(lane.eq(1), || w.saw(0, w.f.load(w.data.at(X))));
        });
        assert!(all.contains(&[1]));
        all.contains(&[0])
    };
    assert!(!stale(true));
    assert!(stale(false));
}

#[test]
fn atomics_that_modify_lose_nothing() {
    let all: BTreeSet<[u32; 5]> = outcomes(Lie::Apart, 4, |w, lane| {
        let old = w.f.atomic_add(Relaxed, Device, w.data.at(X), 1);
        w.f.store(w.out.at(lane), old);
    });
    for mut seen in all.iter().copied() {
        seen[..4].sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }
    assert!(all.len() > 1, "every seed has the same order");
}

#[test]
fn nothing_comes_between_an_atomic_and_what_it_read() {
    let all: BTreeSet<[u32; 5]> = outcomes(Lie::Apart, 2, |w, lane| {
        let add = || w.saw(0, w.f.atomic_add(Relaxed, Device, w.data.at(X), 1));
        each(w.f, lane, [&add, &|| w.store(Relaxed, Device, X, 10)]);
    });
    assert_eq!(all, BTreeSet::from([[0, 0, 0, 0, 10], [10, 0, 0, 0, 11]]));
}

#[test]
fn a_lock_guards_what_it_guards_only_if_it_acquires() {
    let lost = |order| {
        let all: BTreeSet<[u32; 6]> = outcomes(Lie::Apart, 2, |w, _| {
            w.f.forever::<(), ()>((), |l, ()| {
                let old = w.f.atomic_cas(order, Device, w.data.at(X), 0, 1);
                w.f.when(old.eq(0), || l.leave(()));
            });
            w.f.store(w.data.at(Y), w.f.load(w.data.at(Y)) + 1);
            w.store(Release, Device, X, 0);
        });
        all.iter().any(|seen| seen[5] != 2)
    };
    assert!(!lost(Acquire));
    assert!(lost(Relaxed));
}
