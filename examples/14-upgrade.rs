//! An upgrade under load: a handler is replaced while tasks run, and those that have begun go on with the new version.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pelton::{Deadline, Handler, Session, Spec, Task, device};

/// Adds up argument 0 as often as argument 1 says: version 1 once per step, version 2 all that is left. Their frames mean
/// the same. Element 0 of `data` counts tasks that have begun, and elements 1 and 2 those that these versions have ended.
fn add_up(version: u32) -> Handler {
    let handler = Handler::lane_wide(|task| {
        let (f, sum, times) = (task.body(), task.frame_word(), task.frame_word());
        f.when(times.load().eq(0), || _ = task.atomic_add(0, 1));
        let now = if version == 1 { f.lit(1) } else { task.arg(1) - times.load() };
        sum.store(sum.load() + task.arg(0) * now);
        times.store(times.load() + now);
        f.when(times.load().lt(task.arg(1)), || task.yield_now());
        task.atomic_add(version, 1);
        task.finish(sum.load());
    });
    handler.takes_over(version == 2)
}

fn main() -> Result<(), Box<dyn Error>> {
    let spec = Spec::default().producers(4).handler("add_up", add_up(1));
    let session = Session::launch(&device::open("auto")?, &spec)?;
    let (op, data) = (session.opcode("add_up")?, session.view::<u32>(0, "data")?);
    // With version 1, this task would take four billion steps. It has begun before version 2 comes.
    let mut endless = session.producer(0)?.submit(Task::new(op).args([1, u32::MAX]))?;
    while data.read(0, 1)? != [1] {}
    let over = AtomicBool::new(false);
    let feed = || {
        let mut producer = session.producer(0).expect("there is one for each thread");
        let (mut tasks, mut longest) = (0, Duration::ZERO);
        while !over.load(Ordering::Relaxed) {
            let (start, batch) = (Instant::now(), (tasks..tasks + 16).map(|k| Task::new(op).args([k, 3000])));
            let mut span = producer.submit_all(batch).expect("it runs");
            span.wait(Deadline::Never).expect("it goes on");
            assert!(span.results().eq((tasks..tasks + 16).map(|k| Ok(k.wrapping_mul(3000)))));
            (tasks, longest) = (tasks + 16, longest.max(start.elapsed()));
        }
        (tasks, longest)
    };
    let [a, b, c] = thread::scope(|scope| {
        let feeders = [(); 3].map(|()| scope.spawn(feed));
        thread::sleep(Duration::from_millis(50));
        let upgraded = session.replace("add_up", add_up(2), Deadline::Never);
        thread::sleep(Duration::from_millis(50));
        over.store(true, Ordering::Relaxed);
        upgraded.map(|()| feeders.map(|feeder| feeder.join().expect("every result is right")))
    })?;
    assert_eq!(endless.wait(Deadline::Never)?, u32::MAX, "version 2 has taken it over");
    let (tasks, longest) = (1 + a.0 + b.0 + c.0, a.1.max(b.1).max(c.1));
    let (begun, ended_by) = (data.read(0, 1)?[0], data.read(1, 2)?);
    assert_eq!([begun, ended_by[0] + ended_by[1]], [tasks; 2], "each task ran once");
    println!("versions 1 and 2 ended {ended_by:?} tasks; the longest time between results was {longest:?}");
    Ok(())
}
