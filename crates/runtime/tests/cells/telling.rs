//! What a session says of resumable tasks.

use std::time::Duration;

use pelton::{Error, Task, TaskState};

use crate::{LONG, everywhere, with_handlers};

#[test]
fn a_task_that_was_not_adopted_counts_once() {
    everywhere(with_handlers, |session, shape| {
        let op = |name| session.opcode(name).unwrap();
        let mut producer = session.producer(0).unwrap().patience(LONG);
        session.pause_tenant(0).unwrap();
        let resumable = producer.submit_all([Task::new(op("countdown")).args([3, 0]); 5]).unwrap();
        let plain = producer.submit_all([Task::new(op("plain")).args([1]); 3]).unwrap();
        let late = session.quiesce(Duration::from_millis(5));
        assert!(matches!(late, Err(Error::Late { left: 8 })), "{shape}: {late:?}");
        session.resume_tenant(0).unwrap();
        session.quiesce(LONG).unwrap();
        drop((resumable, plain));
    });
}

#[test]
fn the_state_of_a_task_of_another_session_is_refused() {
    everywhere(with_handlers, |session, shape| {
        let mut producer = session.producer(0).unwrap();
        let mut ticket = producer.submit(Task::new(session.opcode("waits").unwrap()).args([1, 2])).unwrap();
        let other = pelton::Session::launch(&pelton::device::open("cpu").unwrap(), &session.spec()).unwrap();
        let state = other.task_state(&mut ticket);
        assert!(matches!(state, Err(Error::OtherSession)), "{shape}: {state:?}");
        assert!(session.task_state(&mut ticket).is_ok(), "{shape}");
        ticket.resume();
        assert_eq!(ticket.wait(LONG), Ok(2), "{shape}");
        assert!(matches!(session.task_state(&mut ticket), Ok(TaskState::Ended)), "{shape}");
        let ended = other.task_state(&mut ticket);
        assert!(matches!(ended, Err(Error::OtherSession)), "{shape}: {ended:?}");
    });
}
