//! The CPU keeps the kernels that were used last, and frees the machine code that nobody has any more.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pelton_device::cpu::{CodeCacheStats, Cpu, CpuConfig};
use pelton_device::{Device, Kernel, Launch, LaunchOutcome, Memory, MemoryKind, WordWidth};

mod common;

use common::module;

fn cpu() -> Cpu {
    Cpu::new(CpuConfig::default()).unwrap()
}

/// A kernel that there is only one of for each number.
fn load(cpu: &Cpu, number: u32) -> Arc<dyn Kernel> {
    let source = format!(
        "buffer data: [u32; ?] global read_write\n\
         kernel main {{\n  %x = load @data[0]\n  %y = mul %x, {number}\n  store @data[1], %y\n}}\n"
    );
    cpu.load(&module(&source), None, 1).unwrap()
}

/// Runs such a kernel, which must be right.
fn check(cpu: &Cpu, kernel: &Arc<dyn Kernel>, number: u32) {
    let memory = cpu.alloc(MemoryKind::Device, WordWidth::W32, 2).unwrap();
    memory.upload(0, &[3u32, 0]).unwrap();
    kernel.run(&bound(&memory)).unwrap();
    let mut words = [0u32; 2];
    memory.download(0, &mut words).unwrap();
    assert_eq!(words, [3, 3u32.wrapping_mul(number)]);
}

fn bound(memory: &Memory) -> Launch {
    Launch { buffers: vec![Some(memory.clone())], ..Launch::new(1) }
}

/// Waits until something holds of what is there. The thread of a launch lets go of its code a moment after the launch has ended.
fn until(cpu: &Cpu, what: &str, holds: impl Fn(CodeCacheStats) -> bool) {
    let began = Instant::now();
    while !holds(cpu.code_cache()) {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: {:?}", cpu.code_cache());
        std::thread::yield_now();
    }
}

/// Catches a cache that grows with every kernel, and machine code that is forgotten and never freed.
#[test]
fn what_is_kept_is_bounded() {
    let cpu = cpu();
    for number in 0..400 {
        let kernel = load(&cpu, number);
        if number % 50 == 0 {
            check(&cpu, &kernel, number);
        }
    }
    let stats = cpu.code_cache();
    assert_eq!((stats.compiled, stats.kept), (400, 64), "{stats:?}");
    until(&cpu, "nothing else is there", |stats| {
        (stats.live, stats.live_bytes) == (stats.kept, stats.kept_bytes)
    });
    assert!(cpu.code_cache().kept_bytes > 0);
    // The last ones are there, the first ones are not.
    for number in (336..400).chain(0..64) {
        check(&cpu, &load(&cpu, number), number);
    }
    assert_eq!(cpu.code_cache().compiled, 464);
}

/// Catches a cache that forgets what was there first instead of what was not used for longest.
#[test]
fn what_is_used_stays() {
    let cpu = cpu();
    for number in 1..200 {
        load(&cpu, 0);
        load(&cpu, number);
    }
    check(&cpu, &load(&cpu, 0), 0);
    assert_eq!(cpu.code_cache().compiled, 200);
}

/// Catches machine code that is freed while it is loaded or while it runs.
#[test]
fn what_runs_is_there_until_it_has_ended() {
    let cpu = cpu();
    let source = "buffer data: [u32; ?] host read_write\n\
         kernel main {\n  forever ^poll {\n    %go = atomic_load acquire system @data[0]\n    %set = ne %go, 0\n\
             if %set {\n      break ^poll\n    }\n    backoff 1000\n  }\n  store @data[1], 7\n}\n";
    let memory = cpu.alloc(MemoryKind::Host, WordWidth::W32, 2).unwrap();
    let resident = cpu.load(&module(source), None, 1).unwrap();
    let run = resident.launch(&bound(&memory)).unwrap();
    drop(resident);
    let loaded = load(&cpu, 1_000_000);
    (0..400).for_each(|number| drop(load(&cpu, number)));
    until(&cpu, "two more are there", |stats| stats.live == stats.kept + 2);
    check(&cpu, &loaded, 1_000_000);
    assert_eq!(run.wait(Some(Duration::ZERO)).unwrap(), None, "it runs");
    memory.words32().unwrap()[0].store(1, Ordering::Release);
    assert_eq!(run.wait(None).unwrap().unwrap().outcome, LaunchOutcome::Done);
    assert_eq!(memory.words32().unwrap()[1].load(Ordering::Relaxed), 7);
    drop((run, loaded));
    until(&cpu, "both are freed", |stats| (stats.live, stats.live_bytes) == (stats.kept, stats.kept_bytes));
    // A kernel outlives its device.
    let last = load(&cpu, 1_000_001);
    let memory = cpu.alloc(MemoryKind::Device, WordWidth::W32, 2).unwrap();
    memory.upload(0, &[5u32, 0]).unwrap();
    drop(cpu);
    last.run(&bound(&memory)).unwrap();
    assert_eq!(memory.bits().unwrap(), [5, 5_000_005]);
}
