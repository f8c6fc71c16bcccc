//! The router of far rings: tails, tasks that wait alone, control words, stop.
//!
//! Where subgroups progress independently, a team of eight lanes has a ring of its own, spread over all subgroups but the last,
//! which is the *keeper*: it keeps the host's control words in device memory (see [`notice`]) and watches for the stop. Elsewhere one
//! lane does it all in turn.
//!
//! The line at the head of a ring and its tail are read in one go. If the tail has moved, and only by a few, and everything before has
//! ended, the lane that acquired the tail runs the task itself if it is light: the line was read before the tail, so its check
//! decides whether it is the one expected. Otherwise that lane moves the tail into device memory, for the groups.

use pelton_device::Caps;
use pelton_ir::builder::{Builder, Callee, FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::flag;
use super::claim;
use super::context::{KernelContext, LINE, Rights, STRIDE, U32, U64};
use super::far::{claim_word, tail_word};
use super::light::{FEW_TASKS, FoundLine, LightTasks, TaskPermit, attempt, note_failed_check};
use super::mode::{FarRings, KeptControl};
use super::window::WindowRunner;
use super::{line, notice};
use crate::protocol::control;

/// How long the keeper rests between two looks at the host's words.
const REST_NS: u32 = claim::REST_NS;

/// Lanes that look at one ring together: four take the line, the first takes the tail and does the rest.
const TEAM_LANES: u32 = 8;

/// How many subgroups of a router of so many lanes poll rings in teams; none where one lane looks at all of them.
pub(super) fn polling_subgroups(caps: &Caps, lanes: u32) -> Option<u32> {
    let pollers = lanes.div_ceil(caps.subgroup) - 1;
    (caps.independent_subgroups && pollers > 0 && caps.subgroup.is_multiple_of(TEAM_LANES)).then_some(pollers)
}

/// Writes the router. `pollers` is how many of its subgroups poll rings in teams, if they do.
pub(super) fn write_router(
    m: &mut Builder,
    run: WindowRunner<'_>,
    far: &FarRings,
    light: LightTasks,
    pollers: Option<u32>,
) -> Callee<(), ()> {
    let kernel = run.kernel;
    let visit = RouterRounds { run, far, light };
    m.function("route", |f, ()| {
        claim::load_heads(f, kernel, |ring| run.slots.session_stripe(ring));
        match pollers {
            Some(pollers) => {
                let teams = kernel.layout.subgroup / TEAM_LANES;
                f.choose(
                    f.subgroup().eq(pollers),
                    || keep_control_words(f, kernel, &far.copy),
                    || {
                        let first = f.subgroup() + (f.sublane() / TEAM_LANES) * pollers;
                        visit.rounds(f, (first, pollers * teams), true);
                    },
                );
            }
            None => f.when(f.lane().eq(0), || visit.rounds(f, (f.lit(0), 1), false)),
        }
    })
}

/// Keeps the control words, and watches for the stop.
pub(super) fn keep_control_words<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    copy: &KeptControl,
) {
    let lanes = kernel.layout.keepers;
    f.forever::<_, ()>(f.lit(0), |rounds, last| {
        let keep = || notice::take_change_over(f, kernel, copy, (f.sublane(), lanes), last);
        let last = f.choose(f.sublane().lt(lanes), keep, || last);
        // The lanes meet here, so that all go on wherever they run.
        let over = f.any(pass_stop_on(f, kernel, copy));
        f.when(over, || rounds.leave(()));
        f.backoff(REST_NS);
        last
    });
}

/// Whether the host has asked for the stop; tells the groups.
fn pass_stop_on<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    copy: &KeptControl,
) -> Val<'b, bool> {
    // Pairs with the host's release.
    let asked = f.atomic_load(Order::Acquire, Scope::System, kernel.global.host.at(control::SHUTDOWN)).ne(0);
    f.when(asked, || f.atomic_store(Order::Release, Scope::Device, copy.buffers.flags.at(flag::HALT), 1));
    asked
}

/// How rings are looked at.
#[derive(Clone, Copy)]
struct RouterRounds<'k> {
    run: WindowRunner<'k>,
    far: &'k FarRings,
    light: LightTasks,
}

impl RouterRounds<'_> {
    /// Looks at every `step`-th ring from the first on, until the stop: a team of lanes at each, or one lane at all.
    fn rounds<'b>(self, f: &'b FunctionBuilder<'b>, (first, step): (U32<'b>, u32), team: bool) {
        let (kernel, copy) = (self.run.kernel, &self.far.copy);
        let rings = kernel.layout.rings.len() as u32;
        f.forever::<_, ()>((f.lit(0), f.lit(0)), |rounds, (last, idle)| {
            // On its way while the rings are looked at.
            let halt = f.atomic_load(Order::Relaxed, Scope::Device, copy.buffers.flags.at(flag::HALT));
            let last = match team {
                true => last,
                false => {
                    let last = notice::take_change_over(f, kernel, copy, (f.lit(0), 1), last);
                    f.when(pass_stop_on(f, kernel, copy), || rounds.leave(()));
                    last
                }
            };
            let moved = match team {
                true => {
                    let poller = self.poller_number(f);
                    let notice = notice::notice_word(f, kernel, poller);
                    // All teams of a subgroup go through as many turns: they read lines together.
                    let turns = rings.div_ceil(step);
                    let moved = f.range((0u32, turns, 1u32), f.lit(false), |_, turn, moved| {
                        moved | self.look_as_team(f, first + turn * step)
                    });
                    notice::acknowledge_change(f, kernel, poller, notice);
                    moved
                }
                false => f.range((first, f.lit(rings), f.lit(step)), f.lit(false), |_, ring, moved| {
                    moved | self.look_as_lane(f, ring)
                }),
            };
            let over = if team { f.any(halt.ne(0)) } else { halt.ne(0) };
            f.when(over, || rounds.leave(()));
            let idle = f.select(moved, 0, idle + 1);
            f.when(!moved, || claim::back_off(f, kernel, idle));
            (last, idle)
        });
    }

    /// The number of this subgroup among those that are told of changed control words: near groups come first.
    fn poller_number<'b>(self, f: &'b FunctionBuilder<'b>) -> U32<'b> {
        let near = self.run.kernel.mode.near().map_or(0, |slots| slots.bank.groups);
        f.subgroup() + near
    }

    /// One lane looks at a ring.
    fn look_as_lane<'b>(self, f: &'b FunctionBuilder<'b>, ring: U32<'b>) -> Val<'b, bool> {
        let at = self.read_ring(f, ring, f.load(self.run.kernel.shared.heads.at(ring)));
        let words = line::read_line(f, self.run.slots.words, at.number * LINE);
        let end = self.tail(f, ring);
        let moved = end.ne(at.head);
        f.when(moved, || self.pass_tail_on(f, at, words, end));
        moved
    }

    /// A team looks at a ring; it may be one that is not there. Says whether any team's tail had moved.
    fn look_as_team<'b>(self, f: &'b FunctionBuilder<'b>, ring: U32<'b>) -> Val<'b, bool> {
        let kernel = self.run.kernel;
        let member = f.sublane() % TEAM_LANES;
        let there = ring.lt(kernel.layout.rings.len() as u32);
        let first = f.sublane() - member;
        // The first of a team alone moves the head on.
        let head = f.choose(member.eq(0), || f.load(kernel.shared.heads.at(ring)), || f.lit(0u64));
        let at = self.read_ring(f, ring, f.shuffle(head, first));
        let none = || [f.lit(0u64); 2];
        let pair = f.choose(
            there & member.lt(LINE / 2),
            || {
                f.load_wide::<u64, 2>(
                    Order::Relaxed,
                    Scope::System,
                    self.run.slots.words.at(at.number * LINE + member * 2),
                )
            },
            none,
        );
        let end = f.choose(there & member.eq(0), || self.tail(f, ring), || at.head);
        let words = std::array::from_fn(|k| f.shuffle(pair[k % 2], first + k as u32 / 2));
        let moved = end.ne(at.head);
        f.when(moved, || self.pass_tail_on(f, at, words, end));
        f.any(moved)
    }

    /// What is known of a ring without asking the host: all on its way at once.
    fn read_ring<'b>(self, f: &'b FunctionBuilder<'b>, ring: U32<'b>, head: U64<'b>) -> RouterRing<'b> {
        let (kernel, slots) = (self.run.kernel, self.run.slots);
        let tenant = f.load(kernel.shared.owners.at(ring));
        let claims = f.atomic_load(Order::Relaxed, Scope::Device, self.far.router.route.at(claim_word(ring)));
        RouterRing {
            ring,
            head,
            number: slots.first_slot(ring) + slots.slot_in_stripe(f, head),
            tenant,
            rights: kernel.pollers_are_told().then(|| kernel.rights(f, tenant)),
            quiet: claims.eq(head) & self.run.fences.is_quiet(f, ring, head),
        }
    }

    fn tail<'b>(self, f: &'b FunctionBuilder<'b>, ring: U32<'b>) -> U64<'b> {
        // Pairs with the producer's release of the tail: the slots behind it are seen.
        f.atomic_load(Order::Acquire, Scope::System, self.far.router.tails.at(ring * STRIDE))
    }

    /// The tail of a ring has moved: runs the task at the head if it waits alone, or leaves it to the groups.
    fn pass_tail_on<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        at: RouterRing<'b>,
        words: [U64<'b>; LINE as usize],
        end: U64<'b>,
    ) {
        let (kernel, far) = (self.run.kernel, self.far);
        let RouterRing { ring, head, number, tenant, rights, quiet } = at;
        let few = (end - head).le(FEW_TASKS) & f.lane().lt(kernel.layout.window);
        let mask = rights.map(|rights| rights.light_mask(f));
        let permit = mask.map_or(TaskPermit::Unread, TaskPermit::Mask);
        let took = f.choose(
            mask.map_or(few & quiet, |mask| few & quiet & mask.ne(0)),
            || {
                let level = claim::ring_level(f, kernel, ring);
                self.light.attempt(
                    f,
                    self.run,
                    FoundLine { words, position: head, number, tenant, permit, level },
                )
            },
            || f.lit(attempt::NEEDS_WINDOW),
        );
        f.when(took.eq(attempt::RAN), || {
            let next = head + 1u64;
            f.store(kernel.shared.heads.at(ring), next);
            f.store(kernel.shared.suspect.at(ring), 0);
            // The claim goes first: nobody may find the task between the two.
            f.atomic_store(Order::Relaxed, Scope::Device, far.router.route.at(claim_word(ring)), next);
            self.run.fences.move_frontier(f, ring, next);
            f.atomic_store(Order::Release, Scope::Device, far.router.route.at(tail_word(ring)), next);
        });
        f.when(took.eq(attempt::NEEDS_WINDOW), || {
            f.store(kernel.shared.heads.at(ring), end);
            f.atomic_store(Order::Release, Scope::Device, far.router.route.at(tail_word(ring)), end);
        });
        f.when(took.eq(attempt::NOT_READY), || note_failed_check(f, kernel, ring));
    }
}

/// What is known of a ring.
#[derive(Clone, Copy)]
struct RouterRing<'b> {
    ring: U32<'b>,
    head: U64<'b>,
    /// The number of the head's slot.
    number: U32<'b>,
    tenant: U32<'b>,
    /// What that tenant may do, where it is read together with the line.
    rights: Option<Rights<'b>>,
    /// Whether everything before the head has ended, and no group has anything to do with it.
    quiet: Val<'b, bool>,
}
