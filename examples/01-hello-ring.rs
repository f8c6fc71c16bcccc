//! Hello, ring: a kernel is launched once and fed while it runs.

use std::error::Error;
use std::time::Duration;

use pelton::{Opcode, Session, Spec, Task, device};

fn main() -> Result<(), Box<dyn Error>> {
    // The best device that this machine has, and a kernel with the built-in opcodes.
    let device = device::open("auto")?;
    let session = Session::launch(&device, &Spec::default())?;

    // A producer feeds it for a tenant. Each task adds 5 to word 7 of the tenant's data; its result is what the word held before.
    let mut producer = session.producer(0)?;
    for round in 0..3 {
        let mut ticket = producer.submit(Task::new(Opcode::ATOMIC_ADD).args([5, 7]))?;
        let before = ticket.wait(Duration::from_secs(10))?;
        println!("task {round} found {before}");
        assert_eq!(before, round * 5);
    }

    // Many tasks that are submitted at once have one span instead of many tickets, and wake the kernel once.
    let mut span = producer.submit_all((0..1000).map(|k| Task::new(Opcode::STORE_U32).args([k * k, k])))?;
    assert_eq!(span.wait(Duration::from_secs(10))?.done, 1000);
    assert_eq!(session.view::<u32>(0, "data")?.read(30, 3)?, [900, 961, 1024]);

    println!("{}", session.snapshot()?);
    assert_eq!(session.stop()?.tasks_left(), 0);
    Ok(())
}
