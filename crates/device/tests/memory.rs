//! Memory, threads and the null device: the parts with unsafe code that need no compiled kernel, so that miri can run
//! them: `cargo +nightly miri test -p pelton-device --test memory`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pelton_device::event::Event;
use pelton_device::mapped::Mapped;
use pelton_device::null::{Faults, Null};
use pelton_device::{Device, DeviceError, Launch, LaunchOutcome, Memory, MemoryKind, Retry, WordWidth};
use pelton_ir::text;
use pelton_ir::valid::{Valid, validate};

#[test]
fn blocks_are_aligned_zero_and_of_one_width() {
    // The last are just short of a large page, and just beyond one.
    let lens: &[usize] =
        if cfg!(miri) { &[0, 1, 3, 1000] } else { &[0, 1, 3, 1000, (2 << 18) - 1024, (2 << 18) + 1] };
    for len in lens.iter().copied() {
        let block = Mapped::new(WordWidth::W32, len).unwrap();
        assert_eq!(block.start().as_ptr() as usize % 4096, 0);
        assert!(block.bytes() < 2 << 20 || (block.start().as_ptr() as usize).is_multiple_of(2 << 20));
        let words = block.words32().unwrap();
        assert!(words.len() == len && words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        assert!(block.words64().is_none());
        assert_eq!(Mapped::new(WordWidth::W64, len).unwrap().words64().unwrap().len(), len);
    }
    assert!(matches!(Mapped::new(WordWidth::W64, usize::MAX / 4), Err(DeviceError::Exhausted { .. })));
}

#[test]
fn both_sides_see_the_same_words() {
    let memory = Memory::mapped(MemoryKind::Host, WordWidth::W64, 4).unwrap();
    let other = memory.clone();
    let writer = std::thread::spawn(move || {
        other.words64().unwrap()[1].store(7, Ordering::Relaxed);
        other.words64().unwrap()[0].store(1, Ordering::Release);
    });
    while memory.words64().unwrap()[0].load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(memory.words64().unwrap()[1].load(Ordering::Relaxed), 7);
    writer.join().unwrap();
    let mut words = [0u64; 2];
    memory.upload(2, &[8u64, 9]).unwrap();
    memory.download(1, &mut words).unwrap();
    assert_eq!(words, [7, 8]);
    assert!(matches!(memory.upload(3, &[1u64, 2]), Err(DeviceError::Range { at: 3, count: 2, len: 4 })));
    assert!(matches!(memory.download(usize::MAX, &mut words), Err(DeviceError::Range { .. })));
}

#[test]
fn a_parked_worker_is_woken() {
    let (event, word) = (Arc::new(Event::default()), Arc::new(AtomicU32::new(0)));
    let worker = {
        let (event, word) = (event.clone(), word.clone());
        std::thread::spawn(move || {
            while word.load(Ordering::Acquire) == 0 {
                let key = event.announce();
                if word.load(Ordering::Acquire) == 0 {
                    event.park(key, None);
                } else {
                    event.cancel(key);
                }
            }
        })
    };
    std::thread::sleep(Duration::from_millis(5));
    word.store(1, Ordering::Release);
    event.wake();
    worker.join().unwrap();
}

fn module() -> Valid {
    validate(text::parse("buffer data: [u32; 1] global read_write\nkernel main {\n}\n").unwrap()).unwrap()
}

#[test]
fn the_null_device_fails_when_told_to() {
    let device = Null::new(Faults { alloc: Some(1), load: Some(1), launch: Some(1), ..Faults::default() });
    let memory = device.alloc(MemoryKind::Device, WordWidth::W32, 1).unwrap();
    assert_eq!(device.alloc(MemoryKind::Device, WordWidth::W32, 1).unwrap_err().retry(), Retry::Later);
    let kernel = device.load(&module(), None, 1).unwrap();
    assert_eq!(device.load(&module(), None, 1).unwrap_err().retry(), Retry::Never);
    let mut launch = Launch::new(1);
    launch.buffers = vec![Some(memory)];
    let run = kernel.launch(&launch).unwrap();
    assert_eq!(run.wait(Some(Duration::from_millis(1))).unwrap(), None);
    run.stop();
    assert_eq!(run.wait(None).unwrap().unwrap().outcome, LaunchOutcome::Stopped);
    assert_eq!(kernel.launch(&launch).unwrap_err().retry(), Retry::NewProcess);
    let device = Null::new(Faults { lost_after: Some(Duration::ZERO), ..Faults::default() });
    let run = device.load(&module(), None, 1).unwrap().launch(&launch).unwrap();
    assert_eq!(run.wait(None).unwrap_err().retry(), Retry::NewProcess);
}
