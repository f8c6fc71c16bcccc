//! What devices in a process of their own promise beyond what every device does. This program is its own executor, unless a
//! test names another one.

#[macro_use]
mod common;

use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial, run};
use pelton_device::process::{ProcessConfig, ProcessDevice};
use pelton_device::{Device, DeviceError, LaunchOutcome, Memory, MemoryKind, Retry, Run, WordWidth, open};
use rustix::process::{Pid, Signal, kill_process};

use common::{ECHO, SUM, Test, launch, memory, module, trial, words};

/// Tests of any device.
const TESTS: &[Test] = named![
    a_killed_executor_is_a_lost_device_and_the_next_one_works,
    memory_of_the_host_outlives_the_executor,
    copies_of_any_size_arrive,
    a_stopped_executor_is_not_replaced_before_it_is_gone,
    an_executor_ends_with_its_host,
    many_threads_use_one_executor,
    dropping_everything_ends_the_executor,
    a_silent_executor_is_killed_only_if_it_does_not_answer,
    memory_that_was_dropped_is_unmapped,
    a_device_can_be_lost_on_purpose,
    a_spare_takes_over,
];

/// Tests that need no particular device.
const OTHERS: &[(&str, fn())] = named![
    programs_that_are_no_executors_are_refused,
    wrong_names_are_refused,
    memory_that_cannot_be_shared_is_refused,
    the_host_does_not_load_the_driver,
    an_executor_without_a_host_says_so,
];

fn main() -> ExitCode {
    pelton_device::process::serve_if_asked();
    if let Ok(device) = std::env::var(HOST_TO_DIE) {
        die_with_an_executor(&device);
    }
    let devices = ["process:cpu", "process:reference", "process:cuda"];
    let mut all: Vec<Trial> =
        TESTS.iter().flat_map(|test| devices.map(|device| trial(*test, device))).collect();
    let other = |(name, test): &(&'static str, fn())| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    };
    all.extend(OTHERS.iter().map(other));
    run(&Arguments::from_args(), all).exit_code()
}

/// Opens a device with a handle that tells the number of its process.
fn open_process(name: &str) -> Arc<ProcessDevice> {
    let device = name.strip_prefix("process:").unwrap();
    Arc::new(ProcessDevice::new(ProcessConfig::new(device)).unwrap())
}

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap();
}

/// Whether a process is there. A process that has ended and was not waited for counts.
fn exists(process: u32) -> bool {
    std::path::Path::new(&format!("/proc/{process}")).exists()
}

/// Launches the kernel that answers words.
fn launch_echo(device: &Arc<dyn Device>) -> (Box<dyn Run>, Vec<Option<Memory>>) {
    let module = module(ECHO);
    let kernel = device.load(&module, Some("echo"), 1).unwrap();
    let buffers = memory(device, &module, 1);
    (kernel.launch(&launch(1, &buffers)).unwrap(), buffers)
}

/// Asks the kernel that answers words, and waits for the answer.
fn ask(run: &dyn Run, buffers: &[Option<Memory>], word: u32) {
    let words = |at: usize| buffers[at].as_ref().unwrap().words32().unwrap();
    words(0)[0].store(word, Ordering::Release);
    run.wake();
    while words(1)[0].load(Ordering::Acquire) != word {
        std::thread::yield_now();
    }
}

fn a_killed_executor_is_a_lost_device_and_the_next_one_works(name: &str) {
    let process = open_process(name);
    let device: Arc<dyn Device> = process.clone();
    for round in 1..=3 {
        let (run, buffers) = launch_echo(&device);
        ask(&*run, &buffers, round);
        let own = device.alloc(MemoryKind::Device, WordWidth::W32, 8).unwrap();
        let executor = process.process_id();
        signal(executor, Signal::KILL);
        let error = run.wait(None).unwrap_err();
        assert!(
            matches!(&error, DeviceError::Lost(why) if why.contains("was killed by signal 9")),
            "{error}"
        );
        assert_eq!(error.retry(), Retry::NewProcess);
        assert!(!exists(executor), "the device is lost only when its process is gone");
        assert!(matches!(own.upload(0, &[1u32]), Err(DeviceError::Lost(_))));
        assert!(matches!(own.download(0, &mut [0u32]), Err(DeviceError::Lost(_))));
        // The calls of a run that is lost do nothing.
        run.wake();
        run.renew();
        run.stop();
    }
}

fn memory_of_the_host_outlives_the_executor(name: &str) {
    let process = open_process(name);
    let device: Arc<dyn Device> = process.clone();
    let shared = device.alloc(MemoryKind::Host, WordWidth::W64, 1000).unwrap();
    shared.upload(7, &[1u64, 2, 3]).unwrap();
    signal(process.process_id(), Signal::KILL);
    let source = "
buffer words: [u64; 1000] host read_write
kernel double {
  %at = lane
  %x = load @words[%at]
  %y = add %x, %x
  store @words[%at], %y
}
";
    let module = module(source);
    // A call that meets the end of the executor may be refused, and the next one finds another executor.
    let kernel = device.load(&module, None, 10).or_else(|_| device.load(&module, None, 10)).unwrap();
    let bound = device.adopt(&shared).unwrap();
    assert_eq!(kernel.run(&launch(1, &[Some(bound)])).unwrap().outcome, LaunchOutcome::Done);
    let mut words = [0u64; 3];
    shared.download(7, &mut words).unwrap();
    assert_eq!(words, [2, 4, 6]);
}

fn copies_of_any_size_arrive(name: &str) {
    let device = open(name).unwrap();
    for len in [0usize, 1, 1 << 20, (1 << 20) + 1, (5 << 20) / 2] {
        let narrow = device.alloc(MemoryKind::Device, WordWidth::W32, len + 3).unwrap();
        let numbers: Vec<u32> = (0..len as u32).map(|x| x.wrapping_mul(2_654_435_761)).collect();
        narrow.upload(3, &numbers).unwrap();
        let mut back = vec![0u32; len];
        narrow.download(3, &mut back).unwrap();
        assert!(back == numbers, "{len} words of 32 bits");
        let wide = device.alloc(MemoryKind::Device, WordWidth::W64, len + 3).unwrap();
        let numbers: Vec<u64> = (0..len as u64).map(|x| x.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        wide.upload(3, &numbers).unwrap();
        let mut back = vec![0u64; len];
        wide.download(3, &mut back).unwrap();
        assert!(back == numbers, "{len} words of 64 bits");
    }
}

/// Nothing counts but the end of the process: an executor that says nothing may still write.
fn a_stopped_executor_is_not_replaced_before_it_is_gone(name: &str) {
    let config =
        ProcessConfig::new(name.strip_prefix("process:").unwrap()).patience(Duration::from_millis(400));
    let process = Arc::new(ProcessDevice::new(config).unwrap());
    let device: Arc<dyn Device> = process.clone();
    let (run, buffers) = launch_echo(&device);
    ask(&*run, &buffers, 1);
    let stopped = process.process_id();
    signal(stopped, Signal::STOP);
    assert!(run.wait(Some(Duration::from_millis(50))).unwrap().is_none(), "it is silent, and not gone");
    assert!(exists(stopped));
    let began = Instant::now();
    let again = loop {
        match device.alloc(MemoryKind::Device, WordWidth::W32, 1) {
            Ok(memory) => break memory,
            Err(DeviceError::Lost(_)) => assert!(!exists(stopped), "it was replaced while it was there"),
            Err(error) => panic!("{error}"),
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it is not replaced at all");
    };
    assert!(!exists(stopped), "it was replaced while it was there");
    assert_ne!(process.process_id(), stopped);
    again.upload(0, &[1u32]).unwrap();
    assert!(matches!(run.wait(None), Err(DeviceError::Lost(_))));
}

/// An executor that nobody has asked anything for long is not one that does not answer.
fn a_silent_executor_is_killed_only_if_it_does_not_answer(name: &str) {
    let patience = Duration::from_millis(200);
    let config = ProcessConfig::new(name.strip_prefix("process:").unwrap()).patience(patience);
    let process = Arc::new(ProcessDevice::new(config).unwrap());
    let device: Arc<dyn Device> = process.clone();
    let (run, buffers) = launch_echo(&device);
    ask(&*run, &buffers, 1);
    std::thread::sleep(10 * patience);
    assert!(run.wait(Some(Duration::from_millis(1))).unwrap().is_none(), "it is there");
    ask(&*run, &buffers, 2);
    // Nobody asks this one anything, and a socket that is full does not keep anybody from noticing.
    signal(process.process_id(), Signal::STOP);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..10_000 {
                run.renew();
            }
        });
        let error = run.wait(None).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, DeviceError::Lost(_)) && text.contains("did not answer for 200ms"), "{text}");
    });
    // Memory of an executor that is gone is lost, and not merely foreign.
    let module = module(SUM);
    let kernel = device.load(&module, None, 8).unwrap();
    let own = device.alloc(MemoryKind::Device, WordWidth::W32, 8).unwrap();
    process.kill();
    while own.upload(0, &[1u32]).is_ok() {}
    let launched = kernel.run(&launch(1, &[Some(own.clone()), None]));
    assert!(matches!(launched, Err(DeviceError::Lost(_))), "{launched:?}");
    let kernel = device.load(&module, None, 8).unwrap();
    let launched = kernel.run(&launch(1, &[Some(own), None]));
    assert!(matches!(launched, Err(DeviceError::Lost(_))), "{launched:?}");
}

fn memory_that_was_dropped_is_unmapped(name: &str) {
    let config =
        ProcessConfig::new(name.strip_prefix("process:").unwrap()).patience(Duration::from_millis(400));
    let process = Arc::new(ProcessDevice::new(config).unwrap());
    let count = |what: &str| {
        let path = format!("/proc/{}/{what}", process.process_id());
        match what {
            "fd" => std::fs::read_dir(path).unwrap().count(),
            _ => {
                std::fs::read_to_string(path).unwrap().lines().filter(|line| line.contains("memfd:")).count()
            }
        }
    };
    let kept = process.alloc(MemoryKind::Host, WordWidth::W64, 1000).unwrap();
    let (files, maps) = (count("fd"), count("maps"));
    for _ in 0..300 {
        drop(process.alloc(MemoryKind::Host, WordWidth::W64, 1000).unwrap());
    }
    let began = Instant::now();
    while count("maps") > maps {
        assert!(began.elapsed() < Duration::from_secs(60), "{} of {maps} mappings stay", count("maps"));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(count("fd") <= files, "{} of {files} files stay", count("fd"));
    drop(kept);
}

/// Makes this program a host that prints the number of its executor and then waits to be killed.
const HOST_TO_DIE: &str = "PELTON_TEST_HOST_TO_DIE";

fn die_with_an_executor(device: &str) -> ! {
    let process = open_process(device);
    let device: Arc<dyn Device> = process.clone();
    let (run, buffers) = launch_echo(&device);
    ask(&*run, &buffers, 1);
    println!("{}", process.process_id());
    loop {
        std::thread::park();
    }
}

fn an_executor_ends_with_its_host(name: &str) {
    use std::io::{BufRead, BufReader};
    let mut host = Command::new(std::env::current_exe().unwrap())
        .env(HOST_TO_DIE, name)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(host.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let executor: u32 = line.trim().parse().unwrap();
    assert!(exists(executor));
    host.kill().unwrap();
    host.wait().unwrap();
    let began = Instant::now();
    // It may be a zombie until whoever has adopted it has waited for it.
    let is_there = || {
        let status = std::fs::read_to_string(format!("/proc/{executor}/stat")).unwrap_or_default();
        status.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
    };
    while is_there() {
        assert!(began.elapsed() < Duration::from_secs(60), "the executor outlives its host");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn many_threads_use_one_executor(name: &str) {
    let device = open(name).unwrap();
    let module = module(SUM);
    let start = Barrier::new(6);
    std::thread::scope(|threads| {
        for thread in 0..6u32 {
            let (device, module, start) = (&device, &module, &start);
            threads.spawn(move || {
                start.wait();
                for round in 0..10 {
                    let lanes = 1 + (thread + round) % 7;
                    let kernel = device.load(module, None, lanes).unwrap();
                    let buffers = memory(device, module, 2 * lanes as usize);
                    let input: Vec<u32> = (0..2 * lanes).map(|x| x * thread + round).collect();
                    buffers[0].as_ref().unwrap().upload(0, &input).unwrap();
                    kernel.run(&launch(2, &buffers)).unwrap();
                    let sums = input.chunks(lanes as usize);
                    let sums = sums.flat_map(|part| vec![part.iter().sum::<u32>(); lanes as usize]);
                    assert_eq!(words(&buffers[0]), sums.collect::<Vec<u32>>());
                }
            });
        }
    });
}

fn dropping_everything_ends_the_executor(name: &str) {
    let process = open_process(name);
    let executor = process.process_id();
    let device: Arc<dyn Device> = process.clone();
    let (run, buffers) = launch_echo(&device);
    drop((process, device));
    ask(&*run, &buffers, 5);
    assert!(exists(executor), "what is in use keeps its executor");
    drop((run, buffers));
    let began = Instant::now();
    while exists(executor) {
        assert!(began.elapsed() < Duration::from_secs(60), "the executor stays");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn a_device_can_be_lost_on_purpose(name: &str) {
    let inner = name.strip_prefix("process:").unwrap();
    let plain = ProcessDevice::new(ProcessConfig::new(inner)).unwrap();
    assert!(matches!(plain.lose(), Err(DeviceError::Executor(_))), "it was not opened for that");
    let process = Arc::new(ProcessDevice::new(ProcessConfig::new(inner).losable()).unwrap());
    let device: Arc<dyn Device> = process.clone();
    for round in 1..=2 {
        let (run, buffers) = launch_echo(&device);
        ask(&*run, &buffers, round);
        process.lose().unwrap();
        assert!(matches!(run.wait(None), Err(DeviceError::Lost(_))));
    }
}

fn a_spare_takes_over(name: &str) {
    let config = ProcessConfig::new(name.strip_prefix("process:").unwrap()).warm().losable();
    let process = Arc::new(ProcessDevice::new(config).unwrap());
    let device: Arc<dyn Device> = process.clone();
    let shared = device.alloc(MemoryKind::Host, WordWidth::W32, 4).unwrap();
    for round in 1..=3 {
        let began = Instant::now();
        while !process.has_spare() {
            assert!(began.elapsed() < Duration::from_secs(60), "there is no spare");
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = process.process_id();
        let (run, buffers) = launch_echo(&device);
        ask(&*run, &buffers, round);
        process.lose().unwrap();
        assert!(matches!(run.wait(None), Err(DeviceError::Lost(_))));
        let bound = device.adopt(&shared).unwrap();
        bound.upload(0, &[round]).unwrap();
        let (run, buffers) = launch_echo(&device);
        ask(&*run, &buffers, round + 100);
        assert_ne!(process.process_id(), before);
    }
}

fn programs_that_are_no_executors_are_refused() {
    let refused = |program: &str| {
        let config = ProcessConfig::new("cpu").program(program).patience(Duration::from_secs(1));
        ProcessDevice::new(config).expect_err("it is no executor").to_string()
    };
    assert!(
        refused("/bin/true").contains("/bin/true does not serve as an executor"),
        "{}",
        refused("/bin/true")
    );
    // This one reads its input and answers nonsense.
    assert!(
        refused("/bin/cat").contains("/bin/cat does not serve as an executor"),
        "{}",
        refused("/bin/cat")
    );
    assert!(refused("/nowhere/pelton").contains("/nowhere/pelton"));
}

fn wrong_names_are_refused() {
    for (name, why) in [
        ("process", "say which device"),
        ("process:", "devices are"),
        ("process:gpu", "devices are"),
        ("process:cpu:0", "0 is not a number of threads"),
        ("process:process:cpu", "no executor of its own"),
        ("process:null", "runs nothing"),
    ] {
        let error = open(name).expect_err(name);
        assert!(matches!(error, DeviceError::Absent { .. }), "{name}: {error:?}");
        assert!(error.to_string().contains(why), "{name}: {error}");
    }
}

fn memory_that_cannot_be_shared_is_refused() {
    let device = open("process:cpu").unwrap();
    let own = open("cpu").unwrap().alloc(MemoryKind::Host, WordWidth::W32, 8).unwrap();
    assert!(matches!(device.adopt(&own), Err(DeviceError::Memory { .. })));
    let near = device.alloc(MemoryKind::Near, WordWidth::W64, 8);
    assert!(matches!(near, Err(DeviceError::Near { .. })));
    // Memory of one executor is not memory of another one.
    let other = open("process:cpu").unwrap();
    let foreign = other.alloc(MemoryKind::Device, WordWidth::W32, 8).unwrap();
    assert!(matches!(device.adopt(&foreign), Err(DeviceError::Memory { .. })));
    let module = module(SUM);
    let kernel = device.load(&module, None, 8).unwrap();
    assert!(matches!(kernel.run(&launch(1, &[Some(foreign), None])), Err(DeviceError::Memory { .. })));
}

/// No test of this program opens a GPU in this process, and neither do devices in other processes.
fn the_host_does_not_load_the_driver() {
    drop(open("process:cpu").unwrap());
    // It does not matter whether there is a GPU.
    drop(open("process:cuda"));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains("libcuda"), "{maps}");
}

fn an_executor_without_a_host_says_so() {
    let output = Command::new(std::env::current_exe().unwrap())
        .env("PELTON_EXECUTOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("pelton: "), "{text}");
}
