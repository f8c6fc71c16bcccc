//! Tenants share a kernel and nothing else: the kernel keeps their memory, opcodes and credit apart.

use std::error::Error;
use std::time::Duration;

use pelton::protocol::fault::FaultCode;
use pelton::{Error as SessionError, Opcode, Session, Spec, Task, TaskError, Tenant, device};

fn main() -> Result<(), Box<dyn Error>> {
    // Green has 16 words and may do everything; red has 4, may only add, and has credit for 100 tasks.
    let spec = Spec::default()
        .tenant(Tenant::new(0).name("green").size("data", 16))
        .tenant(Tenant::new(1).name("red").size("data", 4).allow(&[Opcode::ATOMIC_ADD]).quota(100));
    let session = Session::launch(&device::open("auto")?, &spec)?;
    let (mut green, mut red) = (session.producer(0)?, session.producer(1)?);
    let soon = Duration::from_secs(10);

    // The same index means a different word for each tenant.
    green.submit(Task::new(Opcode::STORE_U32).args([7, 3]))?.wait(soon)?;
    red.submit(Task::new(Opcode::ATOMIC_ADD).args([1, 3]))?.wait(soon)?;
    assert_eq!(session.view::<u32>(0, "data")?.read(3, 1)?, [7]);
    assert_eq!(session.view::<u32>(1, "data")?.read_all()?, [0, 0, 0, 1]);

    // An access beyond a tenant's own memory does nothing, and a task that is not allowed does not run.
    for (task, code) in [
        (Task::new(Opcode::ATOMIC_ADD).args([1, 4]), FaultCode::REGION),
        (Task::new(Opcode::STORE_U32).args([1, 0]), FaultCode::DENIED),
    ] {
        match red.submit(task)?.wait(soon) {
            Err(TaskError::Fault(fault)) if fault.code == code => println!("red, {}: {fault}", task.op),
            other => panic!("expected {code}, found {other:?}"),
        }
    }
    assert_eq!(session.view::<u32>(1, "data")?.read_all()?, [0, 0, 0, 1]);

    // Red has had 3 tasks. Of 100 more, 97 run; the rest wait for credit, and green is not held up.
    let mut span = red.submit_all((0..100).map(|_| Task::new(Opcode::ATOMIC_ADD).args([1, 0])))?;
    green.submit(Task::new(Opcode::NOP))?.wait(soon)?;
    match session.quiesce(Duration::from_millis(200)) {
        Err(SessionError::Late { left }) => println!("red is out of credit: {left} tasks wait"),
        other => panic!("expected 3 tasks to wait, found {other:?}"),
    }
    assert_eq!(session.credit(1)?, Some(0));
    session.grant(1, 10)?;
    assert_eq!(span.wait(soon)?.done, 100);
    println!("red has credit for {:?} more", session.credit(1)?);
    // A right that is taken away no longer holds for the very next task.
    session.allow(1, &[Opcode::NOP])?;
    let end = red.submit(Task::new(Opcode::ATOMIC_ADD).args([1, 0]))?.wait(soon);
    assert!(matches!(end, Err(TaskError::Fault(fault)) if fault.code == FaultCode::DENIED));
    for tenant in session.snapshot()?.tenants {
        println!("{}: {} tasks", tenant.name, tenant.count);
    }
    Ok(())
}
