//! No thread outlives its device. Alone in its process, since it counts threads.

use std::time::Duration;

use pelton_device::{Launch, MemoryKind, WordWidth, open};
use pelton_ir::text;
use pelton_ir::valid::validate;

/// The threads of this process that Pelton started.
#[cfg(target_os = "linux")]
fn ours() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a process can see its threads");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("pelton-")).count()
}

#[cfg(target_os = "linux")]
#[test]
fn no_thread_outlives_its_device() {
    let source =
        "buffer data: [u32; 1] host read\nkernel main {\n  forever {\n    backoff 100000000\n  }\n}\n";
    let module = validate(text::parse(source).unwrap()).unwrap();
    for name in ["cpu", "reference"] {
        let device = open(name).unwrap();
        let memory = device.alloc(MemoryKind::Host, WordWidth::W32, 1).unwrap();
        let kernel = device.load(&module, None, 1).unwrap();
        let mut launch = Launch::new(8).deadline(Duration::from_secs(60));
        launch.buffers = vec![Some(memory)];
        let run = kernel.launch(&launch).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert!(ours() > 0, "{name} has threads while it runs");
        drop((device, kernel));
        assert!(ours() > 0, "the launch keeps what it needs");
        drop(run);
        // The system may still list a thread for a moment after it was joined.
        let began = std::time::Instant::now();
        while ours() > 0 {
            assert!(began.elapsed() < Duration::from_secs(30), "{name} leaves no thread behind");
            std::thread::yield_now();
        }
    }
}
