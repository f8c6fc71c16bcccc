//! Tests of slots, lines, checks, generations and records.

use pelton::LossReason;
use pelton::protocol::record::TaskEnd;
use pelton::protocol::slot::{self, GENERATION_MASK};
use pelton::protocol::{
    CompletionRecord, FaultCode, Malformed, Opcode, Priority, Slot, Status, TaskFault, WirePlace,
};
use proptest::prelude::*;

/// Computes the check once more, bit by bit: bit b of word k is counted in bit (b + k) mod 32.
fn by_bits(words: &[u32; 16]) -> u32 {
    let mut sum = 0;
    for (k, word) in words.iter().enumerate().filter(|(k, _)| *k != 2) {
        for b in 0..32 {
            sum ^= (word >> b & 1) << ((b + k) % 32);
        }
    }
    sum
}

proptest! {
    #[test]
    fn the_check_of_a_line_is_that_of_its_words(words: [u32; 16]) {
        let slot = Slot(words);
        let mut line = slot.line();
        prop_assert_eq!(slot::slot_check(&words), by_bits(&words));
        prop_assert_eq!(slot::line_check(&line), slot::slot_check(&words));
        slot::seal_line(&mut line);
        prop_assert!(slot::is_sealed(&line) && Slot::from(line).is_sealed());
        let sealed = Slot::from(line).0;
        for k in (0..16).filter(|k| *k != 2) {
            prop_assert_eq!(sealed[k], words[k]);
        }
    }

    #[test]
    fn one_wrong_bit_breaks_the_check(words: [u32; 16], bit in 0usize..512) {
        let mut line = Slot(words).line();
        slot::seal_line(&mut line);
        line[bit / 64] ^= 1 << (bit % 64);
        prop_assert!(!slot::is_sealed(&line));
    }

    #[test]
    fn a_line_is_a_slot_and_bytes(words: [u32; 16]) {
        let slot = Slot(words);
        prop_assert_eq!(Slot::from(slot.line()), slot);
        let bytes: Vec<u8> = slot.line().iter().flat_map(|pair| pair.to_le_bytes()).collect();
        prop_assert_eq!(&slot.bytes()[..], &bytes[..]);
    }

    #[test]
    fn records_are_read_back(value: u32, code in 1u32..0x1000, inner: u8, generation in 0..=GENERATION_MASK) {
        let fault = FaultCode::from_code(code).map(|code| TaskEnd::Fault(TaskFault { code, inner }));
        for end in [Some(TaskEnd::Done(value)), fault, Some(TaskEnd::Cancelled { steps: value })].into_iter().flatten() {
            let record = CompletionRecord::new(end, generation);
            prop_assert_eq!(record.end(), Ok(end));
            prop_assert_eq!(record.generation(), generation);
            prop_assert!(record.has_generation(generation) && !record.has_generation(generation ^ 1));
        }
    }
}

#[test]
fn a_word_moved_to_another_place_breaks_the_check() {
    let args = std::array::from_fn(|k| 0x1234_5678 + k as u32);
    let slot = Slot::from(slot::published_line(3, Opcode::ATOMIC_ADD, Priority::High, &args));
    assert!(slot.is_sealed());
    for k in 4..15 {
        let mut moved = slot;
        moved.0.swap(k, k + 1);
        assert!(!moved.is_sealed(), "words {k} and {}", k + 1);
    }
}

#[test]
fn a_live_slot_says_what_it_was_made_of() {
    let args = std::array::from_fn(|k| k as u32);
    let slot = Slot::from(slot::published_line(0xab_cdef, Opcode::from_code(0x1234), Priority::Idle, &args));
    assert_eq!(slot.0[0], 0xabcd_ef01);
    assert_eq!(slot.0[1], 0x1234);
    assert_eq!(slot.0[3], 4);
    assert_eq!(
        (slot.generation(), slot.opcode(), *slot.args()),
        (0xab_cdef, Opcode::from_code(0x1234), args)
    );
}

#[test]
fn generations_count_laps_modulo_2_to_the_24() {
    assert_eq!(slot::generation_at(4095, 12), 0);
    assert_eq!(slot::generation_at(4096, 12), 1);
    assert_eq!(slot::generation_at((1 << 36) - 1, 12), 0xff_ffff);
    assert_eq!(slot::generation_at(1 << 36, 12), 0);
    assert_eq!(slot::generation_at(u64::MAX, 0), 0xff_ffff);
    assert_eq!(slot::generation_at(u64::MAX, 64), 0);
    assert_eq!(slot::status_word(Status::Published, 0xff_ffff), 0xffff_ff01);
    assert_eq!(slot::status_word(Status::Done, 0x100_0002), 0x0000_0203);
}

#[test]
fn a_record_that_was_never_written_is_of_no_generation() {
    assert!(!CompletionRecord::default().has_generation(0));
    assert!(CompletionRecord::new(TaskEnd::Done(0), 0).has_generation(0));
}

#[test]
fn wrong_records_name_the_word() {
    let wrong = |word, name, value, why| Malformed::Word { place: WirePlace::Record, word, name, value, why };
    let ended = "which is not the status of a task that has ended";
    assert_eq!(CompletionRecord(1).end(), Err(wrong(0, "STATUS", 1, ended)));
    assert_eq!(CompletionRecord(10).end(), Err(wrong(0, "STATUS", 10, ended)));
    assert_eq!(CompletionRecord(9).end(), Err(wrong(1, "VALUE", 0, "which is not a reason for a loss")));
    assert_eq!(CompletionRecord(10 << 32 | 7).end(), Err(wrong(1, "VALUE", 10, "which is not a fault code")));
    let text = CompletionRecord(10 << 32 | 7).end().unwrap_err().to_string();
    assert_eq!(text, "completion record: word 1 (value) is 0xa, which is not a fault code");
    assert_eq!(CompletionRecord(2 << 32 | 9).end(), Ok(TaskEnd::Lost(LossReason::Trap)));
    assert_eq!(CompletionRecord(6 << 32 | 9).end(), Ok(TaskEnd::Lost(LossReason::Quarantine)));
    assert!(CompletionRecord(7 << 32 | 9).end().is_err());
    assert_eq!(CompletionRecord(5 << 32 | 8).end(), Ok(TaskEnd::Cancelled { steps: 5 }));
}
