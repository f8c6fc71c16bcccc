//! Near and far rings in one session: one thread feeds as much as it can while another waits for single tasks.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pelton::{Aim, Deadline, Opcode, Placement, Producer, Session, Spec, Task, device};

type Fail = Box<dyn Error + Send + Sync>;

/// Feeds batches until it is told to end, and returns how many tasks it has fed.
fn flood(mut producer: Producer, task: Task, over: &AtomicBool) -> Result<u32, Fail> {
    let mut fed = 0;
    loop {
        let mut span = producer.submit_all([task; 256])?;
        fed += span.wait(Duration::from_secs(10))?.done;
        if over.load(Ordering::Relaxed) {
            return Ok(fed);
        }
    }
}

/// Submits tasks one by one, and returns how long each took, in ascending order.
fn singles(mut producer: Producer, task: Task, count: u32) -> Result<Vec<Duration>, Fail> {
    let mut times = Vec::new();
    for round in 0..count {
        let start = Instant::now();
        assert_eq!(producer.submit(task)?.wait(Duration::from_secs(10))?, round);
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times)
}

fn main() -> Result<(), Fail> {
    let device = device::open("auto")?;
    // Ask for both kinds of rings where the device can have them.
    let placement = Placement::Both.is_available(device.caps()).then_some(Placement::Both);
    let session = Session::launch(&device, &Spec { placement, ..Spec::default().producers(2) })?;
    let many = session.producer(0)?.aim(Aim::Throughput).patience(Deadline::Never);
    let one = session.producer(0)?.aim(Aim::Latency);
    let [to_0, to_1] = [0, 1].map(|word| Task::new(Opcode::ATOMIC_ADD).args([1, word]));
    let over = AtomicBool::new(false);
    let (fed, times) = thread::scope(|scope| {
        let feeder = scope.spawn(|| flood(many, to_0, &over));
        let times = singles(one, to_1, 10_000);
        over.store(true, Ordering::Relaxed);
        (feeder.join(), times)
    });
    let (fed, times) = (fed.map_err(|_| "the feeder ended early")??, times?);
    // Every task ran once, in whichever ring it was.
    assert_eq!(session.view::<u32>(0, "data")?.read(0, 2)?, [fed, 10_000]);
    println!("{fed} tasks in batches; single ones beside them: p50 {:?}, p99 {:?}", times[5000], times[9900]);
    session.stop()?;
    Ok(())
}
