//! What can be seen of a session from outside.

mod latency;

pub use latency::Latency;
