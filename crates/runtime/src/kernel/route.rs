//! The router of far rings. It passes tails on, runs tasks that wait alone, copies control words, and looks for the
//! stop.
//!
//! Where subgroups progress independently, all subgroups of the router but the last are divided into teams of eight
//! lanes, and each team polls rings of its own. The last subgroup is the *keeper*: it keeps a copy of the host's
//! control words in device memory (see [`notice`]) and looks for the stop. On other devices, one lane does all of this
//! in turn.
//!
//! A poller reads the line at the head of a ring and the ring's tail at the same time. If the tail has moved by only a
//! few tasks, and everything before the head has ended, then the lane that has acquired the tail runs the first task
//! itself, provided that the task is light. The line was read before the tail, so its check decides whether it is the
//! expected one. In all other cases that lane copies the tail into device memory, where the groups find it.

use pelton_device::Caps;
use pelton_ir::builder::{Builder, Callee, FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::flag;
use super::context::{KernelContext, LINE, Rights, STRIDE, U32, U64};
use super::far::{claim_word, tail_word};
use super::light::{FEW_TASKS, FoundLine, LightTasks, TaskPermit, attempt, note_failed_check};
use super::mode::{FarRings, KeptControl};
use super::window::WindowRunner;
use super::{cells, claim};
use super::{line, notice};
use crate::protocol::control;

/// How long the keeper rests between two looks at the host's control words.
const REST_NS: u32 = claim::REST_NS;

/// How many lanes of a team poll a ring together. Four of them read the line. The first one also reads the tail and
/// does the rest.
const TEAM_LANES: u32 = 8;

/// How many subgroups of a router with this many lanes poll rings in teams, or `None` if one lane polls all rings.
pub(super) fn polling_subgroups(caps: &Caps, lanes: u32) -> Option<u32> {
    let pollers = lanes.div_ceil(caps.subgroup) - 1;
    (caps.independent_subgroups && pollers > 0 && caps.subgroup.is_multiple_of(TEAM_LANES)).then_some(pollers)
}

/// Writes the function that does the work of the router. `pollers` says how many of its subgroups poll rings in teams,
/// if they do.
pub(super) fn write_router(
    m: &mut Builder,
    run: WindowRunner<'_>,
    far: &FarRings,
    light: LightTasks,
    pollers: Option<u32>,
) -> Callee<(), ()> {
    let kernel = run.kernel;
    let rounds = RouterRounds { run, far, light };
    m.function("route", |f, ()| {
        claim::load_heads(f, kernel, run.slots, |ring| run.slots.session_stripe(ring));
        match pollers {
            Some(pollers) => {
                let teams = kernel.layout.subgroup / TEAM_LANES;
                f.choose(
                    f.subgroup().eq(pollers),
                    || keep_control_words(f, kernel, &far.copy),
                    || {
                        let first = f.subgroup() + (f.sublane() / TEAM_LANES) * pollers;
                        rounds.poll_rings(f, (first, pollers * teams), true);
                    },
                );
            }
            None => f.when(f.lane().eq(0), || rounds.poll_rings(f, (f.lit(0), 1), false)),
        }
    })
}

/// Does the work of the keeper until the stop: it copies changed control words, and looks for the stop.
pub(super) fn keep_control_words<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    copy: &KeptControl,
) {
    let lanes = kernel.layout.keepers;
    f.forever::<_, ()>(f.lit(0), |rounds, last| {
        let keep = || notice::take_change_over(f, kernel, copy, (f.sublane(), lanes), last);
        let last = f.choose(f.sublane().lt(lanes), keep, || last);
        if kernel.cells().is_some() {
            f.when(f.sublane().eq(0), || cells::apply_asks(f, kernel));
        }
        let asked = stop_is_asked(f, kernel);
        // The lanes meet here, so that none of them runs on alone: before the groups are told to end, every lane has the
        // answers of the groups that it has told of a change.
        let over = f.any(asked);
        f.when(asked, || pass_stop_on(f, kernel, copy));
        f.when(over, || rounds.leave(()));
        f.backoff(REST_NS);
        last
    });
}

/// Whether the host has asked for the stop.
fn stop_is_asked<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>) -> Val<'b, bool> {
    // Pairs with the host's release: what the host wrote before it asked for the stop is seen.
    f.atomic_load(Order::Acquire, Scope::System, kernel.global.host.at(control::SHUTDOWN)).ne(0)
}

/// Tells the groups that the host has asked for the stop.
fn pass_stop_on<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, copy: &KeptControl) {
    f.atomic_store(Order::Release, Scope::Device, copy.buffers.flags.at(flag::HALT), 1);
    claim::wake_groups(f, kernel);
}

/// What the rounds of the router over the rings need.
#[derive(Clone, Copy)]
struct RouterRounds<'k> {
    run: WindowRunner<'k>,
    far: &'k FarRings,
    light: LightTasks,
}

impl RouterRounds<'_> {
    /// Polls every `step`-th ring from the first on, until the stop. Either a team of lanes polls each ring, or one
    /// lane polls all of them.
    fn poll_rings<'b>(self, f: &'b FunctionBuilder<'b>, (first, step): (U32<'b>, u32), team: bool) {
        let (kernel, copy) = (self.run.kernel, &self.far.copy);
        let rings = kernel.layout.rings.len() as u32;
        f.forever::<_, ()>((f.lit(0), f.lit(0)), |rounds, (last, idle)| {
            // The word is on its way while the rings are polled.
            let halt = f.atomic_load(Order::Relaxed, Scope::Device, copy.buffers.flags.at(flag::HALT));
            let last = match team {
                true => last,
                false => {
                    let last = notice::take_change_over(f, kernel, copy, (f.lit(0), 1), last);
                    cells::apply_asks(f, kernel);
                    f.when(stop_is_asked(f, kernel), || {
                        pass_stop_on(f, kernel, copy);
                        rounds.leave(());
                    });
                    last
                }
            };
            let moved = match team {
                true => {
                    let poller = self.poller_number(f);
                    let notice = notice::notice_word(f, kernel, poller);
                    // All teams of a subgroup take the same number of turns, because they read lines together.
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

    /// The number of this subgroup among the pollers that are told of changed control words. The watches of near groups
    /// come first.
    fn poller_number<'b>(self, f: &'b FunctionBuilder<'b>) -> U32<'b> {
        let near = self.run.kernel.mode.near().map_or(0, |slots| slots.bank.groups);
        f.subgroup() + near
    }

    /// Polls a ring with one lane. Says whether its tail had moved.
    fn look_as_lane<'b>(self, f: &'b FunctionBuilder<'b>, ring: U32<'b>) -> Val<'b, bool> {
        let at = self.read_ring(f, ring, f.load(self.run.kernel.shared.heads.at(ring)));
        let words = line::read_line(f, self.run.slots.words, at.number * LINE);
        let end = self.load_tail(f, ring);
        let moved = end.ne(at.head);
        f.when(moved, || self.pass_tail_on(f, at, words, end));
        moved
    }

    /// Polls a ring with a team of lanes. The number may be beyond the last ring, and then the team does nothing. Says
    /// whether the tail had moved for any team of the subgroup.
    fn look_as_team<'b>(self, f: &'b FunctionBuilder<'b>, ring: U32<'b>) -> Val<'b, bool> {
        let kernel = self.run.kernel;
        let member = f.sublane() % TEAM_LANES;
        let there = ring.lt(kernel.layout.rings.len() as u32);
        let first = f.sublane() - member;
        // Only the first lane of a team knows the head, because it alone moves the head on.
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
        let end = f.choose(there & member.eq(0), || self.load_tail(f, ring), || at.head);
        let words = std::array::from_fn(|k| f.shuffle(pair[k % 2], first + k as u32 / 2));
        let moved = end.ne(at.head);
        f.when(moved, || self.pass_tail_on(f, at, words, end));
        f.any(moved)
    }

    /// Reads what is known of a ring without reading host memory. All loads are under way at once.
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
            may_have_ended: kernel
                .recovery
                .as_ref()
                .map(|recovery| recovery.buffers.may_have_ended(f, slots, (ring, head))),
        }
    }

    /// Loads the tail of a ring from host memory.
    fn load_tail<'b>(self, f: &'b FunctionBuilder<'b>, ring: U32<'b>) -> U64<'b> {
        // Pairs with the producer's release of the tail: the slots below it are seen.
        f.atomic_load(Order::Acquire, Scope::System, self.far.router.tails.at(ring * STRIDE))
    }

    /// Handles a tail that has moved: runs the task at the head if it waits alone and is light, or else passes the tail
    /// on to the groups.
    fn pass_tail_on<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        at: RouterRing<'b>,
        words: [U64<'b>; LINE as usize],
        end: U64<'b>,
    ) {
        let (kernel, far) = (self.run.kernel, self.far);
        let RouterRing { ring, head, number, tenant, rights, quiet, may_have_ended } = at;
        let few = (end - head).le(FEW_TASKS) & f.lane().lt(kernel.layout.window);
        let mask = rights.map(|rights| rights.light_mask(f));
        let permit = mask.map_or(TaskPermit::Unread, TaskPermit::Mask);
        let took = f.choose(
            mask.map_or(few & quiet, |mask| few & quiet & mask.ne(0)),
            || {
                let level = claim::ring_level(f, kernel, self.run.slots, ring);
                let found =
                    FoundLine { words, position: head, number, tenant, permit, level, may_have_ended };
                self.light.attempt(f, self.run, found)
            },
            || f.lit(attempt::NEEDS_WINDOW),
        );
        f.when(took.eq(attempt::RAN), || {
            let next = head + 1u64;
            f.store(kernel.shared.heads.at(ring), next);
            f.store(kernel.shared.suspect.at(ring), 0);
            // The claim is stored before the tail. In the other order, a group could claim the task in between.
            f.atomic_store(Order::Relaxed, Scope::Device, far.router.route.at(claim_word(ring)), next);
            self.run.fences.move_frontier(f, ring, next);
            f.atomic_store(Order::Release, Scope::Device, far.router.route.at(tail_word(ring)), next);
        });
        f.when(took.eq(attempt::NEEDS_WINDOW), || {
            f.store(kernel.shared.heads.at(ring), end);
            f.atomic_store(Order::Release, Scope::Device, far.router.route.at(tail_word(ring)), end);
            claim::wake_groups(f, kernel);
        });
        f.when(took.eq(attempt::NOT_READY), || note_failed_check(f, kernel, ring));
    }
}

/// What the router knows of a ring without reading host memory.
#[derive(Clone, Copy)]
struct RouterRing<'b> {
    ring: U32<'b>,
    head: U64<'b>,
    /// The number of the slot at the head.
    number: U32<'b>,
    tenant: U32<'b>,
    /// The tenant's mask and quota, where they are read together with the line.
    rights: Option<Rights<'b>>,
    /// Whether the task at the head may have ended before the device was lost, if it can have.
    may_have_ended: Option<Val<'b, bool>>,
    /// Whether everything before the head has ended and its marks were followed, so that no group works on the ring.
    quiet: Val<'b, bool>,
}
