//! What a simulated host submits: kinds of tasks, each with what it must come to.
//!
//! A new kind is a row of [`KINDS`]. Its handler marks the element of the region `data` that its first argument names once per run, and does something
//! for a while afterwards, so that losses strike in the middle. Marks lie in the memory of the device, which the simulator
//! also reads after the device was lost. So it knows how often every task has run.

use pelton::ir::types::{Order, Scope, Type};
use pelton::kernel::HandlerBody;
use pelton::{Claim, Class, Geometry, Handler, Placement, Priority, Recovery, Region, Spec, Tenant};

use crate::random::Random;
use crate::world::LEASE;

/// How many tasks of a tenant have a number of their own. No other buffer has as many words as this for all tenants.
pub(crate) const TASKS: u32 = 13 * 64;
/// How many tenants there are.
pub(crate) const TENANTS: u32 = 2;
/// How many shapes of sessions there are.
const SHAPES: u64 = 60;
/// The most bytes of a payload and of a reply.
pub(crate) const BYTES: u32 = 24;

/// A task as the simulated host wants it.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) kind: &'static Kind,
    /// The number of the task among all that the program was asked for, in all of its processes.
    pub(crate) number: u64,
    /// The number of the task among those of its tenant in this process.
    pub(crate) id: u32,
    /// Something that the result depends on.
    pub(crate) value: u32,
    /// For how many turns the task does something after it has marked that it runs.
    pub(crate) turns: u32,
    pub(crate) payload: Vec<u8>,
    pub(crate) priority: Priority,
}

/// How a task ends if nothing goes wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expected {
    Result(u32, Vec<u8>),
    Fault,
}

/// A kind of tasks.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    handler: fn() -> Handler,
    pub(crate) expected: fn(&Job) -> Expected,
    pub(crate) brings_payload: bool,
}

/// Every kind of tasks.
pub(crate) static KINDS: &[Kind] = &[
    Kind { name: "restart", class: Class::Restart, handler: mix, expected: mixed, brings_payload: false },
    Kind { name: "once", class: Class::Once, handler: mix, expected: mixed, brings_payload: false },
    Kind { name: "commuting", class: Class::Commuting, handler: mix, expected: mixed, brings_payload: false },
    Kind {
        name: "idempotent",
        class: Class::Idempotent,
        handler: mix,
        expected: mixed,
        brings_payload: false,
    },
    Kind { name: "wide", class: Class::Restart, handler: wide, expected: mixed, brings_payload: false },
    Kind { name: "wide_once", class: Class::Once, handler: wide, expected: mixed, brings_payload: false },
    Kind { name: "faulty", class: Class::Restart, handler: faulty, expected: fault, brings_payload: false },
    Kind { name: "echo", class: Class::Restart, handler: echo, expected: echoed, brings_payload: true },
    Kind { name: "echo_once", class: Class::Once, handler: echo, expected: echoed, brings_payload: true },
];

/// Marks that the task runs, and then does something for a while.
fn run_for_a_while(task: &HandlerBody<'_>) {
    let f = task.body();
    f.atomic_add(Order::Relaxed, Scope::Device, task.data().at(task.arg(0)), 1u32);
    f.range((f.lit(0), task.arg(2), f.lit(1)), (), |_, at, ()| {
        f.store(task.region::<u32>("scratch").at(at & 7), at);
    });
}

fn mix() -> Handler {
    Handler::lane_wide(|task| {
        run_for_a_while(&task);
        task.finish((task.arg(1) * 0x9e37_79b9) ^ 0x2545_f491);
    })
}

fn wide() -> Handler {
    Handler::group_wide(|group| {
        let f = group.body();
        f.when(f.lane().eq(0), || {
            f.atomic_add(Order::Relaxed, Scope::Device, group.data().at(group.arg(0)), 1u32);
        });
        f.barrier();
        group.finish((group.arg(1) * 0x9e37_79b9) ^ 0x2545_f491);
    })
}

fn faulty() -> Handler {
    Handler::lane_wide(|task| {
        run_for_a_while(&task);
        task.fault(7);
    })
}

fn echo() -> Handler {
    Handler::lane_wide(|task| {
        let f = task.body();
        run_for_a_while(&task);
        let (payload, reply) = (task.payload(), task.reply());
        f.range((f.lit(0), f.len(payload), f.lit(1)), (), |_, at, ()| {
            f.store(reply.at(at), f.load(payload.at(at)) ^ 0x5a5a_5a5a);
        });
        task.set_reply_len(task.payload_len());
        task.finish((task.arg(1) * 0x9e37_79b9) ^ 0x2545_f491);
    })
}

fn mixed_result(job: &Job) -> u32 {
    job.value.wrapping_mul(0x9e37_79b9) ^ 0x2545_f491
}

fn mixed(job: &Job) -> Expected {
    Expected::Result(mixed_result(job), Vec::new())
}

fn echoed(job: &Job) -> Expected {
    Expected::Result(mixed_result(job), job.payload.iter().map(|byte| byte ^ 0x5a).collect())
}

fn fault(_: &Job) -> Expected {
    Expected::Fault
}

/// The shape of a session: what its kernel is assembled from.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) spec: Spec,
    kinds: Vec<&'static Kind>,
    levels: &'static [Priority],
}

impl Shape {
    /// Chooses a shape. There are not many of them, because optimizing their kernels takes most of the time.
    pub(crate) fn random(random: &mut Random) -> Shape {
        Shape::numbered(random.below(SHAPES))
    }

    fn numbered(number: u64) -> Shape {
        let random = &mut Random::new(number, 1000);
        let placement = random.pick(&[Placement::Near, Placement::Far, Placement::Both]);
        let lanes = random.pick(&[1, 1, 2, 4]);
        let groups = if placement == Placement::Both { 3 } else { 2 };
        let geometry = Geometry::new(random.pick(&[4, 8, 16])).lanes(lanes).groups(groups);
        let mut spec = Spec::new(geometry)
            .placement(placement)
            .recovery(Recovery::On)
            .lease(LEASE)
            .region(Region::new("data", Type::U32, TASKS))
            .region(Region::new("scratch", Type::U32, 8))
            .tenant(Tenant::new(0).producers(2))
            .tenant(Tenant::new(1).quota(10_000));
        let mut levels: &'static [Priority] = &[Priority::Normal];
        if random.one_in(3) {
            spec = spec.claim(Claim::PRIORITY);
            levels = &[Priority::Critical, Priority::Normal, Priority::Idle];
        }
        let payloads = random.one_in(3);
        if payloads {
            spec = spec.payload(BYTES).reply(BYTES);
        }
        // Fewer handlers are assembled faster, and it is the mix over many seeds that counts.
        let usable: Vec<&'static Kind> =
            KINDS.iter().filter(|kind| payloads || !kind.brings_payload).collect();
        let mut kinds: Vec<&'static Kind> = (0..3).map(|_| random.pick(&usable)).collect();
        kinds.sort_by_key(|kind| kind.name);
        kinds.dedup_by_key(|kind| kind.name);
        for kind in &kinds {
            spec = spec.handler(kind.name, (kind.handler)().class(kind.class));
        }
        Shape { spec, kinds, levels }
    }

    /// Makes a random task with these numbers.
    pub(crate) fn job(&self, random: &mut Random, number: u64, id: u32) -> Job {
        let kind = random.pick(&self.kinds);
        let length = if kind.brings_payload { random.below(u64::from(BYTES) + 1) } else { 0 };
        Job {
            kind,
            number,
            id,
            value: random.bits() as u32,
            turns: random.pick(&[0, 1, 20]),
            payload: (0..length).map(|_| random.bits() as u8).collect(),
            priority: random.pick(self.levels),
        }
    }

    /// Returns whether tasks of the session may bring payloads.
    pub(crate) fn has_payloads(&self) -> bool {
        self.spec.payload > 0
    }
}
