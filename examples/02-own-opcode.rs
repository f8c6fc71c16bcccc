//! Handlers of your own, in Rust and as text: both are programs of one language, and run on every device.

use std::error::Error;
use std::time::Duration;

use pelton::{Handler, Session, Spec, Task, device};

/// Counts the steps of the Collatz sequence until it reaches 1. A sequence that leaves `u32` ends with fault 5, "arguments".
const COLLATZ: &str = "\
buffer arg: [u32; 12] global read

fn collatz() -> u32 {
  %n = load @arg[0]
  %end: u32, %steps: u32 = while with %x = %n, %s = 0 {
    %more = gt %x, 1
    yield %more
  } do {
    %odd = and %x, 1
    %half = shr %x, 1
    %large = gt %x, 0x55555554
    %is = ne %odd, 0
    %leaves = and %is, %large
    if %leaves {
      fault 5
      return 0
    }
    %triple = mul %x, 3
    %up = add %triple, 1
    %next = select %is, %up, %half
    %t = add %s, 1
    yield %next, %t
  }
  return %steps
}
";

fn main() -> Result<(), Box<dyn Error>> {
    // The closure runs once, now, and writes down a function: data[at] = min(data[at] + by, most).
    let clamp = Handler::lane_wide(|task| {
        let (at, by, most) = (task.arg(0), task.arg(1), task.arg(2));
        let sum = task.body().min(task.load(at) + by, most);
        task.store(at, sum);
        task.finish(sum);
    });
    let spec = Spec::default().handler("clamp", clamp).handler("collatz", Handler::from_text(COLLATZ));
    let session = Session::launch(&device::open("auto")?, &spec)?;
    let mut producer = session.producer(0)?;
    let mut run = |task: Task| producer.submit(task).map(|mut t| t.wait(Duration::from_secs(10)));

    // Opcodes are looked up once; tasks are then plain values.
    let (clamp, collatz) = (session.opcode("clamp")?, session.opcode("collatz")?);
    for expected in [40, 80, 100] {
        assert_eq!(run(Task::new(clamp).args([3, 40, 100]))??, expected);
    }
    let steps = run(Task::new(collatz).args([27]))??;
    println!("27 takes {steps} steps");
    assert_eq!(steps, 111);
    println!("0x7fffffff: {}", run(Task::new(collatz).args([0x7fff_ffff]))?.unwrap_err());
    Ok(())
}
