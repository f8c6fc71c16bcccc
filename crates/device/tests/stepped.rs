//! The device that advances only when a simulation lets time pass, and the one that is lost when it says so.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pelton_device::losable::Losable;
use pelton_device::stepped::{Stepped, SteppedWorld};
use pelton_device::{Device, DeviceError, LaunchEnd, LaunchOutcome};

use common::{ECHO, SUM, launch, memory, module, words};

fn device(world: &Arc<SteppedWorld>) -> Arc<dyn Device> {
    Arc::new(Stepped::new(world, 2).unwrap())
}

/// Catches a kernel that runs by itself, a clock that is not the simulation's, and a lease that is not kept.
#[test]
fn nothing_happens_unless_time_passes() {
    let world = SteppedWorld::new(7);
    let device = device(&world);
    let module = module(ECHO);
    let kernel = device.load(&module, None, 1).unwrap();
    let buffers = memory(&device, &module, 1);
    let run = kernel.launch(&launch(1, &buffers).lease(Duration::from_millis(10))).unwrap();
    let (ask, answer) = (buffers[0].as_ref().unwrap(), buffers[1].as_ref().unwrap());
    ask.words32().unwrap()[0].store(5, Ordering::Relaxed);
    assert_eq!(run.wait(Some(Duration::ZERO)).unwrap(), None);
    assert_eq!((answer.words32().unwrap()[0].load(Ordering::Relaxed), world.now()), (0, Duration::ZERO));
    world.pass(Duration::from_millis(9), 1000);
    assert_eq!(answer.words32().unwrap()[0].load(Ordering::Relaxed), 5);
    run.renew();
    world.pass(Duration::from_millis(9), 0);
    assert_eq!(run.wait(Some(Duration::ZERO)).unwrap(), None);
    world.pass(Duration::from_millis(1), 0);
    let ended = Some(LaunchEnd { outcome: LaunchOutcome::Lease, fault: None });
    assert_eq!(run.wait(None).unwrap(), ended);
    assert_eq!(world.now(), Duration::from_millis(19));
}

/// Catches a wait that does not let the kernel run.
#[test]
fn whoever_waits_lets_time_pass() {
    let world = SteppedWorld::new(7);
    let device = device(&world);
    let module = module(SUM);
    let kernel = device.load(&module, None, 4).unwrap();
    let buffers = memory(&device, &module, 4);
    buffers[0].as_ref().unwrap().upload(0, &[1u32, 2, 3, 4]).unwrap();
    let run = kernel.launch(&launch(1, &buffers)).unwrap();
    assert_eq!(run.wait(None).unwrap(), Some(LaunchEnd { outcome: LaunchOutcome::Done, fault: None }));
    assert_eq!(words(&buffers[0]), [10; 4]);
    assert!(world.device_memory().iter().any(|memory| memory.len() == 4));
}

/// Catches a device that is lost too early, too late or more than once.
#[test]
fn a_device_is_lost_after_the_uses_that_were_given() {
    for uses in 0..6 {
        let losable = Arc::new(Losable::new(device(&SteppedWorld::new(7))));
        let device: Arc<dyn Device> = losable.clone();
        let module = module(SUM);
        losable.lose_after_uses(uses);
        let memory = memory(&device, &module, 4);
        let memory = memory[0].as_ref().unwrap();
        let failures: Vec<u32> = (1..6).filter(|_| memory.upload(0, &[1u32]).is_err()).collect();
        // The first use was the allocation, which a loss before it does not keep from succeeding.
        let wanted: Vec<u32> = (uses.max(1)..6).filter(|_| uses > 0).collect();
        assert_eq!(failures, wanted, "{uses} uses");
        assert_eq!(losable.losses(), u64::from(uses < 6), "{uses} uses");
        losable.fail_loads(1);
        assert!(matches!(device.load(&module, None, 4), Err(DeviceError::Codegen(_))));
        assert!(device.load(&module, None, 4).is_ok());
    }
}
