//! What every device promises, on the CPU and on the reference.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pelton_device::{Device, DeviceError, Ended, Kind, Launch, Memory, Outcome, Retry, Width, open};
use pelton_ir::text;
use pelton_ir::types::{Len, Space};
use pelton_ir::valid::{Valid, validate};

const DEVICES: [&str; 3] = ["cpu", "cpu:1", "reference"];

fn module(source: &str) -> Valid {
    let module =
        text::parse(source).unwrap_or_else(|list| panic!("{}", text::render("test", source, &list, false)));
    validate(module).unwrap_or_else(|invalid| panic!("{}", invalid.report("test", Some(source), false)))
}

/// Memory for every buffer of a module: as declared, or of `len` words.
fn memory(device: &Arc<dyn Device>, module: &Valid, len: usize) -> Vec<Option<Memory>> {
    let decls = module.buffers.iter().map(|(_, decl)| decl);
    decls
        .map(|decl| {
            let width = Width::of(decl.elem);
            let kind = if decl.space == Space::Host { Kind::Host } else { Kind::Device };
            let len = match decl.len {
                Len::Fixed(len) => len as usize,
                Len::Launch => len,
            };
            (decl.space != Space::Shared).then(|| device.alloc(kind, width, len).unwrap())
        })
        .collect()
}

fn launch(groups: u32, buffers: &[Option<Memory>]) -> Launch {
    Launch { buffers: buffers.to_vec(), ..Launch::new(groups) }
}

fn words(memory: &Option<Memory>) -> Vec<u32> {
    let memory = memory.as_ref().unwrap();
    let mut words = vec![0; memory.len()];
    memory.download(0, &mut words).unwrap();
    words
}

/// Shared memory, barriers in a loop, uniform and varying carried values, a value that lives across a barrier.
const SUM: &str = "
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

#[test]
fn a_reduction_over_barriers() {
    for name in DEVICES {
        let device = open(name).unwrap();
        for lanes in [1, 2, 5, 32, 33, 64] {
            let module = module(SUM);
            let kernel = device.load(&module, None, lanes).unwrap();
            let buffers = memory(&device, &module, 3 * lanes as usize);
            let input: Vec<u32> = (0..3 * lanes).map(|x| x * x + 7).collect();
            buffers[0].as_ref().unwrap().upload(0, &input).unwrap();
            let run = kernel.launch(&launch(3, &buffers)).unwrap();
            assert_eq!(run.wait(None).unwrap(), Some(Ended { outcome: Outcome::Done, fault: None }));
            let sums =
                input.chunks(lanes as usize).flat_map(|part| vec![part.iter().sum::<u32>(); lanes as usize]);
            assert_eq!(words(&buffers[0]), sums.collect::<Vec<u32>>(), "{name}, {lanes} lanes");
        }
    }
}

/// A resident kernel that answers words until it is stopped.
const ECHO: &str = "
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

#[test]
fn a_resident_kernel_is_fed_while_it_runs() {
    for name in DEVICES {
        let device = open(name).unwrap();
        let module = module(ECHO);
        let kernel = device.load(&module, Some("echo"), 1).unwrap();
        let buffers = memory(&device, &module, 1);
        let run = kernel.launch(&launch(1, &buffers)).unwrap();
        let (ask, answer) = (buffers[0].as_ref().unwrap(), buffers[1].as_ref().unwrap());
        for round in 1..=200 {
            ask.words32().unwrap()[0].store(round, Ordering::Release);
            run.wake();
            while answer.words32().unwrap()[0].load(Ordering::Acquire) != round {
                std::thread::yield_now();
            }
        }
        // Long enough idle that it parks; a wake must reach it all the same.
        std::thread::sleep(Duration::from_millis(20));
        ask.words32().unwrap()[0].store(1000, Ordering::Release);
        run.wake();
        while answer.words32().unwrap()[0].load(Ordering::Acquire) != 1000 {
            std::thread::yield_now();
        }
        assert_eq!(run.wait(Some(Duration::from_millis(1))).unwrap(), None);
        run.stop();
        assert_eq!(run.wait(None).unwrap().unwrap().outcome, Outcome::Stopped);
    }
}

#[test]
fn deadline_and_lease_end_a_launch() {
    for name in DEVICES {
        let device = open(name).unwrap();
        let module = module(ECHO);
        let kernel = device.load(&module, None, 1).unwrap();
        let buffers = memory(&device, &module, 1);
        let ends = |launch: Launch| kernel.launch(&launch).unwrap().wait(None).unwrap().unwrap().outcome;
        assert_eq!(ends(launch(2, &buffers).deadline(Duration::from_millis(20))), Outcome::Deadline);
        assert_eq!(ends(launch(2, &buffers).lease(Duration::from_millis(20))), Outcome::Lease);
        let run = kernel.launch(&launch(1, &buffers).lease(Duration::from_secs(1))).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(1500) {
            run.renew();
            assert_eq!(run.wait(Some(Duration::from_millis(20))).unwrap(), None);
        }
        assert_eq!(run.wait(None).unwrap().unwrap().outcome, Outcome::Lease);
    }
}

#[test]
fn dropping_a_launch_ends_it() {
    for name in DEVICES {
        let device = open(name).unwrap();
        let module = module(ECHO);
        let kernel = device.load(&module, None, 1).unwrap();
        let buffers = memory(&device, &module, 1);
        let run = kernel.launch(&launch(4, &buffers)).unwrap();
        drop(device);
        drop(kernel);
        drop(run);
    }
}

#[test]
fn a_trap_names_its_place_and_the_process_lives_on() {
    let source = "
buffer data: [u32; 4] global read_write
fn check(%x: u32) {
  %bad = gt %x, 2
  if %bad {
    trap 77
  }
}
kernel main {
  %lane = lane
  call check(%lane)
  store @data[%lane], 1
}
";
    for name in DEVICES {
        let device = open(name).unwrap();
        let module = module(source);
        let kernel = device.load(&module, None, 4).unwrap();
        let buffers = memory(&device, &module, 4);
        let run = kernel.launch(&launch(1, &buffers)).unwrap();
        let error = run.wait(None).unwrap_err();
        assert_eq!(error.retry(), Retry::Never);
        let DeviceError::Fault { code, place, instruction, .. } = error else { panic!("{error}") };
        assert_eq!((code, &*instruction), (77, "trap 77"), "{name}");
        assert_eq!(&source[place.unwrap().range()], "trap 77");
        drop(run);
        assert!(device.load(&module, None, 1).is_ok());
    }
}

#[test]
fn more_groups_than_threads_all_run() {
    let source = "
buffer data: [u32; ?] global read_write
kernel main {
  %group = group
  %old = atomic_add relaxed device @data[%group], 1
}
";
    let device = open("cpu:2").unwrap();
    let module = module(source);
    let kernel = device.load(&module, None, 3).unwrap();
    let buffers = memory(&device, &module, 5000);
    kernel.launch(&launch(5000, &buffers)).unwrap().wait(None).unwrap();
    assert!(words(&buffers[0]).iter().all(|x| *x == 3));
}

#[test]
fn what_is_wrong_with_a_launch_is_said() {
    let device = open("cpu").unwrap();
    let module = module(ECHO);
    let kernel = device.load(&module, None, 1).unwrap();
    let text = |launch: Launch| kernel.launch(&launch).unwrap_err().to_string();
    assert!(text(Launch::new(1)).contains("\"ask\" has no memory"));
    assert!(text(Launch::new(0)).contains("groups"));
    let wide = device.alloc(Kind::Host, Width::W64, 1).unwrap();
    let long = device.alloc(Kind::Host, Width::W32, 2).unwrap();
    let [ask, _] = [0, 1].map(pelton_ir::arena::Handle::new);
    assert!(text(Launch::new(1).bind(ask, wide)).contains("other words"));
    assert!(text(Launch::new(1).bind(ask, long)).contains("has 1 elements"));
    assert!(device.load(&module, Some("ecco"), 1).unwrap_err().to_string().contains("it has echo"));
    assert!(device.load(&module, None, 0).is_err());
    assert!(open("cpu:0").is_err());
    assert!(open("abacus").unwrap_err().to_string().contains("reference"));
}

#[test]
fn near_memory_takes_lines() {
    let device = open("cpu").unwrap();
    let near = device.alloc(Kind::Near, Width::W64, 16).unwrap();
    near.put(8, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    near.flush();
    let mut words = [0u64; 16];
    near.download(0, &mut words).unwrap();
    assert_eq!(words, [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(near.put(9, &[0; 8]).is_err());
    let host = device.alloc(Kind::Host, Width::W64, 16).unwrap();
    assert!(host.put(0, &[0; 8]).is_err());
    assert!(host.upload(0, &[1u32]).is_err());
}

/// A kernel whose values must all be kept across a barrier, a lane each, in more memory than a group may have.
#[test]
fn the_memory_of_a_group_is_checked_at_load() {
    let mut source = String::from("buffer data: [u64; ?] global read_write\nkernel main {\n  %lane = lane\n");
    for k in 0..9000 {
        source += &format!("  %i{k} = add %lane, {k}\n  %x{k} = atomic_load relaxed device @data[%i{k}]\n");
    }
    source += "  barrier\n";
    for k in 0..9000 {
        source += &format!("  store @data[%i{k}], %x{k}\n");
    }
    source += "}\n";
    let device = open("cpu").unwrap();
    let module = module(&source);
    assert!(device.load(&module, None, 2).is_ok());
    let error = device.load(&module, None, 1024).unwrap_err();
    assert!(matches!(error, DeviceError::Limit { what: "the memory a group needs", .. }), "{error}");
}

#[test]
fn a_kernel_is_compiled_once() {
    let device = open("cpu").unwrap();
    let (a, b) = (module(SUM), module(ECHO));
    let code = |kernel: &Arc<dyn pelton_device::Kernel>| format!("{kernel:?}");
    let first = device.load(&a, None, 4).unwrap();
    assert_eq!(code(&first), code(&device.load(&module(SUM), None, 4).unwrap()));
    // Another number of lanes and another module are other code, whatever was compiled before.
    assert_ne!(code(&first), code(&device.load(&a, None, 33).unwrap()));
    assert_ne!(code(&first), code(&device.load(&b, None, 4).unwrap()));
}

/// Loops that would take for ever, counted or not, of one lane and of many.
#[test]
fn long_loops_can_be_stopped() {
    let source = "
buffer data: [u32; ?] global read_write
kernel main {
  %lane = lane
  %n = sub 0, 1
  %s: u32 = loop %i = 0 to %n step 1 with %a = %lane {
    %t: u32 = loop %j = 0 to %n step 1 with %b = %a {
      %c = mul %b, 5
      %d = xor %c, %j
      yield %d
    }
    yield %t
  }
  store @data[%lane], %s
}
";
    for name in DEVICES {
        let device = open(name).unwrap();
        let module = module(source);
        for lanes in [1, 3, 32] {
            let kernel = device.load(&module, None, lanes).unwrap();
            let buffers = memory(&device, &module, 32);
            let run = kernel.launch(&launch(2, &buffers).deadline(Duration::from_millis(20))).unwrap();
            assert_eq!(run.wait(None).unwrap().unwrap().outcome, Outcome::Deadline, "{name}, {lanes} lanes");
        }
    }
}
