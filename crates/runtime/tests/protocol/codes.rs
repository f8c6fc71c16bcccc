//! Tests of the numbers and names of statuses, priorities, opcodes and fault codes.

use std::collections::HashSet;

use pelton::protocol::fault;
use pelton::protocol::opcode::{self, RESERVED};
use pelton::protocol::{FaultCode, Malformed, Opcode, Priority, Status, TaskFault};

#[test]
fn statuses_and_priorities_have_their_numbers() {
    let names: Vec<&str> = (0..10).map(|code| Status::from_code(code).unwrap().name()).collect();
    assert_eq!(names.join(" "), "EMPTY PUBLISHED CLAIMED DONE WAIT_IO YIELD REQUEUE FAULT CANCELLED LOST");
    assert_eq!(Status::from_code(10), None);
    let names: Vec<&str> = (0..5).map(|code| Priority::from_code(code).unwrap().name()).collect();
    assert_eq!(names.join(" "), "CRITICAL HIGH NORMAL LOW IDLE");
    assert_eq!(Priority::from_code(5), None);
}

#[test]
fn names_read_back() {
    for &priority in Priority::ALL {
        assert_eq!(priority.to_string().parse(), Ok(priority));
        assert_eq!(priority.name().to_lowercase().parse(), Ok(priority));
    }
    let error = "urgent".parse::<Priority>().unwrap_err();
    assert_eq!(error.to_string(), "there is no priority \"urgent\"");
    for row in opcode::TABLE {
        assert_eq!(Opcode::from_name(&row.opcode.to_string()), Some(row.opcode));
    }
    assert_eq!(Opcode::from_name("JUMP"), None);
}

#[test]
fn opcodes_have_their_numbers_once() {
    let codes: HashSet<u32> = opcode::TABLE.iter().map(|row| row.opcode.code()).collect();
    assert_eq!(codes.len(), opcode::TABLE.len());
    let known = [0, 1, 2, 3, 4, 5, 6, 7, 0xfffd, 0xfffe, 0x8000_0001, 0xffff_ffff];
    assert!(known.iter().all(|code| codes.contains(code)));
    assert_eq!(Opcode::COMPARE_SWAP.builtin_arity(), Some(3));
    assert_eq!(Opcode::from_code(8).builtin_arity(), None);
}

#[test]
fn every_built_in_opcode_is_reserved_and_the_rest_are_free() {
    for row in opcode::TABLE {
        assert_eq!(Opcode::user(row.opcode.code()), Err(Malformed::Reserved(row.opcode)));
    }
    for &(first, last) in RESERVED {
        assert!(Opcode::user(first).is_err() && Opcode::user(last).is_err());
    }
    for free in [8, 255, 0xffef, 0x1_0000, 0x7fff_ffff] {
        assert_eq!(Opcode::user(free).map(Opcode::code), Ok(free));
    }
    assert_eq!(
        Opcode::user(0xfff3).unwrap_err().to_string(),
        "opcode 0xfff3 is reserved, as are all of 0x0-0x7, 0xfff0-0xffff, 0x80000000-0xffffffff"
    );
}

#[test]
fn opcodes_print_by_name_or_number() {
    assert_eq!(Opcode::MEMCPY.to_string(), "MEMCPY");
    assert_eq!(Opcode::from_code(0x4242).to_string(), "0x4242");
}

#[test]
fn a_mask_has_a_bit_each_up_to_30_and_one_for_the_rest() {
    assert_eq!(Opcode::NOP.mask_bit(), 1);
    assert_eq!(Opcode::from_code(30).mask_bit(), 1 << 30);
    for rest in [31, 32, 0xfffe, 0xffff_ffff] {
        assert_eq!(Opcode::from_code(rest).mask_bit(), 1 << 31);
    }
}

#[test]
fn fault_codes_are_the_protocols_or_a_handlers() {
    for code in 1..=9 {
        assert_eq!(FaultCode::from_code(code).map(FaultCode::code), Some(code));
        assert_eq!(FaultCode::user(code), Err(Malformed::Fault(code)));
    }
    for none in [0, 10, 0xff, 0x100_0000, u32::MAX] {
        assert_eq!(FaultCode::from_code(none), None);
        assert_eq!(FaultCode::user(none), Err(Malformed::Fault(none)));
    }
    assert_eq!(FaultCode::user(0x100).unwrap().to_string(), "0x100");
    assert_eq!(FaultCode::FUEL.to_string(), "fuel");
    assert_eq!(
        FaultCode::user(6).unwrap_err().to_string(),
        "fault code 0x6 is reserved: handlers have 0x100 to 0xffffff"
    );
}

#[test]
fn a_packed_fault_says_which_operation() {
    let fault = TaskFault { code: FaultCode::REGION, inner: 22 };
    assert_eq!(fault.word(), 0x1600_0002);
    assert_eq!(TaskFault::from_word(0x1600_0002), Some(fault));
    assert_eq!(TaskFault::from_word(0x1600_0000), None);
    assert_eq!(
        fault.to_string(),
        "it accessed memory outside its tenant's region (fault 2), in inner operation 22"
    );
}

#[test]
fn every_fault_says_what_it_means() {
    for (code, name, _) in fault::TABLE {
        let text = TaskFault { code: *code, inner: 0 }.to_string();
        assert!(
            text.ends_with(&format!(" (fault {})", code.code())) && text.len() > name.len() + 10,
            "{text}"
        );
    }
    let own = TaskFault { code: FaultCode::user(0x100).unwrap(), inner: 0 };
    assert_eq!(own.to_string(), "its handler ended with fault 0x100");
}
