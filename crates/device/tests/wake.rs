//! Who wakes groups of the CPU that sleep. Groups sleep until they are woken here, so a launch whose groups nobody wakes
//! is ended by its deadline.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pelton_device::cpu::{Cpu, CpuConfig};
use pelton_device::{Device, LaunchEnd, LaunchOutcome};

use common::{launch, memory, module, words};

/// Long enough for anything that ends at all.
const LONG: Duration = Duration::from_secs(60);

const DONE: LaunchEnd = LaunchEnd { outcome: LaunchOutcome::Done, fault: None };

/// Group 0 sleeps until there is something for it. Group 1 puts it there when the host says so, and never sleeps.
const ONE_WAKES_ANOTHER: &str = "
buffer go: [u32; 1] host read
buffer data: [u32; 2] global read_write

kernel main {
  %g = group
  %waits = eq %g, 0
  if %waits {
    forever ^poll {
      %f = atomic_load acquire device @data[0]
      %set = ne %f, 0
      if %set {
        break ^poll
      }
      backoff 1000000
    }
    %a = atomic_add relaxed device @data[1], 1
  } else {
    forever ^host {
      %h = atomic_load acquire system @go[0]
      %asked = ne %h, 0
      if %asked {
        break ^host
      }
      backoff 0
    }
    atomic_store release device @data[0], 7
    wake
  }
}
";

#[test]
fn a_group_that_sleeps_is_woken_by_another_group() {
    for lanes in [1, 5] {
        let device = Arc::new(Cpu::new(CpuConfig::default()).unwrap());
        device.sleep_until_woken();
        let dynamic: Arc<dyn Device> = device.clone();
        let module = module(ONE_WAKES_ANOTHER);
        let kernel = device.load(&module, None, lanes).unwrap();
        let buffers = memory(&dynamic, &module, 1);
        let run = kernel.launch(&launch(2, &buffers).deadline(LONG)).unwrap();
        while device.sleeping_groups() == 0 {
            std::thread::yield_now();
        }
        buffers[0].as_ref().unwrap().words32().unwrap()[0].store(1, Ordering::Release);
        assert_eq!(run.wait(None).unwrap(), Some(DONE), "{lanes} lanes");
        assert_eq!(words(&buffers[1]), [7, lanes], "{lanes} lanes");
    }
}

/// Two groups take turns. Lanes of a group look together and back off together. Each turn takes another time, so that the
/// other group is met in all states between awake and asleep.
const TAKE_TURNS: &str = "
buffer turn: [u32; 1] global read_write

kernel main {
  %g = group
  loop %k = 0 to 5000 step 1 {
    %first = mul %k, 2
    %mine = add %first, %g
    forever ^poll {
      %t = atomic_load acquire device @turn[0]
      %now = group_broadcast %t, 0
      %set = eq %now, %mine
      if %set {
        break ^poll
      }
      backoff 1000000
    }
    barrier
    %lane = lane
    %one = eq %lane, 0
    if %one {
      %begun = clock
      %part = rem %k, 64
      %short = mul %part, 500
      %ns = cast u64 %short
      forever ^works {
        %clock = clock
        %since = sub %clock, %begun
        %over = ge %since, %ns
        if %over {
          break ^works
        }
      }
      %next = add %mine, 1
      atomic_store release device @turn[0], %next
      wake
    }
  }
}
";

#[test]
fn no_wake_between_two_groups_is_lost() {
    let device: Arc<dyn Device> = {
        let device = Cpu::new(CpuConfig::default()).unwrap();
        device.sleep_until_woken();
        Arc::new(device)
    };
    let module = module(TAKE_TURNS);
    for lanes in [1, 2, 7] {
        let kernel = device.load(&module, None, lanes).unwrap();
        let buffers = memory(&device, &module, 1);
        let run = kernel.launch(&launch(2, &buffers).deadline(LONG)).unwrap();
        assert_eq!(run.wait(None).unwrap(), Some(DONE), "{lanes} lanes");
        assert_eq!(words(&buffers[0]), [10_000], "{lanes} lanes");
    }
}
