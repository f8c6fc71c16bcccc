//! Tests of packed slots with every number of operations and argument words, against the rules stated in another way.

use pelton::protocol::packed::{InnerOp, Packed, PackedError, decode_packed};
use pelton::protocol::{Malformed, Opcode};
use proptest::prelude::*;

/// Returns the arity of an opcode: opcode k takes k arguments up to 6, and k - 8 arguments from 8 to 12. All others
/// are unknown.
fn arity(op: u8) -> Option<u32> {
    match op {
        0..=6 => Some(op.into()),
        7 => Some(0),
        8..=12 => Some(u32::from(op) - 8),
        _ => None,
    }
}

fn words(bytes: &[u8; 48]) -> [u32; 12] {
    std::array::from_fn(|k| u32::from_le_bytes(bytes[4 * k..4 * k + 4].try_into().unwrap()))
}

/// States the rules on bytes: pairs and arguments lie apart within 48 bytes, and every argument lies within its area.
fn legal(bytes: &[u8; 48]) -> bool {
    let (n, a) = (usize::from(bytes[0]), usize::from(bytes[1]));
    let pairs_end = 2 + 2 * n;
    let mut area = pairs_end;
    while area % 4 != 0 {
        area += 1;
    }
    let end = area + 4 * a;
    if n < 1 || pairs_end > 48 || end > 48 {
        return false;
    }
    bytes[2..pairs_end].chunks(2).all(|pair| {
        let first = area + 4 * usize::from(pair[1]);
        pair[0] != 7 && arity(pair[0]).is_some_and(|count| first + 4 * count as usize <= end)
    })
}

/// Returns the bytes of a packed slot whose operations are all the same and have the same offset.
fn uniform(n: u8, a: u8, op: u8, offset: u8) -> [u8; 48] {
    let mut bytes = [0; 48];
    (bytes[0], bytes[1]) = (n, a);
    for pair in bytes[2..].chunks_exact_mut(2).take(n.into()) {
        pair.copy_from_slice(&[op, offset]);
    }
    bytes
}

#[test]
fn every_n_and_a_is_judged_as_the_rules_say() {
    let mut legals = 0;
    for n in 0..=255u8 {
        for a in 0..=255u8 {
            for op in [0, 2, 7, 13] {
                for offset in [0, a.wrapping_sub(2), a.wrapping_sub(1), a, 255] {
                    let bytes = uniform(n, a, op, offset);
                    let read = decode_packed(&words(&bytes), arity);
                    assert_eq!(read.is_ok(), legal(&bytes), "n {n} a {a} op {op} offset {offset}: {read:?}");
                    if let Ok(inner) = read {
                        assert_eq!(inner.len(), usize::from(n));
                        let at = (2 + 2 * n).div_ceil(4) + offset;
                        assert!(inner.iter().all(|inner| *inner == InnerOp { op, at }));
                        legals += 1;
                    }
                }
            }
        }
    }
    assert!(legals > 300, "only {legals} legal ones were met");
}

proptest! {
    #[test]
    fn any_bytes_are_judged_as_the_rules_say(
        n in 0u8..26, a in 0u8..14, rest in prop::array::uniform32(0u8..14),
    ) {
        let mut bytes = [0; 48];
        (bytes[0], bytes[1]) = (n, a);
        bytes[2..34].copy_from_slice(&rest);
        prop_assert_eq!(decode_packed(&words(&bytes), arity).is_ok(), legal(&bytes));
    }

    #[test]
    fn what_is_packed_is_read_back(ops in prop::collection::vec((0u8..13, any::<[u32; 6]>()), 1..30)) {
        let mut packed = Packed::new();
        let mut put = Vec::new();
        let known = |op: u8| Opcode::from_code(op.into()).builtin_arity().or(arity(op));
        for (op, values) in &ops {
            let args = &values[..known(*op).unwrap_or(0) as usize];
            if packed.push(Opcode::from_code((*op).into()), args).is_ok() {
                put.push((*op, args));
            }
        }
        prop_assume!(!put.is_empty());
        let words = packed.encode().unwrap();
        let inner = decode_packed(&words, known).unwrap();
        prop_assert_eq!(inner.len(), put.len());
        for (inner, (op, args)) in inner.iter().zip(&put) {
            let at = usize::from(inner.at);
            prop_assert_eq!(inner.op, *op);
            prop_assert_eq!(&words[at..at + args.len()], *args);
        }
    }
}

#[test]
fn the_bytes_are_as_the_page_says() {
    let mut packed = Packed::new();
    packed.push(Opcode::STORE_U32, &[0x0a0b_0c0d, 9]).unwrap();
    packed.push(Opcode::ATOMIC_ADD, &[1, 2]).unwrap();
    assert_eq!(packed.encode().unwrap(), [0x0001_0402, 0x0000_0202, 0x0a0b_0c0d, 9, 1, 2, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn as_many_fit_as_may() {
    let mut packed = Packed::new();
    for _ in 0..23 {
        packed.push(Opcode::NOP, &[]).unwrap();
    }
    let full = packed;
    let error = packed.push(Opcode::NOP, &[]).unwrap_err();
    assert_eq!(error.to_string(), "packed slot takes 13 words, but there is room for 12");
    assert_eq!(packed, full);
    assert_eq!(decode_packed(&packed.encode().unwrap(), arity).unwrap().len(), 23);
}

#[test]
fn what_cannot_be_packed_is_refused() {
    let mut packed = Packed::new();
    for op in [Opcode::BATCH_FENCE, Opcode::PRINTF, Opcode::PACKED_SLOT, Opcode::from_code(256)] {
        let error = packed.push(op, &[]).unwrap_err();
        assert_eq!(error, Malformed::Packed(PackedError::Opcode { inner: 0, op }));
    }
    let error = packed.push(Opcode::STORE_U32, &[1]).unwrap_err();
    assert_eq!(error.to_string(), "STORE_U32 takes 2 arguments, not 1");
    assert_eq!(packed.encode(), Err(Malformed::Packed(PackedError::Count { n: 0 })));
}

#[test]
fn broken_rules_are_named() {
    let why = |bytes| decode_packed(&words(&bytes), arity).unwrap_err().to_string();
    assert_eq!(why(uniform(24, 0, 0, 0)), "packed slot: it has 24 inner operations, but 1 to 23 are allowed");
    assert_eq!(
        why(uniform(3, 11, 0, 0)),
        "packed slot: it has 11 argument words starting at word 2, but the slot has 12"
    );
    assert_eq!(
        why(uniform(1, 2, 7, 0)),
        "packed slot: inner operation 0 is BATCH_FENCE, which cannot be packed"
    );
    assert_eq!(
        why(uniform(1, 2, 2, 1)),
        "packed slot: inner operation 0 takes 2 arguments at offset 1, but there are 2 words"
    );
}
