//! Tests of resumable tasks in sessions, on every device of this machine and in every placement.

use std::sync::Arc;
use std::time::Duration;

use pelton::device::{Device, open};
use pelton::kernel::Handler;
use pelton::{
    Claim, Deadline, Geometry, Opcode, Placement, Session, Spec, SubmitError, Task, TaskError, Tenant,
};

/// Long enough for anything that ends at all.
const LONG: Duration = Duration::from_secs(60);

/// Returns the devices of this machine.
fn devices() -> Vec<Arc<dyn Device>> {
    let gpu = open("cuda").is_ok().then_some("cuda");
    ["cpu", "reference"].into_iter().chain(gpu).map(|name| open(name).unwrap()).collect()
}

/// Runs a test on every device, in every placement that the device has, with groups of one lane and of several.
fn everywhere(spec: impl Fn(Spec) -> Spec, test: impl Fn(&Session, &str)) {
    for device in devices() {
        for placement in [Placement::Near, Placement::Far, Placement::Both] {
            for lanes in [Some(1), Some(32), None] {
                let mut geometry = Geometry::new(256).groups(3);
                geometry.lanes = lanes;
                let shape = format!("{} {placement:?} {lanes:?} lanes", device.caps().name);
                let session = match Session::launch(&device, &spec(Spec::new(geometry).placement(placement)))
                {
                    Ok(session) => session,
                    Err(pelton::Error::Refused(error)) if error.to_string().contains("placement") => continue,
                    Err(error) => panic!("{shape}: {error}"),
                };
                test(&session, &shape);
            }
        }
    }
}

/// Yields as often as its first argument says, and gives the sum of the numbers of its steps and its second argument.
fn countdown() -> Handler {
    Handler::lane_wide(|task| {
        let (f, left, sum) = (task.body(), task.frame_word(), task.frame_word());
        task.step(|| left.store(task.arg(0)));
        task.step(|| {
            let now = left.load();
            f.when(now.ne(0), || {
                sum.store(sum.load() + now);
                left.store(now - 1);
                task.yield_now();
            });
        });
        task.finish(sum.load() + task.arg(1));
    })
}

/// The same for all lanes of a group together.
fn group_countdown() -> Handler {
    Handler::group_wide(|group| {
        let (f, left, sum) = (group.body(), group.frame_word(), group.frame_word());
        group.step(|| left.store(group.arg(0)));
        group.step(|| {
            let now = left.load();
            f.when(now.ne(0), || {
                sum.store(sum.load() + now);
                left.store(now - 1);
                group.yield_now();
            });
        });
        group.finish(sum.load() + group.arg(1));
    })
}

/// What `countdown` gives.
fn countdown_result(yields: u32, add: u32) -> u32 {
    yields * (yields + 1) / 2 + add
}

#[test]
fn tasks_that_yield_end_with_their_results() {
    let spec = |spec: Spec| {
        spec.cells(64)
            .handler("countdown", countdown())
            .handler("group", group_countdown())
            .handler("plain", Handler::lane_wide(|task| task.finish(task.arg(0) + 1)))
    };
    everywhere(spec, |session, shape| {
        let op = |name| session.opcode(name).unwrap();
        let mut producer = session.producer(0).unwrap().patience(LONG);
        for lap in 0..3u32 {
            let mut tickets = Vec::new();
            for k in 0..60u32 {
                let (times, name) = ((k * 7 + lap) % 23, ["countdown", "plain", "group"][k as usize % 3]);
                let right = if name == "plain" { times + 1 } else { countdown_result(times, k) };
                tickets.push((producer.submit(Task::new(op(name)).args([times, k])).unwrap(), right));
            }
            for (ticket, right) in &mut tickets {
                assert_eq!(ticket.wait(LONG), Ok(*right), "{shape}");
            }
        }
        session.quiesce(LONG).unwrap();
    });
    let _ = (
        Deadline::Now,
        Opcode::NOP,
        SubmitError::NotSubmittable(Opcode::NOP),
        TaskError::Late,
        Tenant::new(0),
        Claim::Owned,
    );
}
