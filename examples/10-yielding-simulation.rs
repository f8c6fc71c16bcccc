//! A long simulation that gives way: the same task with one long step, and with many short ones between which urgent
//! tasks run.

use std::error::Error;
use std::time::{Duration, Instant};

use pelton::{Geometry, Handler, Opcode, Session, Spec, Task, device};

const SEED: u32 = 1;
const GENERATIONS: u32 = 50_000_000;

/// Runs one simulation, of so many generations per step, and meanwhile urgent tasks one by one. Returns how long each of
/// these took, in ascending order.
fn urgent_times(session: &Session, per_step: u32, right: u32) -> Result<Vec<Duration>, Box<dyn Error>> {
    let (long, mut producer) = (Duration::from_secs(60), session.producer(0)?);
    let task = Task::new(session.opcode("simulate")?).args([SEED, GENERATIONS, per_step]);
    let (mut simulation, mut times) = (producer.submit(task)?, Vec::new());
    while !simulation.has_ended() {
        let start = Instant::now();
        producer.submit(Task::new(Opcode::MEMCPY).args([0, 8, 8]))?.wait(long)?;
        times.push(start.elapsed());
    }
    assert_eq!(simulation.wait(long)?, right);
    times.sort();
    Ok(times)
}

fn main() -> Result<(), Box<dyn Error>> {
    // Rule 30, on a circle of 32 cells: a cell lives next if its left neighbour differs from "it or its right one lives".
    // Arguments: the first generation, how many more there are, and how many of them one step computes.
    let simulate = Handler::lane_wide(|task| {
        let (f, circle, left) = (task.body(), task.frame_word(), task.frame_word());
        task.step(|| {
            circle.store(task.arg(0));
            left.store(task.arg(1));
        });
        task.step(|| {
            let count = f.min(left.load(), task.arg(2));
            let (none, one) = (f.lit(0u32), f.lit(1u32));
            circle.store(f.range((none, count, one), circle.load(), |_, _, now| {
                (now << 1 | now >> 31) ^ (now | (now >> 1 | now << 31))
            }));
            left.store(left.load() - count);
            f.when(left.load().ne(0), || task.yield_now()); // gives way, and then runs this step again
        });
        task.finish(circle.load());
    });
    // One group, so that nobody else can run the urgent tasks. Fuel bounds one step, not the whole task.
    let spec = Spec::new(Geometry::new(256).groups(1)).fuel(u32::MAX).cells(4).handler("simulate", simulate);
    let session = Session::launch(&device::open("auto")?, &spec)?;
    let right = (0..GENERATIONS).fold(SEED, |now, _| now.rotate_left(1) ^ (now | now.rotate_right(1)));
    for (name, per_step) in [("one long step", GENERATIONS), ("1000 generations per step", 1000)] {
        let times = urgent_times(&session, per_step, right)?;
        let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
        println!("{name}: {} urgent tasks meanwhile, median {median:?}, worst {worst:?}", times.len());
    }
    println!("{}", session.snapshot()?.cells.ok_or("the kernel has a resumable handler")?.steps);
    Ok(())
}
