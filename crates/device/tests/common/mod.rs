//! What tests of devices share.
#![allow(dead_code, unused_macros)]

use std::sync::{Arc, Mutex};

use libtest_mimic::Trial;
use pelton_device::{Device, Launch, Memory, MemoryKind, WordWidth, open};
use pelton_ir::text::{self, ColorMode};
use pelton_ir::types::{Len, Space};
use pelton_ir::valid::{Valid, validate};

/// A test of a device, with its name.
pub(crate) type Test = (&'static str, fn(&str));

/// Functions with their names.
macro_rules! named {
    ($($test:ident),* $(,)?) => {
        &[$((stringify!($test), $test)),*]
    };
}

/// A test of a device, ignored where there is no such device. Tests of a GPU come one after the other: one that keeps a
/// kernel resident would keep the others from loading theirs.
pub(crate) fn trial((name, test): Test, device: &'static str) -> Trial {
    static GPU: Mutex<()> = Mutex::new(());
    let absent = open(device).is_err();
    let run = move || {
        let turn = device.contains("cuda").then(|| GPU.lock());
        test(device);
        drop(turn);
        Ok(())
    };
    Trial::test(format!("{name}@{device}"), run).with_ignored_flag(absent)
}

/// A valid module.
pub(crate) fn module(source: &str) -> Valid {
    let module = text::parse(source).unwrap_or_else(|list| {
        panic!("{}", text::render_diagnostics("test", source, &list, ColorMode::Plain))
    });
    validate(module)
        .unwrap_or_else(|invalid| panic!("{}", invalid.report("test", Some(source), ColorMode::Plain)))
}

/// Memory for every buffer of a module: as declared, or of `len` words.
pub(crate) fn memory(device: &Arc<dyn Device>, module: &Valid, len: usize) -> Vec<Option<Memory>> {
    let decls = module.buffers.iter().map(|(_, decl)| decl);
    decls
        .map(|decl| {
            let width = WordWidth::of(decl.elem);
            let kind = if decl.space == Space::Host { MemoryKind::Host } else { MemoryKind::Device };
            let len = match decl.len {
                Len::Fixed(len) => len as usize,
                Len::Launch => len,
            };
            (decl.space != Space::Shared).then(|| device.alloc(kind, width, len).unwrap())
        })
        .collect()
}

/// A launch with its memory.
pub(crate) fn launch(groups: u32, buffers: &[Option<Memory>]) -> Launch {
    Launch { buffers: buffers.to_vec(), ..Launch::new(groups) }
}

/// What 32-bit memory holds.
pub(crate) fn words(memory: &Option<Memory>) -> Vec<u32> {
    let memory = memory.as_ref().unwrap();
    let mut words = vec![0; memory.len()];
    memory.download(0, &mut words).unwrap();
    words
}

/// Shared memory, barriers in a loop, uniform and varying carried values, a value that lives across a barrier.
pub(crate) const SUM: &str = "
buffer data: [u32; ?] global read_write
buffer part: [u32; 64] shared read_write
kernel sum {
  %lane = lane
  %lanes = lanes
  %group = group
  %base = mul %group, %lanes
  %at = add %base, %lane
  %x = load @data[%at]
  store @part[%lane], %x
  barrier
  %half: u32, %last: u32 = while with %width = %lanes, %seen = %x {
    %more = gt %width, 1
    yield %more
  } do {
    %up = add %width, 1
    %next = shr %up, 1
    %low = sub %width, %next
    %mine = lt %lane, %low
    %sum: u32 = if %mine {
      %there = add %lane, %next
      %a = load @part[%lane]
      %b = load @part[%there]
      %c = add %a, %b
      yield %c
    } else {
      yield %seen
    }
    barrier
    if %mine {
      store @part[%lane], %sum
    }
    barrier
    yield %next, %sum
  }
  %total = load @part[0]
  barrier
  store @data[%at], %total
}
";

/// A resident kernel that answers words until it is stopped.
pub(crate) const ECHO: &str = "
buffer ask: [u32; 1] host read
buffer answer: [u32; 1] host write
kernel echo {
  forever with %last = 0, %idle = 0 {
    %x = atomic_load acquire system @ask[0]
    %new = ne %x, %last
    %next: u32 = if %new {
      atomic_store release system @answer[0], %x
      yield 0
    } else {
      %wait = min %idle, 1000
      %ns = mul %wait, 1000
      backoff %ns
      %more = add %idle, 1
      yield %more
    }
    yield %x, %next
  }
}
";
