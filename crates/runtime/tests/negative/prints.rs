//! What tasks print, and tasks with unknown opcodes.

use pelton::kernel::SlotBody;
use pelton::protocol::FaultCode;
use pelton::{Opcode, SubmitError, Task};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    sixty_five_prints_into_sixty_four_records,
    a_log_that_is_read_in_time_loses_nothing,
    an_unknown_opcode_is_a_fault_and_never_done
];

/// Returns a task that prints a number and seven times that number.
fn print(k: u32) -> Task {
    Task::new(Opcode::PRINTF).args([1, k, k * 7])
}

/// Catches a record that is written without asking whether the host has read the one below it.
fn sixty_five_prints_into_sixty_four_records(on: &On) {
    for shape in shapes(on, ALL) {
        let session = launch(on, &shape.spec(256, 2).format("{} and {}"));
        let mut producer = session.producer(0).unwrap();
        let mut span = producer.submit_all((0..65).map(print)).unwrap();
        span.wait(soon()).unwrap();
        let kept: Vec<u32> = (0..65).filter(|k| span.result(*k as usize) == Some(Ok(1))).collect();
        assert_eq!(kept.len(), 64, "{shape}");
        assert_eq!(session.snapshot().unwrap().lost, 1, "{shape}");
        let mut lines = session.log().unwrap();
        let mut expected: Vec<String> = kept.iter().map(|k| format!("{k} and {}", k * 7)).collect();
        lines.sort();
        expected.sort();
        assert_eq!(lines, expected, "{shape}");
        // There is room again as soon as the log has been read.
        assert_eq!(run(&mut producer, print(100)), Ok(1), "{shape}");
        assert_eq!(session.log().unwrap(), ["100 and 700"], "{shape}");
        assert_eq!(session.snapshot().unwrap().lost, 1, "{shape}");
    }
}

/// Catches a kernel that is told too late that the log was read.
fn a_log_that_is_read_in_time_loses_nothing(on: &On) {
    for shape in shapes(on, ALL) {
        let session = launch(on, &shape.bare(128, 2).format("{} and {}"));
        let mut producer = session.producer(0).unwrap();
        let mut lines = 0;
        for round in 0..20 {
            let mut span = producer.submit_all((0..64).map(|k| print(round * 64 + k))).unwrap();
            assert_eq!(span.wait(soon()).unwrap().done, 64, "{shape}");
            lines += session.log().unwrap().len();
        }
        assert_eq!((lines, session.snapshot().unwrap().lost), (1280, 0), "{shape}");
    }
}

/// Catches a switch without a default, or one whose default ends as done.
fn an_unknown_opcode_is_a_fault_and_never_done(on: &On) {
    for shape in shapes(on, SOME) {
        for body in [SlotBody::Dispatch, SlotBody::Fused] {
            let session = launch(on, &shape.spec(64, 2).body(body));
            let mut producer = session.producer(0).unwrap();
            for code in [9, 30, 31, 32, 255, 0xffef, 0x1_0000, 0x7fff_ffff] {
                let end = run(&mut producer, Task::new(op(code)).args([1, 0]));
                assert_eq!(end, fault(FaultCode::UNKNOWN), "{shape}, {body:?}, {code:#x}");
            }
            assert_eq!(run(&mut producer, add(1, 0)), Ok(0), "{shape}: and what is known still runs");
            for later in [Opcode::DFA_STEP, Opcode::LOAD_MISS] {
                assert_eq!(producer.submit(Task::new(later)).err(), Some(SubmitError::NotImplemented(later)));
            }
            for code in [0xfff0, 0x8000_0000, Opcode::CANCEL.code(), Opcode::SHUTDOWN.code()] {
                let op = Opcode::from_code(code);
                assert_eq!(producer.submit(Task::new(op)).err(), Some(SubmitError::NotSubmittable(op)));
            }
            assert_eq!(session.snapshot().unwrap().occupancy.published, 0);
        }
    }
}
