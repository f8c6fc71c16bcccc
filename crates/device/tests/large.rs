//! Buffers beyond 4 GiB: byte offsets have more than 32 bits, and the largest buffer ends where indices do.
//!
//! The memory is not touched where no access goes, so each test takes a few pages of what it maps.

mod common;

use common::{launch, module, words};
use pelton_device::{Device, Memory, MemoryKind, WordWidth, open};
use pelton_ir::limits::MAX_LEN;

/// Lanes that go over the end of a buffer of 2^32 - 1 elements, the last of them around to its start.
const EDGE: &str = "
buffer big: [u32; LEN] global read_write
buffer from: [u32; 1] global read
buffer out: [u32; 32] global write
buffer bytes: [u32; 32] global write
buffer wide: [u32; 32] global write

kernel write {
  %i = lane
  %from = load @from[0]
  %at = add %from, %i
  %x = mul %at, 0x01010101
  store @big[%at], %x
}

kernel read {
  %i = lane
  %from = load @from[0]
  %at = add %from, %i
  %x = load @big[%at]
  store @out[%i], %x
}

kernel byte {
  %i = lane
  %from = load @from[0]
  %at = add %from, %i
  %x = load_byte @big[%at], 3
  store @bytes[%i], %x
}

kernel wide {
  %i = lane
  %from = load @from[0]
  %at = add %from, %i
  %p, %q, %r, %s = load_wide relaxed device @big[%at]
  store @wide[%i], %q
}
";

/// Memory of a device for the buffers of [`EDGE`].
fn memory(device: &dyn Device, from: u32, big: &Memory) -> Vec<Option<Memory>> {
    let small = |len| device.alloc(MemoryKind::Device, WordWidth::W32, len).unwrap();
    let start = small(1);
    start.upload(0, &[from]).unwrap();
    vec![Some(big.clone()), Some(start), Some(small(32)), Some(small(32)), Some(small(32))]
}

/// Runs a kernel with 32 lanes.
fn run(device: &dyn Device, source: &str, kernel: &str, buffers: &[Option<Memory>]) {
    let kernel = device.load(&module(source), Some(kernel), 32).unwrap();
    kernel.run(&launch(1, buffers)).unwrap();
}

/// What lanes find that write and read over an end: those beyond it nothing.
fn over_the_end(name: &str, source: &str, len: u64) {
    let device = open(name).unwrap();
    let big = device.alloc(MemoryKind::Device, WordWidth::W32, len as usize).unwrap();
    let from = (len - 20) as u32;
    let buffers = memory(&*device, from, &big);
    for kernel in ["write", "read", "byte", "wide"] {
        run(&*device, source, kernel, &buffers);
    }
    let index = |i: u32| from.wrapping_add(i);
    let value = |at: u32| if u64::from(at) < len { at.wrapping_mul(0x0101_0101) } else { 0 };
    let expected: Vec<u32> = (0..32).map(|i| value(index(i))).collect();
    assert!(expected.contains(&0) && expected.iter().any(|x| *x != 0));
    assert_eq!(words(&buffers[2]), expected, "words on {name}");
    let bytes: Vec<u32> = expected.iter().map(|x| x >> 24).collect();
    assert_eq!(words(&buffers[3]), bytes, "bytes on {name}");
    // What lanes wrote before the first index or after the last is 0, and so is all of 16 bytes that are not all there.
    let written = |at: u32| if at.wrapping_sub(from) < 32 { value(at) } else { 0 };
    let pieces: Vec<u32> = (0..32)
        .map(|i| index(i) & !3)
        .map(|first| if u64::from(first | 3) < len { written(first | 1) } else { 0 })
        .collect();
    assert_eq!(words(&buffers[4]), pieces, "pieces on {name}");
    // An offset of 32 bits would have come around to here.
    for shift in [32, 31, 30] {
        let wrapped = (u64::from(from) * 4 % (1 << shift)) as usize / 4;
        if wrapped + 20 < from as usize {
            let mut found = [0u32; 8];
            big.download(wrapped + 12, &mut found).unwrap();
            assert_eq!(found, [0u32; 8], "offsets on {name} end at {shift} bits");
        }
    }
}

#[test]
fn the_largest_buffer_ends_where_indices_do() {
    for name in ["cpu", "reference"] {
        over_the_end(name, &EDGE.replace("LEN", &MAX_LEN.to_string()), MAX_LEN);
    }
}

#[test]
fn a_buffer_beyond_4_gib_whose_length_is_bound_at_launch() {
    for name in ["cpu", "reference"] {
        over_the_end(name, &EDGE.replace("LEN", "?"), (1 << 30) + 4099);
    }
}
