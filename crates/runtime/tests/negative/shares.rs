//! How tenants share a kernel by weight, whatever the number of their producers and of their tasks.
//!
//! The interpreter is slow, so it gets far fewer tasks than devices that compile kernels.

use pelton::{Aim, Handler, Placement, Producer, Session, Spec, SubmitError, Task, Tenant};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    tasks_are_shared_by_weight_whatever_the_number_of_producers,
    a_tenant_that_had_no_tasks_has_saved_nothing_up,
    steps_are_shared_by_weight_with_a_million_tasks_of_another_tenant,
];

/// The tenant that has many producers.
const MANY: u32 = 0;
/// The tenant that has one producer.
const ONE: u32 = 1;

/// Whether a device interprets kernels, and gets few tasks for that reason.
fn is_interpreter(on: &On) -> bool {
    ["reference", "apart"].iter().any(|name| on.caps().name.starts_with(name))
}

/// Works for so many turns of a loop as its argument says, and then counts itself in element 0 of `data`.
fn work() -> Handler {
    Handler::lane_wide(|task| {
        let f = task.body();
        let turns = (f.lit(0u32), task.arg(0), f.lit(1u32));
        let x = f.range(turns, task.arg(0), |_, k, x| (x ^ k) * 1_664_525u32 + 1_013_904_223u32);
        task.atomic_add(0u32, 1u32);
        task.finish(x);
    })
}

/// How often the tenants with many producers and with one have counted in element 0 of `data`.
fn counts(session: &Session) -> [u64; 2] {
    [MANY, ONE].map(|tenant| session.view::<u32>(tenant, "data").unwrap().read(0, 1).unwrap()[0].into())
}

/// The share of the tenant with one producer in what was counted between two moments.
fn share_of_one(before: [u64; 2], after: [u64; 2]) -> f64 {
    let [many, one] = [0, 1].map(|tenant| (after[tenant] - before[tenant]) as f64);
    one / (many + one)
}

/// Adds the tenants to a spec, which have 16 producers and one producer.
fn with_tenants(spec: Spec, [many, one]: [u32; 2]) -> Spec {
    spec.tenant(Tenant::new(MANY).producers(16).weight(many)).tenant(Tenant::new(ONE).weight(one))
}

/// The producers of both tenants, the one of the second tenant last.
fn all_producers(session: &Session, aim: Aim) -> Vec<Producer> {
    let tenants = [vec![MANY; 16], vec![ONE]].concat();
    tenants.into_iter().map(|tenant| session.producer(tenant).unwrap().aim(aim)).collect()
}

/// Fills the rings while both tenants are paused: the tenant with many producers gets twice as many tasks as the other.
/// Then lets both run, and looks at the counters while both have tasks left. Returns the share of the tenant with one
/// producer.
fn share_of_full_rings(session: &Session, producers: &mut [Producer], (tasks, turns): (usize, u32)) -> f64 {
    let op = session.opcode("work").unwrap();
    loop {
        for tenant in [MANY, ONE] {
            session.pause_tenant(tenant).unwrap();
        }
        let start = counts(session);
        for producer in &mut *producers {
            let count = if producer.tenant() == MANY { tasks / 8 } else { tasks };
            drop(producer.submit_all(vec![Task::new(op).args([turns]); count]).unwrap());
        }
        for tenant in [MANY, ONE] {
            session.resume_tenant(tenant).unwrap();
        }
        let before = counts(session);
        let mut after = before;
        until("the tasks of a tenant have ended", || {
            let now = counts(session);
            let over = now[0] - start[0] == 2 * tasks as u64 || now[1] - start[1] == tasks as u64;
            after = if over { after } else { now };
            Ok(over)
        });
        session.quiesce(soon()).unwrap();
        // If this thread was not awake in time, too little was seen.
        if (0..2).map(|tenant| after[tenant] - before[tenant]).sum::<u64>() >= tasks as u64 * 3 / 4 {
            return share_of_one(before, after);
        }
    }
}

/// How many tasks a ring has, and how many turns of a loop each task takes.
fn ring_load(on: &On) -> (usize, u32) {
    if is_interpreter(on) { (256, 8) } else { (1024, 20_000) }
}

/// Launches a session of a shape whose groups take few tasks at once, and whose tenants have these weights.
fn launch_with_weights(on: &On, shape: Shape, weights: [u32; 2]) -> Session {
    let (tasks, _) = ring_load(on);
    let spec = with_tenants(shape.bare(tasks as u32, 1), weights).handler("work", work());
    let geometry = spec.geometry.clone().window(2);
    launch(on, &Spec { geometry, ..spec })
}

/// Catches rings that are served by producer in turn although tenants have weights: the tenant with 16 producers would
/// get 16 times the tasks of the other.
fn tasks_are_shared_by_weight_whatever_the_number_of_producers(on: &On) {
    for shape in shapes(on, SOME) {
        let aims = match shape.placement {
            Placement::Both => &[Aim::Latency, Aim::Throughput][..],
            _ => &[Aim::Choose],
        };
        for weights in [[1, 1], [1, 3]] {
            let session = launch_with_weights(on, shape, weights);
            let right = f64::from(weights[1]) / f64::from(weights[0] + weights[1]);
            for aim in aims {
                let mut producers = all_producers(&session, *aim);
                let share = share_of_full_rings(&session, &mut producers, ring_load(on));
                assert!((share - right).abs() < 0.05, "{shape}, {weights:?}, {aim:?}: the share is {share}");
            }
        }
    }
}

/// Catches a tenant that is served alone for as long as it had no tasks before, because its time stood still.
fn a_tenant_that_had_no_tasks_has_saved_nothing_up(on: &On) {
    let (tasks, turns) = ring_load(on);
    for shape in shapes(on, &[near(1), far(8)]) {
        let session = launch_with_weights(on, shape, [1, 1]);
        let mut producers = all_producers(&session, Aim::Choose);
        let op = session.opcode("work").unwrap();
        for producer in &mut producers[..16] {
            drop(producer.submit_all(vec![Task::new(op).args([turns]); tasks]).unwrap());
        }
        session.quiesce(soon()).unwrap();
        let share = share_of_full_rings(&session, &mut producers, (tasks, turns));
        assert!((share - 0.5).abs() < 0.05, "{shape}: the share is {share}");
    }
}

/// Takes as many steps as its argument says, and counts each in element 0 of `data`. Without an argument, it goes on
/// until element 1 is set.
fn steps() -> Handler {
    Handler::lane_wide(|task| {
        let (f, taken) = (task.body(), task.frame_word());
        task.atomic_add(0u32, 1u32);
        taken.store(taken.load() + 1);
        let endless = task.arg(0).eq(0) & task.load(1).eq(0);
        f.when(endless | taken.load().lt(task.arg(0)), || task.yield_now());
        task.finish(0);
    })
}

/// Catches queues of cells in which a tenant's share grows with its tasks: of a million tasks of the tenant with 16
/// producers, thousands wait at any time, and the other tenant has a few that wait.
fn steps_are_shared_by_weight_with_a_million_tasks_of_another_tenant(on: &On) {
    const STEPS: u32 = 12;
    const BATCH: usize = 32;
    let batches = if is_interpreter(on) { 50 } else { 1_000_000 / BATCH };
    for shape in shapes(on, &[near(1), far(32)]) {
        let spec = with_tenants(shape.bare(256, 1), [1, 1]).cells(256).handler("steps", steps());
        let session = launch(on, &spec);
        let op = session.opcode("steps").unwrap();
        let mut producers = all_producers(&session, Aim::Choose);
        let mut one = producers.pop().unwrap();
        let mut few = one.submit_all([Task::new(op).args([0]); 64]).unwrap();
        until("the tasks of one tenant take steps", || Ok(counts(&session)[1] > 640));
        let before = counts(&session);
        let mut left = batches;
        while left > 0 {
            for producer in &mut producers {
                match producer.submit_all([Task::new(op).args([STEPS]); BATCH]) {
                    Ok(_) => left = left.saturating_sub(1),
                    Err(SubmitError::NoCells { .. } | SubmitError::Full { .. }) => std::thread::yield_now(),
                    Err(error) => panic!("{shape}: {error}"),
                }
            }
        }
        let half = (batches * BATCH) as u64 * u64::from(STEPS) / 2;
        until("half of the many tasks took their steps", || Ok(counts(&session)[0] > half));
        let share = share_of_one(before, counts(&session));
        assert!(share >= 0.45, "{shape}: the share is {share}");
        session.view::<u32>(ONE, "data").unwrap().write(1, &[1]).unwrap();
        assert_eq!(few.wait(soon()).unwrap().done, 64, "{shape}");
        session.quiesce(soon()).unwrap();
    }
}
