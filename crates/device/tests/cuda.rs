//! What is particular to NVIDIA's GPUs. Where there is none all are ignored but those that say so.

#[macro_use]
mod common;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial, run};
use pelton_device::cuda::{self, Cuda, CudaConfig, MixNode};
use pelton_device::{
    Device, DeviceError, Launch, LaunchOutcome, Memory, MemoryKind, Retry, WordWidth, names, open,
};

use common::{ECHO, SUM, Test, launch, memory, module, trial, words};

const TESTS: &[Test] = named![
    a_device_says_what_it_is,
    memory_goes_while_a_kernel_stays,
    host_memory_that_comes_back_is_zero,
    code_is_not_loaded_while_a_kernel_stays,
    more_groups_than_fit_are_refused_if_they_may_wait,
    code_is_kept_on_disk,
    faults_are_told_with_their_place,
    launches_follow_each_other_in_one_place,
    nodes_of_a_graph_wait_for_those_they_depend_on,
];

/// Those of near memory, ignored where there is none.
const NEAR: &[Test] = named![
    near_memory_is_copied_and_takes_lines,
    lines_reach_a_kernel_that_stays,
    near_memory_goes_while_a_kernel_stays,
];

fn main() -> ExitCode {
    let mut all: Vec<Trial> = TESTS.iter().map(|test| trial(*test, "cuda")).collect();
    let near = open("cuda").is_ok_and(|device| device.caps().near_memory.is_ok());
    all.extend(NEAR.iter().map(|test| trial(*test, "cuda").with_ignored_flag(!near)));
    all.push(Trial::test("no_gpu_is_an_ordinary_answer", || {
        no_gpu_is_an_ordinary_answer();
        Ok(())
    }));
    run(&Arguments::from_args(), all).exit_code()
}

/// Whatever this machine has: an answer, never a panic, and the same from all who ask.
fn no_gpu_is_an_ordinary_answer() {
    let count = cuda::count();
    for name in ["cuda", "cuda:0", "cuda:4294967295"] {
        match (open(name), &count) {
            (Ok(_), count) => assert!(matches!(count, Ok(1..))),
            (Err(DeviceError::Absent { why, .. }), _) => assert!(!why.is_empty()),
            (Err(error), count) => assert!(matches!(count, Ok(1..)), "{error}"),
        }
    }
    assert!(matches!(open("cuda:4294967295"), Err(DeviceError::Absent { .. })));
    assert!(open("cuda:x").unwrap_err().to_string().contains("not a number"));
    assert!(names().iter().any(|name| name.starts_with("cuda")));
    assert!(open("auto").is_ok());
}

fn a_device_says_what_it_is(name: &str) {
    let device = open(name).unwrap();
    let caps = device.caps();
    assert!(caps.units > 0 && caps.resident >= caps.units && caps.memory_bytes > Some(1 << 30));
    assert!(caps.about.contains("multiprocessors") && caps.about.contains("PCIe"), "{}", caps.about);
    // Near memory is there, or else there is a reason.
    match (device.alloc(MemoryKind::Near, WordWidth::W64, 8), &caps.near_memory) {
        (Ok(_), found) => assert_eq!(*found, Ok(())),
        (Err(error), found) => assert!(error.to_string().ends_with(found.as_ref().unwrap_err()), "{error}"),
    }
    let much = device.alloc(MemoryKind::Device, WordWidth::W64, 1 << 50).unwrap_err();
    assert_eq!(much.retry(), Retry::Later, "{much}");
    assert_eq!(device.alloc(MemoryKind::Device, WordWidth::W32, 0).unwrap().len(), 0);
    let foreign = Memory::mapped(MemoryKind::Host, WordWidth::W32, 1).unwrap();
    let kernel = device.load(&module(ECHO), None, 1).unwrap();
    let error = kernel.launch(&launch(1, &[Some(foreign.clone()), Some(foreign)])).unwrap_err();
    assert!(error.to_string().contains("another device"), "{error}");
}

/// An echo under way, with what it is asked and answers by.
fn echo(device: &Arc<dyn Device>) -> (Box<dyn pelton_device::Run>, Vec<Option<Memory>>) {
    let module = module(ECHO);
    let kernel = device.load(&module, None, 1).unwrap();
    let buffers = memory(device, &module, 1);
    (kernel.launch(&launch(1, &buffers)).unwrap(), buffers)
}

/// Sends a word and waits for its echo.
fn round_trip(buffers: &[Option<Memory>], word: u32) {
    let words = |at: usize| buffers[at].as_ref().unwrap().words32().unwrap();
    words(0)[0].store(word, Ordering::Release);
    while words(1)[0].load(Ordering::Acquire) != word {
        std::thread::yield_now();
    }
}

/// Catches a block that is handed out again with the words of its last owner, or with words of the wrong width.
fn host_memory_that_comes_back_is_zero(name: &str) {
    let device = open(name).unwrap();
    for round in 0..3 {
        let wide = device.alloc(MemoryKind::Host, WordWidth::W64, 3000).unwrap();
        assert_eq!(wide.bits().unwrap(), [0; 3000], "round {round}");
        wide.upload(0, &[u64::MAX; 3000]).unwrap();
        drop(wide);
        let narrow = device.alloc(MemoryKind::Host, WordWidth::W32, 6144).unwrap();
        assert_eq!(narrow.bits().unwrap(), [0; 6144], "round {round}");
        narrow.upload(0, &[u32::MAX; 6144]).unwrap();
    }
}

fn memory_goes_while_a_kernel_stays(name: &str) {
    let device = open(name).unwrap();
    let (run, buffers) = echo(&device);
    round_trip(&buffers, 1);
    for round in 0..20u64 {
        // Longer than what is cleared or copied in one go.
        let own = device.alloc(MemoryKind::Device, WordWidth::W64, (1 << 18) + 3).unwrap();
        let host = device.alloc(MemoryKind::Host, WordWidth::W32, 1000).unwrap();
        assert!(own.bits().unwrap().iter().all(|word| *word == 0), "memory that comes again is cleared");
        own.upload(1 << 18, &[round, round + 1, round + 2]).unwrap();
        let mut back = [0u64; 3];
        own.download(1 << 18, &mut back).unwrap();
        assert_eq!(back, [round, round + 1, round + 2]);
        host.upload(1, &[7u32]).unwrap();
        drop((own, host));
        round_trip(&buffers, round as u32 + 2);
    }
    run.stop();
    assert_eq!(run.wait(None).unwrap().unwrap().outcome, LaunchOutcome::Stopped);
}

fn code_is_not_loaded_while_a_kernel_stays(name: &str) {
    let device = open(name).unwrap();
    let sum = device.load(&module(SUM), None, 32).unwrap();
    let (run, buffers) = echo(&device);
    round_trip(&buffers, 1);
    let error = device.load(&module(SUM), None, 64).unwrap_err();
    assert_eq!(error.retry(), Retry::Later, "{error}");
    // What was loaded before is launched beside it.
    let data = memory(&device, &module(SUM), 32);
    sum.launch(&launch(1, &data)).unwrap().wait(None).unwrap().unwrap();
    assert!(device.load(&module(SUM), None, 32).is_ok(), "what is in use is found");
    round_trip(&buffers, 2);
    drop(run);
    assert!(device.load(&module(SUM), None, 64).is_ok());
}

fn more_groups_than_fit_are_refused_if_they_may_wait(name: &str) {
    let device = open(name).unwrap();
    let module = module(ECHO);
    let kernel = device.load(&module, None, 256).unwrap();
    let (buffers, most) = (memory(&device, &module, 1), kernel.resident());
    let error = kernel.launch(&launch(most + 1, &buffers)).unwrap_err();
    assert!(matches!(error, DeviceError::Limit { most: m, .. } if m == u64::from(most)), "{error}");
    // All that fit are there at once, can be stopped, and leave no room for more of their kind.
    let run = kernel.launch(&launch(most, &buffers)).unwrap();
    let busy = kernel.launch(&launch(1, &buffers)).unwrap_err();
    assert_eq!(busy.retry(), Retry::Later, "{busy}");
    assert_eq!(run.wait(Some(Duration::from_millis(50))).unwrap(), None);
    run.stop();
    assert_eq!(run.wait(None).unwrap().unwrap().outcome, LaunchOutcome::Stopped);
}

fn code_is_kept_on_disk(_: &str) {
    let folder = std::env::temp_dir().join(format!("pelton-cuda-{}", std::process::id()));
    let files = || std::fs::read_dir(&folder).map_or(0, Iterator::count);
    let load = || {
        let device = Cuda::new(CudaConfig { cache: Some(folder.clone()), ..CudaConfig::default() }).unwrap();
        device.load(&module(SUM), None, 32).map(drop)
    };
    load().unwrap();
    let first = files();
    assert!(first > 0);
    load().unwrap();
    assert_eq!(files(), first);
    // Whatever happens to the files, code is right.
    for file in std::fs::read_dir(&folder).unwrap() {
        std::fs::write(file.unwrap().path(), b"not code").unwrap();
    }
    load().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

fn faults_are_told_with_their_place(name: &str) {
    let source = "
buffer data: [u32; 4] global read_write
kernel main {
  %lane = lane
  %odd = and %lane, 1
  %is = ne %odd, 0
  if %is {
    fault 9
  }
  store @data[%lane], %lane
}
";
    let (device, module) = (open(name).unwrap(), module(source));
    let buffers = memory(&device, &module, 4);
    let kernel = device.load(&module, None, 64).unwrap();
    let ended = kernel.launch(&launch(2, &buffers)).unwrap().wait(None).unwrap().unwrap();
    let fault = ended.fault.unwrap();
    assert_eq!((ended.outcome, fault.code, fault.count), (LaunchOutcome::Done, 9, 64));
    let place = module.functions[fault.site.func].debug.place(fault.site.inst).unwrap();
    assert_eq!(&source[place.range()], "fault 9");
    assert_eq!(words(&buffers[0]), [0, 1, 2, 3]);
}

fn nodes_of_a_graph_wait_for_those_they_depend_on(_: &str) {
    let device = Cuda::new(CudaConfig::default()).unwrap();
    let node = |inputs, add| MixNode { inputs, add };
    // A diamond, with a chain behind it.
    let mut nodes = vec![
        node([None, None], 1),
        node([Some(0), None], 2),
        node([None, Some(0)], 3),
        node([Some(1), Some(2)], 4),
    ];
    nodes.extend((3..100).map(|before| node([Some(before); 2], before)));
    let parameters = [7, 0xffff_fff0];
    let mixed = device.mix_graphs(&nodes, &parameters, Duration::from_millis(5)).unwrap();
    assert!(!mixed.times.is_empty());
    for (parameter, found) in parameters.into_iter().zip(mixed.numbers) {
        let mut wanted: Vec<u32> = Vec::new();
        for node in &nodes {
            let [a, b] = node.inputs.map(|input| input.map_or(parameter, |input| wanted[input as usize]));
            wanted.push((a ^ b.rotate_left(5)).wrapping_add(node.add));
        }
        assert_eq!(found, wanted, "parameter {parameter}");
    }
}

/// A stop that comes when a launch has just ended must not reach the next.
fn launches_follow_each_other_in_one_place(name: &str) {
    let source = "
buffer data: [u32; 1] global read_write
kernel main {
  %end: u32 = while with %i = 0 {
    %more = lt %i, 100000
    yield %more
  } do {
    %next = add %i, 1
    yield %next
  }
  %one = div %end, 100000
  %old = atomic_add relaxed device @data[0], %one
}
";
    let (device, module) = (open(name).unwrap(), module(source));
    let buffers = memory(&device, &module, 1);
    let kernel = device.load(&module, None, 1).unwrap();
    let start = || kernel.launch(&Launch { buffers: buffers.clone(), ..Launch::new(1) }).unwrap();
    let mut done = 0;
    for _ in 0..200 {
        let stopped = start();
        stopped.stop();
        done += u32::from(stopped.wait(None).unwrap().unwrap().outcome == LaunchOutcome::Done);
        drop(stopped);
        assert_eq!(start().wait(None).unwrap().unwrap().outcome, LaunchOutcome::Done);
        done += 1;
    }
    assert_eq!(words(&buffers[0]), [done]);
}

/// A line whose words all differ, and from those of other numbers.
fn line(number: u64) -> [u64; 8] {
    std::array::from_fn(|at| number << 8 | at as u64)
}

fn near_memory_is_copied_and_takes_lines(name: &str) {
    let device = open(name).unwrap();
    let near = device.alloc(MemoryKind::Near, WordWidth::W64, 1 << 16).unwrap();
    assert!(near.words64().is_none(), "the host does not read it");
    assert!(near.bits().unwrap().iter().all(|word| *word == 0));
    near.upload(3, &[1u64, 2, 3]).unwrap();
    for at in 1..1 << 13 {
        near.put(8 * at, &[line(at as u64)]).unwrap();
    }
    near.flush();
    // A write that is on its way passes before a read of the same memory is answered.
    let words = near.bits().unwrap();
    assert_eq!(words[..8], [0, 0, 0, 1, 2, 3, 0, 0]);
    for (at, found) in words.chunks_exact(8).enumerate().skip(1) {
        assert_eq!(found, line(at as u64));
    }
    assert!(matches!(near.put(1 << 16, &[line(1)]), Err(DeviceError::Range { .. })));
    let across = near.put(4, &[line(1)]).unwrap_err();
    assert!(across.to_string().contains("no line that starts"), "{across}");
    let much = device.alloc(MemoryKind::Near, WordWidth::W64, 1 << 50).unwrap_err();
    assert_eq!(much.retry(), Retry::Later, "{much}");
    assert_eq!(device.alloc(MemoryKind::Near, WordWidth::W32, 5).unwrap().bits().unwrap(), [0; 5]);
}

/// Sums the words of the lines that it is given, one after the other; a line is there when its first word changes.
const LINES: &str = "
buffer lines: [u64; ?] host read
buffer sum: [u64; 1] host write
kernel main {
  %size = len @lines
  forever with %at = 0, %sum = 0u64, %last = 0u64 {
    %head = atomic_load acquire system @lines[%at]
    %there = gt %head, %last
    %next: u32, %total: u64, %newest: u64 = if %there {
      %line: u64 = loop %k = 0 to 8 step 1 with %part = %sum {
        %where = add %at, %k
        %word = atomic_load relaxed system @lines[%where]
        %more = add %part, %word
        yield %more
      }
      atomic_store relaxed system @sum[0], %line
      %on = add %at, 8
      %end = ge %on, %size
      %to = select %end, 0, %on
      yield %to, %line, %head
    } else {
      yield %at, %sum, %last
    }
    yield %next, %total, %newest
  }
}
";

/// A kernel that sums lines, what it reads and what it answers by.
fn summing(device: &Arc<dyn Device>, lines: usize) -> (Box<dyn pelton_device::Run>, Memory, Memory) {
    let kernel = device.load(&module(LINES), None, 1).unwrap();
    let near = device.alloc(MemoryKind::Near, WordWidth::W64, 8 * lines).unwrap();
    let sum = device.alloc(MemoryKind::Host, WordWidth::W64, 1).unwrap();
    // What stands still ends by itself.
    let bound = launch(1, &[Some(near.clone()), Some(sum.clone())]).deadline(Duration::from_secs(20));
    (kernel.launch(&bound).unwrap(), near, sum)
}

/// Waits until a kernel has answered.
fn answered(run: &dyn pelton_device::Run, sum: &Memory, expected: u64) {
    while sum.words64().unwrap()[0].load(Ordering::Acquire) != expected {
        assert_eq!(run.wait(Some(Duration::ZERO)).unwrap(), None, "it has ended");
    }
}

fn lines_reach_a_kernel_that_stays(name: &str) {
    let device = open(name).unwrap();
    const LINES: usize = 1024;
    let (run, near, sum) = summing(&device, LINES);
    let (mut number, mut expected) = (0, 0u64);
    for round in 0..2000 {
        // One at a time and many at once; all of a round were seen before the next overwrites them.
        for _ in 0..if round % 100 == 0 { LINES } else { 1 } {
            let at = number % LINES;
            number += 1;
            let line = line(number as u64);
            near.put(8 * at, &[line]).unwrap();
            expected = line.iter().fold(expected, |sum, word| sum.wrapping_add(*word));
        }
        near.flush();
        answered(&*run, &sum, expected);
    }
    run.stop();
    assert_eq!(run.wait(None).unwrap().unwrap().outcome, LaunchOutcome::Stopped);
}

fn near_memory_goes_while_a_kernel_stays(name: &str) {
    let device = open(name).unwrap();
    let (run, near, sum) = summing(&device, 64);
    let mut expected = 0;
    for round in 0..20u64 {
        let other = device.alloc(MemoryKind::Near, WordWidth::W64, 100).unwrap();
        assert!(other.bits().unwrap().iter().all(|word| *word == 0), "memory that comes again is cleared");
        other.put(0, &[line(round)]).unwrap();
        other.flush();
        assert_eq!(other.bits().unwrap()[..8], line(round));
        drop(other);
        near.put(8 * round as usize, &[line(round + 1)]).unwrap();
        near.flush();
        expected += line(round + 1).iter().sum::<u64>();
        answered(&*run, &sum, expected);
    }
    drop(run);
    assert!(device.alloc(MemoryKind::Near, WordWidth::W64, 1).is_ok());
}
