//! What the examples in the documentation share. This is no part of the public interface.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Runs a future on this thread by polling it until it is ready. Applications use the executor of their choice instead.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        std::thread::yield_now();
    }
}
