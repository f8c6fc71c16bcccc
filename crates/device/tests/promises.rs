//! What every device promises, one named test a promise and device; devices that are not there are ignored.

#[macro_use]
mod common;

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, run};
use pelton_device::{DeviceError, Launch, LaunchEnd, LaunchOutcome, Retry, open};

use common::{ECHO, SUM, Test, launch, memory, module, trial, words};

const DEVICES: [&str; 7] =
    ["cpu", "cpu:1", "reference", "cuda", "process:cpu", "process:reference", "process:cuda"];

const PROMISES: &[Test] = named![
    a_reduction_over_barriers,
    a_resident_kernel_is_fed_while_it_runs,
    deadline_and_lease_end_a_launch,
    who_runs_a_kernel_to_its_end_keeps_its_lease,
    dropping_a_launch_ends_it,
    a_trap_names_its_place_and_the_process_lives_on,
    long_loops_can_be_stopped,
];

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    pelton_device::process::serve_if_asked();
    let all = PROMISES.iter().flat_map(|test| DEVICES.map(|device| trial(*test, device)));
    run(&Arguments::from_args(), all.collect()).exit_code()
}

fn a_reduction_over_barriers(name: &str) {
    let device = open(name).unwrap();
    for lanes in [1, 2, 5, 32, 33, 64] {
        let module = module(SUM);
        let kernel = device.load(&module, None, lanes).unwrap();
        let buffers = memory(&device, &module, 3 * lanes as usize);
        let input: Vec<u32> = (0..3 * lanes).map(|x| x * x + 7).collect();
        buffers[0].as_ref().unwrap().upload(0, &input).unwrap();
        let run = kernel.launch(&launch(3, &buffers)).unwrap();
        assert_eq!(run.wait(None).unwrap(), Some(LaunchEnd { outcome: LaunchOutcome::Done, fault: None }));
        let sums =
            input.chunks(lanes as usize).flat_map(|part| vec![part.iter().sum::<u32>(); lanes as usize]);
        assert_eq!(words(&buffers[0]), sums.collect::<Vec<u32>>(), "{name}, {lanes} lanes");
    }
}

fn a_resident_kernel_is_fed_while_it_runs(name: &str) {
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
    assert_eq!(run.wait(None).unwrap().unwrap().outcome, LaunchOutcome::Stopped);
}

fn deadline_and_lease_end_a_launch(name: &str) {
    let device = open(name).unwrap();
    let module = module(ECHO);
    let kernel = device.load(&module, None, 1).unwrap();
    let buffers = memory(&device, &module, 1);
    let ends = |launch: Launch| kernel.launch(&launch).unwrap().wait(None).unwrap().unwrap().outcome;
    assert_eq!(ends(launch(2, &buffers).deadline(Duration::from_millis(20))), LaunchOutcome::Deadline);
    assert_eq!(ends(launch(2, &buffers).lease(Duration::from_millis(20))), LaunchOutcome::Lease);
    let run = kernel.launch(&launch(1, &buffers).lease(Duration::from_secs(1))).unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1500) {
        run.renew();
        assert_eq!(run.wait(Some(Duration::from_millis(20))).unwrap(), None);
    }
    assert_eq!(run.wait(None).unwrap().unwrap().outcome, LaunchOutcome::Lease);
}

fn who_runs_a_kernel_to_its_end_keeps_its_lease(name: &str) {
    let device = open(name).unwrap();
    let (sum, echo) = (module(SUM), module(ECHO));
    let buffers = memory(&device, &sum, 5);
    buffers[0].as_ref().unwrap().upload(0, &[1u32, 2, 3, 4, 5]).unwrap();
    let kernel = device.load(&sum, None, 5).unwrap();
    let ended = kernel.run(&launch(1, &buffers).lease(Duration::from_secs(5))).unwrap();
    assert_eq!(
        (ended, words(&buffers[0])),
        (LaunchEnd { outcome: LaunchOutcome::Done, fault: None }, vec![15; 5])
    );
    // It never ends by itself, and the lease alone would end it sooner.
    let kernel = device.load(&echo, None, 1).unwrap();
    let buffers = memory(&device, &echo, 1);
    let brief = launch(2, &buffers).lease(Duration::from_millis(800)).deadline(Duration::from_millis(1500));
    assert_eq!(kernel.run(&brief).unwrap().outcome, LaunchOutcome::Deadline);
}

fn dropping_a_launch_ends_it(name: &str) {
    let device = open(name).unwrap();
    let module = module(ECHO);
    let kernel = device.load(&module, None, 1).unwrap();
    let buffers = memory(&device, &module, 1);
    let run = kernel.launch(&launch(4, &buffers)).unwrap();
    drop(device);
    drop(kernel);
    drop(run);
}

fn a_trap_names_its_place_and_the_process_lives_on(name: &str) {
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
    let device = open(name).unwrap();
    let module = module(source);
    let kernel = device.load(&module, None, 4).unwrap();
    let buffers = memory(&device, &module, 4);
    let run = kernel.launch(&launch(1, &buffers)).unwrap();
    let error = run.wait(None).unwrap_err();
    assert_eq!(error.retry(), Retry::Never);
    assert_eq!(error.to_string(), "the kernel trapped with code 77 in `trap 77` of `check`", "{name}");
    let DeviceError::Fault { code, place, instruction, .. } = error else { panic!("{error}") };
    assert_eq!((code, &*instruction), (77, "trap 77"), "{name}");
    assert_eq!(&source[place.unwrap().range()], "trap 77");
    drop(run);
    assert!(device.load(&module, None, 1).is_ok());
}

/// Loops that would take for ever, counted or not, of one lane and of many.
fn long_loops_can_be_stopped(name: &str) {
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
    let device = open(name).unwrap();
    let module = module(source);
    for lanes in [1, 3, 32] {
        let kernel = device.load(&module, None, lanes).unwrap();
        let buffers = memory(&device, &module, 32);
        let run = kernel.launch(&launch(2, &buffers).deadline(Duration::from_millis(20))).unwrap();
        assert_eq!(
            run.wait(None).unwrap().unwrap().outcome,
            LaunchOutcome::Deadline,
            "{name}, {lanes} lanes"
        );
    }
}
