//! Tests of drained batches, byte by byte.

use pelton::protocol::drained::{self, BatchEntry};
use pelton::protocol::{Opcode, Priority, Slot, Status};
use proptest::prelude::*;

/// The bytes of two slots, written by hand.
#[rustfmt::skip]
const RING: [u8; 128] = [
    0x01, 0x00, 0x00, 0x00,   0x02, 0x00, 0x00, 0x00,   0x05, 0x00, 0x00, 0x00,   0x01, 0x00, 0x00, 0x00,
    0x0a, 0x00, 0x00, 0x00,   0x40, 0x00, 0x00, 0x00,   0x00, 0x00, 0x00, 0x00,   0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00,   0x00, 0x00, 0x00, 0x00,   0x00, 0x00, 0x00, 0x00,   0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00,   0x00, 0x00, 0x00, 0x00,   0x00, 0x00, 0x00, 0x00,   0x00, 0x00, 0x00, 0x00,

    0x07, 0x00, 0x00, 0x00,   0x01, 0x00, 0x00, 0x80,   0x1c, 0x00, 0x00, 0x00,   0x04, 0x00, 0x00, 0x00,
    0x03, 0x02, 0x01, 0x00,   0x07, 0x06, 0x05, 0x04,   0x0b, 0x0a, 0x09, 0x08,   0x0f, 0x0e, 0x0d, 0x0c,
    0x13, 0x12, 0x11, 0x10,   0x17, 0x16, 0x15, 0x14,   0x1b, 0x1a, 0x19, 0x18,   0x1f, 0x1e, 0x1d, 0x1c,
    0x23, 0x22, 0x21, 0x20,   0x27, 0x26, 0x25, 0x24,   0x2b, 0x2a, 0x29, 0x28,   0xff, 0xff, 0xff, 0xff,
];

fn entries() -> [BatchEntry; 2] {
    [
        BatchEntry {
            status: Status::Published,
            opcode: Opcode::ATOMIC_ADD,
            tenant: 5,
            priority: Priority::High,
            args: [10, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        },
        BatchEntry {
            status: Status::Fault,
            opcode: Opcode::PACKED_SLOT,
            tenant: 28,
            priority: Priority::Idle,
            args: [
                0x0001_0203,
                0x0405_0607,
                0x0809_0a0b,
                0x0c0d_0e0f,
                0x1011_1213,
                0x1415_1617,
                0x1819_1a1b,
                0x1c1d_1e1f,
                0x2021_2223,
                0x2425_2627,
                0x2829_2a2b,
                u32::MAX,
            ],
        },
    ]
}

fn read(words: &[u32]) -> Result<Vec<BatchEntry>, String> {
    drained::decode_ring(words).and_then(Iterator::collect).map_err(|error| error.to_string())
}

#[test]
fn a_ring_has_exactly_these_bytes() {
    let words = drained::encode_ring(&entries());
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(bytes, RING);
    let slots: Vec<u8> = entries().iter().flat_map(|entry| entry.encode().bytes()).collect();
    assert_eq!(slots, RING);
}

#[test]
fn these_bytes_are_exactly_that_ring() {
    assert_eq!(read(&drained::words_from_bytes(&RING).unwrap()).unwrap(), entries());
    assert_eq!(read(&[]).unwrap(), []);
}

#[test]
fn malformed_words_are_named() {
    let broken = |at: usize, value: u32| {
        let mut words = drained::encode_ring(&[entries()[0]; 4]);
        words[at] = value;
        read(&words).unwrap_err()
    };
    assert_eq!(broken(48, 0x109), "slot 3: word 0 (status) is 0x109, bits 8-31 must be zero");
    assert_eq!(broken(16, 9), "slot 1: word 0 (status) is 0x9, which is not the status of a slot");
    assert_eq!(broken(0, 8), "slot 0: word 0 (status) is 0x8, which is not the status of a slot");
    assert_eq!(broken(34, 29), "slot 2: word 2 (tenant) is 0x1d, and tenants are 0 to 28");
    assert_eq!(broken(3, 5), "slot 0: word 3 (priority) is 0x5, and priorities are 0 to 4");
}

#[test]
fn short_rings_are_refused() {
    let error = drained::words_from_bytes(&RING[..100]).unwrap_err();
    assert_eq!(error.to_string(), "ring is 100 bytes, not a whole number of 64-byte slots");
    assert_eq!(read(&[0; 17]).unwrap_err(), "ring is 68 bytes, not a whole number of 64-byte slots");
}

proptest! {
    #[test]
    fn any_words_are_an_entry_or_an_error(words: [u32; 16], small: bool) {
        let words = if small { words.map(|word| word % 10) } else { words };
        if let Ok(entry) = BatchEntry::decode(&Slot(words), 0) {
            prop_assert_eq!(entry.encode(), Slot(words));
        } else {
            prop_assert!(words[0] > 7 || words[2] > 28 || words[3] > 4);
        }
    }
}
