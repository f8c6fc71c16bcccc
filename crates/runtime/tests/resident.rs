//! A drain allocates its memory once, and its runs reuse it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pelton::device::{Caps, Device, DeviceError, Kernel, Memory, MemoryKind, WordWidth, open};
use pelton::ir::valid::Valid;
use pelton::{Batch, Claim, Drain, Geometry, Opcode, Spec, Task};

/// An allocator that counts the bytes which each thread allocates.
struct Counting;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A device that counts the memory which it allocates.
#[derive(Debug)]
struct Lender(Arc<dyn Device>, AtomicUsize);

impl Device for Lender {
    fn caps(&self) -> &Caps {
        self.0.caps()
    }

    fn alloc(&self, kind: MemoryKind, width: WordWidth, len: usize) -> Result<Memory, DeviceError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.alloc(kind, width, len)
    }

    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError> {
        self.0.load(module, kernel, lanes)
    }
}

#[test]
fn runs_reuse_memory() {
    for (claim, batches) in [(Claim::Owned, 1), (Claim::Owned, 64), (Claim::PRIORITY, 64)] {
        const TASKS: usize = 1 << 15;
        let lender = Arc::new(Lender(open("cpu").unwrap(), AtomicUsize::new(0)));
        let device: Arc<dyn Device> = lender.clone();
        let spec = Spec::new(Geometry::new(TASKS as u32 / 2).lanes(8).groups(2)).claim(claim);
        let mut drain = Drain::new(&device, &spec).unwrap();
        let lent = lender.1.load(Ordering::Relaxed);
        let mut all = vec![Batch::new(); batches];
        for k in 0..TASKS {
            all[k * batches / TASKS].push(0, Task::new(Opcode::ATOMIC_ADD).args([1, k as u32 % 9])).unwrap();
        }
        drain.run_all(&all).unwrap();
        for _ in 0..3 {
            let before = BYTES.get();
            let done = drain.run_all(&all).unwrap().statistics().done;
            // A launch may allocate something on the device, but less than one byte per task.
            let spent = BYTES.get() - before;
            assert_eq!(done, TASKS as u64);
            assert!(spent < TASKS, "{spent} bytes");
        }
        assert_eq!(lender.1.load(Ordering::Relaxed), lent);
    }
}
