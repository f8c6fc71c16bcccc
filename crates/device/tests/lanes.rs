//! How the CPU splits a group into loops over lanes, and where it takes sixteen at a time: held against the reference.

mod common;

use pelton_device::cpu::{Cpu, CpuConfig};
use pelton_device::{Device, Launch, Memory, MemoryKind, WordWidth, open};
use pelton_ir::types::{Len, Space};

/// Runs a kernel over words that depend on their place; gives what all buffers hold afterwards.
fn run(device: &dyn Device, source: &str, lanes: u32, groups: u32, len: usize) -> Vec<Vec<u32>> {
    let module = common::module(source);
    let kernel = device.load(&module, None, lanes).unwrap();
    let mut launch = Launch::new(groups);
    for (_, decl) in module.buffers.iter() {
        let len = match decl.len {
            Len::Fixed(len) => len as usize,
            Len::Launch => len,
        };
        launch.buffers.push((decl.space != Space::Shared).then(|| {
            let memory = device.alloc(MemoryKind::Device, WordWidth::W32, len).unwrap();
            let words: Vec<u32> =
                (0..len as u32).map(|x| x.wrapping_mul(0x9e37_79b1).rotate_left(9)).collect();
            memory.upload(0, &words).unwrap();
            memory
        }));
    }
    kernel.launch(&launch).unwrap().wait(None).unwrap();
    let read = |memory: &Memory| {
        let mut words = vec![0; memory.len()];
        memory.download(0, &mut words).unwrap();
        words
    };
    launch.buffers.iter().flatten().map(read).collect()
}

fn agree(source: &str, lens: &[usize]) {
    let reference = open("reference:1").unwrap();
    let cpus = [true, false]
        .map(|simd| Cpu::new(CpuConfig { threads: Some(2), simd, ..CpuConfig::default() }).unwrap());
    for lanes in [1, 2, 15, 16, 17, 31, 32, 33, 48, 64] {
        for groups in [1, 3] {
            for len in lens {
                let expect = run(&*reference, source, lanes, groups, *len);
                for cpu in &cpus {
                    let found = run(cpu, source, lanes, groups, *len);
                    assert_eq!(found, expect, "{groups} groups of {lanes} lanes over {len} words:\n{source}");
                }
            }
        }
    }
}

/// Consecutive accesses that are in range, partly in range and out of it, at an offset that may wrap.
#[test]
fn vectors_at_the_edge_of_a_buffer() {
    for offset in ["0", "1", "7", "4294967290"] {
        agree(
            &format!(
                "
buffer in: [u32; ?] global read
buffer out: [u32; ?] global read_write
kernel main {{
  %lane = lane
  %lanes = lanes
  %group = group
  %base = mul %group, %lanes
  %at = add %base, %lane
  %there = add %at, {offset}
  %x = load @in[%there]
  %a = mul %x, 2654435761
  %b = shr %x, 7
  %c = xor %a, %b
  %d = rotl %c, 11
  %e = popcount %d
  %f = add %d, %e
  %g = sub %at, 3
  store @out[%g], %f
}}
"
            ),
            &[1, 5, 16, 40, 200],
        );
    }
}

/// Signed and float arithmetic, comparisons, masks and selects over lanes.
#[test]
fn vectors_of_every_kind() {
    agree(
        "
buffer in: [u32; ?] global read
buffer out: [u32; ?] global read_write
buffer real: [f32; ?] global read_write
kernel main {
  %lane = lane
  %x = load @in[%lane]
  %i = cast i32 %x
  %j = shr %i, 3
  %k = abs %j
  %l = max %i, %k
  %m = neg %l
  %neg = lt %i, 0i32
  %big = gt %x, 0x40000000
  %both = and %neg, %big
  %not = not %both
  %p = select %not, %l, %m
  %f = cast f32 %p
  %g = mul %f, 0.25
  %h = sub %g, 1.5
  %q = sqrt %h
  %r = max %q, %g
  %s = floor %r
  %nan = ne %q, %q
  %t = select %nan, 0.0, %s
  store @real[%lane], %t
  %u = bitcast u32 %q
  %w = bitcast u32 %p
  %y = xor %u, %w
  %z = min %y, %x
  store @out[%lane], %z
}
",
        &[16, 64],
    );
}

/// A counted loop over lanes, with values carried across a barrier before and after.
#[test]
fn vectors_in_loops_and_across_barriers() {
    agree(
        "
buffer data: [u32; ?] global read_write
buffer part: [u32; 64] shared read_write
kernel main {
  %lane = lane
  %lanes = lanes
  %group = group
  %base = mul %group, %lanes
  %at = add %base, %lane
  %x = load @data[%at]
  %n = add %group, 5
  %h: u32, %s: u32 = loop %k = 0 to %n step 1 with %a = %x, %b = 1 {
    %c = xor %a, %k
    %d = mul %c, 0x01000193
    %e = add %b, %d
    %up = add %k, %lane
    %f = add %e, %up
    yield %f, %d
  }
  store @part[%lane], %h
  barrier
  %last = sub %lanes, 1
  %other = sub %last, %lane
  %y = load @part[%other]
  %z = add %y, %s
  %sum = reduce_add %z
  %low = reduce_min %z
  %w = xor %sum, %low
  store @data[%at], %w
}
",
        &[7, 64, 200],
    );
}

/// Lanes that return, break and continue by themselves while the group goes on.
#[test]
fn lanes_that_leave_by_themselves() {
    agree(
        "
buffer data: [u32; ?] global read_write
buffer part: [u32; 64] shared read_write
kernel main {
  %lane = lane
  %lanes = lanes
  %group = group
  %base = mul %group, %lanes
  %at = add %base, %lane
  %x = load @data[%at]
  %flag = and %x, 3
  %odd = eq %flag, 1
  %first: u32 = loop ^turns %k = 0 to 3 step 1 with %a = %x {
    store @part[%lane], %a
    barrier
    %next = add %lane, 1
    %from = rem %next, %lanes
    %y = load @part[%from]
    barrier
    if %odd {
      continue ^turns %y
    }
    %z = add %y, %k
    store @data[%at], %z
    yield %z
  }
  %even = eq %group, 1
  %r: u32 = block ^out {
    if %even {
      barrier
      if %odd {
        break ^out %first
      }
      %one = add %first, 1
      store @data[%at], %one
    }
    %two = add %first, 2
    store @data[%at], %two
    yield %two
  }
  barrier
  %three = eq %flag, 3
  if %even {
    if %three {
      return
    }
    %four = mul %r, 5
    store @data[%at], %four
  }
  %five = add %r, %lane
  store @part[%lane], %five
  %six = load @part[%lane]
  store @data[%at], %six
}
",
        &[64, 200],
    );
}

/// Subgroups that go different ways, and one that leaves.
#[test]
fn subgroups_that_part() {
    agree(
        "
buffer data: [u32; ?] global read_write
kernel main {
  %lane = lane
  %lanes = lanes
  %group = group
  %base = mul %group, %lanes
  %at = add %base, %lane
  %x = load @data[%at]
  %sub = subgroup
  %second = eq %sub, 1
  %r: u32 = block ^out {
    if %second {
      %m = reduce_max %x
      %small = lt %m, 0xf0000000
      if %small {
        break ^out %m
      }
      %b = add %m, %lane
      yield
    }
    %s = reduce_xor %x
    %lead = elect
    %bits = ballot %lead
    %t = add %s, %bits
    yield %t
  }
  %p = shuffle %r, 3
  %odd = and %x, 1
  %is = ne %odd, 0
  %count = ballot %is
  %n = popcount %count
  if %second {
    return
  }
  %q = reduce_add %p
  %v = add %q, %n
  store @data[%at], %v
}
",
        &[64, 200],
    );
}
