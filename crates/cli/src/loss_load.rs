//! A load under which devices are lost: tasks that depend on nothing but their arguments, because what lies in the memory of a
//! device is lost with it. The demo and a benchmark use it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pelton::kernel::Visible;
use pelton::{Aim, Deadline, Geometry, Handler, Opcode, Recovery, Session, Span, Spec, Task};
use pelton_device::process::ProcessConfig;

use crate::demo::mix;
use crate::error::CliError;
use crate::stop;

/// The number of tasks that are submitted at once.
const SPAN: u64 = 256;
/// The number of spans that each thread has under way.
const UNDER_WAY: usize = 8;
/// The share of the device that the session takes. A GPU is lost by another kernel, which needs room beside it.
const SHARE: u32 = 50;
/// The time in milliseconds after which a thread gives up on a span.
const LATE_MS: u64 = 60_000;

const MIX: Opcode = Opcode::from_code(8);

/// What the threads that feed the kernel share.
pub(crate) struct LossLoad<'a> {
    session: &'a Session,
    began: Instant,
    /// The number of tasks that no thread has taken yet.
    left: AtomicU64,
    /// The number of tasks whose results have been checked.
    done: AtomicU64,
    wrong: AtomicU64,
    /// When a span ended last, in nanoseconds since the beginning, and the longest time between two such ends.
    last_ns: AtomicU64,
    gap_ns: AtomicU64,
    /// Whether threads must end early.
    over: AtomicBool,
}

/// Describes a device in a process of its own that can be lost on purpose. A device without `process:` before its name is
/// opened in such a process too.
pub(crate) fn losable_config(name: &str) -> ProcessConfig {
    let inner = name.strip_prefix("process:").unwrap_or(name);
    let config = match inner.strip_prefix("warm:") {
        Some(inner) => ProcessConfig::new(inner).warm(),
        None => ProcessConfig::new(inner),
    };
    config.losable()
}

/// A session of which tasks depend on their arguments alone, and that goes on after a loss.
pub(crate) fn loss_spec(producers: u32) -> Spec {
    let mix = Handler::from_text(include_str!("demo/mix.pel")).visible(Visible::Result);
    let slots = (SPAN * UNDER_WAY as u64).next_power_of_two() as u32;
    Spec::new(Geometry::new(slots))
        .share(SHARE)
        .producers(producers)
        .recovery(Recovery::On)
        .handler_at(MIX, "mix", mix)
}

impl<'a> LossLoad<'a> {
    /// A load of so many tasks.
    pub(crate) fn new(session: &'a Session, tasks: u64) -> Self {
        LossLoad {
            session,
            began: Instant::now(),
            left: AtomicU64::new(tasks),
            done: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
            gap_ns: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// The number of tasks whose results have been checked.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// The number of tasks that did not end with their result.
    pub(crate) fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Relaxed)
    }

    /// The longest time between the ends of two spans.
    pub(crate) fn longest_gap(&self) -> Duration {
        Duration::from_nanos(self.gap_ns.load(Ordering::Relaxed))
    }

    /// Lets all threads end when what they have submitted has ended.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Takes the next tasks, and returns their number; 0 if there are none left.
    fn take(&self) -> u64 {
        let most = |left: u64| Some(left.saturating_sub(SPAN));
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, most).unwrap_or(0);
        if stop::pressed() || self.over.load(Ordering::Relaxed) { 0 } else { left.min(SPAN) }
    }

    /// Feeds the kernel until no task is left. Every submitted task is waited for and checked.
    pub(crate) fn feed(&self, feeder: u32) -> Result<(), CliError> {
        let fed = self.spans(feeder);
        if fed.is_err() {
            self.end();
        }
        fed
    }

    fn spans(&self, feeder: u32) -> Result<(), CliError> {
        let producer = self.session.producer(0)?;
        let mut producer = producer.patience(Deadline::after_ms(LATE_MS)).aim(Aim::Throughput);
        let mut flight: VecDeque<(u32, Span)> = VecDeque::with_capacity(UNDER_WAY);
        for number in 0u32.. {
            let len = self.take();
            if len == 0 {
                break;
            }
            if flight.len() == UNDER_WAY {
                self.land(flight.pop_front())?;
            }
            let first = mix(feeder.wrapping_mul(0x9e37_79b9) ^ number);
            let task = |k: u64| Task::new(MIX).args([first.wrapping_add(k as u32)]);
            let tasks: Vec<Task> = (0..len).map(task).collect();
            flight.push_back((first, producer.submit_all(tasks)?));
        }
        while !flight.is_empty() {
            self.land(flight.pop_front())?;
        }
        Ok(())
    }

    /// Waits for the oldest span, and checks its results.
    fn land(&self, oldest: Option<(u32, Span)>) -> Result<(), CliError> {
        let Some((first, mut span)) = oldest else { return Ok(()) };
        span.wait(Deadline::after_ms(LATE_MS))?;
        let now = self.began.elapsed().as_nanos() as u64;
        let last = self.last_ns.fetch_max(now, Ordering::Relaxed);
        self.gap_ns.fetch_max(now.saturating_sub(last), Ordering::Relaxed);
        let expected = (0u32..).map(|k| Ok(mix(first.wrapping_add(k))));
        let wrong = span.results().zip(expected).filter(|(found, expected)| found != expected).count();
        self.wrong.fetch_add(wrong as u64, Ordering::Relaxed);
        self.done.fetch_add(span.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}
