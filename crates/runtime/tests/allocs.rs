//! Tests that nothing allocates between submitting a task and seeing its end.
//!
//! The test has a process of its own, because it counts allocations: of all threads on the CPU device, and of the
//! host's threads on the interpreter, which may allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use pelton::device::open;
use pelton::kernel::Telemetry;
use pelton::workspace::RegionView;
use pelton::{Claim, Deadline, Geometry, Handler, Opcode, Placement, Producer, Session, Spec, Task};

/// An allocator that counts allocations and leaves the rest to the system.
struct Counting;

static ALL: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static MINE: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALL.fetch_add(1, Ordering::Relaxed);
    // A thread that is ending has no counter any more.
    let _ = MINE.try_with(|mine| mine.set(mine.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator unchanged, so its promises are kept.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller promises what the system's allocator requires of `layout`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` came from the system's allocator with this layout.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: `at` came from the system's allocator with this layout, and the caller promises what is required of
        // `size`.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Submits tasks and takes their results in every way that there is.
fn work(producer: &mut Producer, data: &RegionView<'_, u32>, waker: &Waker) {
    let task = Task::new(Opcode::ATOMIC_ADD).args([1, 0]);
    for _ in 0..200 {
        producer.submit(task).unwrap().wait(Deadline::Never).unwrap();
        let mut ticket = producer.submit(task).unwrap();
        while !ticket.has_ended() {
            std::thread::yield_now();
        }
        let mut ticket = producer.submit(task).unwrap();
        let mut context = Context::from_waker(waker);
        while Pin::new(&mut ticket).poll(&mut context) == Poll::Pending {
            std::thread::park();
        }
        let mut span = producer.submit_all([task; 10]).unwrap();
        assert_eq!(span.wait(Deadline::Never).unwrap().done, 10);
        assert_eq!(span.results().filter(Result::is_ok).count(), 10);
        let mut words = [0; 100];
        data.read_into(100, &mut words).unwrap();
        data.write(100, &words).unwrap();
    }
    // These are more tasks than slots, so the producer waits for room.
    let mut context = Context::from_waker(waker);
    for _ in 0..200 {
        let mut room = pin!(producer.submit_when_room(task));
        let submitted = loop {
            match room.as_mut().poll(&mut context) {
                Poll::Ready(ticket) => break ticket,
                Poll::Pending => std::thread::park(),
            }
        };
        drop(submitted.unwrap());
    }
}

/// Submits tasks with payloads, and takes their replies in every way that there is.
fn work_with_payloads(producer: &mut Producer, echo: Opcode) {
    let bytes: [u8; 61] = std::array::from_fn(|k| k as u8);
    let (mut reply, mut words) = ([0; 64], [0; 16]);
    for _ in 0..200 {
        let mut ticket = producer.submit(Task::new(echo).bytes(&bytes)).unwrap();
        assert_eq!(ticket.wait_bytes(Deadline::Never, &mut reply), Ok(61));
        assert_eq!(reply[..61], bytes);
        let tasks = [[1, 2], [3, 4], [5, 6]];
        let mut span = producer.submit_all(tasks.iter().map(|words| Task::new(echo).words(words))).unwrap();
        assert_eq!(span.wait(Deadline::Never).unwrap().done, 3);
        for (k, task) in tasks.iter().enumerate() {
            assert_eq!(span.reply_words(k, &mut words), Some(Ok(2)));
            assert_eq!(words[..2], *task);
        }
    }
}

/// Submits resumable tasks one by one, and takes their results.
fn work_in_steps(producer: &mut Producer, twice: Opcode) {
    for k in 0..200 {
        assert_eq!(producer.submit(Task::new(twice).args([k])).unwrap().wait(Deadline::Never), Ok(k));
    }
}

/// Finds a list of what a ticket holds, and a list of free cells that grows.
fn check_resumable_tasks() {
    let twice = Handler::lane_wide(|task| {
        task.step(|| task.yield_to_step(1));
        task.finish(task.arg(0));
    });
    for name in ["cpu", "reference"] {
        let device = open(name).unwrap();
        for placement in [Placement::Near, Placement::Far] {
            let spec = Spec::new(Geometry::new(64).lanes(8)).placement(placement).cells(16);
            let spec = spec.handler("twice", twice.clone());
            let session = Session::launch(&device, &spec).unwrap();
            let (mut producer, twice) = (session.producer(0).unwrap(), spec.opcode("twice").unwrap());
            producer.set_patience(Deadline::Never);
            work_in_steps(&mut producer, twice);
            let before = (ALL.load(Ordering::Relaxed), MINE.get());
            work_in_steps(&mut producer, twice);
            let after = (ALL.load(Ordering::Relaxed), MINE.get());
            assert_eq!(before.1, after.1, "{name}, {placement:?}: by this thread");
            if name == "cpu" {
                assert_eq!(before.0, after.0, "{name}, {placement:?}: by any thread");
            }
        }
    }
}

/// Finds a payload that is collected before it is copied, and a reply that is returned in a list.
fn check_payloads_and_replies() {
    let echo = Handler::lane_wide(|task| {
        let f = task.body();
        f.range((f.lit(0), f.len(task.payload()), f.lit(1)), (), |_, at, ()| {
            f.store(task.reply().at(at), f.load(task.payload().at(at)));
        });
        task.set_reply_len(task.payload_len());
    });
    for name in ["cpu", "reference"] {
        let device = open(name).unwrap();
        for placement in [Placement::Near, Placement::Far] {
            let spec = Spec::new(Geometry::new(64).lanes(8)).placement(placement).payload(64).reply(64);
            let spec = spec.handler("echo", echo.clone());
            let session = Session::launch(&device, &spec).unwrap();
            let (mut producer, echo) = (session.producer(0).unwrap(), spec.opcode("echo").unwrap());
            work_with_payloads(&mut producer, echo);
            let before = (ALL.load(Ordering::Relaxed), MINE.get());
            work_with_payloads(&mut producer, echo);
            let after = (ALL.load(Ordering::Relaxed), MINE.get());
            assert_eq!(before.1, after.1, "{name}, {placement:?}: by this thread");
            if name == "cpu" {
                assert_eq!(before.0, after.0, "{name}, {placement:?}: by any thread");
            }
        }
    }
}

/// Finds a boxed ticket, a list that grows, and a waiter that is created for each wait.
#[test]
fn nothing_allocates_between_submit_and_done() {
    // There is one test only, because allocations of other tests would be counted too.
    check_payloads_and_replies();
    check_resumable_tasks();
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    for name in ["cpu", "reference"] {
        let device = open(name).unwrap();
        for (placement, claim) in [(Placement::Near, Claim::PRIORITY), (Placement::Far, Claim::Owned)] {
            let spec = Spec::new(Geometry::new(64).lanes(8)).placement(placement).claim(claim);
            let session = Session::launch(&device, &spec.telemetry(Telemetry::Full)).unwrap();
            let mut producer = session.producer(0).unwrap();
            let data = session.view::<u32>(0, "data").unwrap();
            work(&mut producer, &data, &waker);
            let before = (ALL.load(Ordering::Relaxed), MINE.get());
            work(&mut producer, &data, &waker);
            let after = (ALL.load(Ordering::Relaxed), MINE.get());
            assert_eq!(before.1, after.1, "{name}, {placement:?}, {claim:?}: by this thread");
            if name == "cpu" {
                assert_eq!(before.0, after.0, "{name}, {placement:?}, {claim:?}: by any thread");
            }
        }
    }
}
