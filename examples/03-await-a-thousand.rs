//! A ticket is a future: this example awaits a thousand of them without any executor.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use pelton::{Opcode, Session, Spec, Task, device};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which sleeps while there is nothing to do.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Waits for all futures and returns their outputs in order.
async fn join<F: Future + Unpin>(mut all: Vec<F>) -> Vec<F::Output> {
    let mut outputs: Vec<Option<F::Output>> = all.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, output) in all.iter_mut().zip(&mut outputs).filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ready) = Pin::new(future).poll(cx) {
                *output = Some(ready);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let session = Session::launch(&device::open("auto")?, &Spec::default())?;
    let mut producer = session.producer(0)?;
    let add = Task::new(Opcode::ATOMIC_ADD).args([1, 0]);
    let tickets: Vec<_> = (0..1000).map(|_| producer.submit(add)).collect::<Result<_, _>>()?;
    let mut found = block_on(join(tickets)).into_iter().collect::<Result<Vec<u32>, _>>()?;
    found.sort();
    // In whatever order the tasks ran, each of them found a different count.
    assert_eq!(found, (0..1000).collect::<Vec<_>>());
    println!("a thousand tickets, each with its own number");
    Ok(())
}
