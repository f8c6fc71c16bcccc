//! The relation between the device's clock and the host's, so that a kernel can tell by itself that its host is gone.
//!
//! A kernel may run until a time of the *device's* clock, which the host moves on. The two clocks are compared once, when the device
//! is opened, by a kernel that stores the time. The host reads its clock before and after, so the shortest of a few tries is
//! right within microseconds. Afterwards the clocks may drift apart, which [`ClockPair::after`] allows for.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::DeviceError;
use crate::mapped::{Mapped, WordWidth};

use super::context::CudaContext;
use super::current::{Current, FunctionHandle, GroupShape, StreamHandle};
use super::deferred::DeferredFree;
use super::link;
use super::pinned::Pinned;
use super::raw::DriverStatus;

/// A kernel that stores the device's clock.
const PTX: &str = "\
.version 7.0
.target sm_80
.address_size 64

.visible .entry pelton_clock(.param .u64 to)
{
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [to];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u64 %rd3, %globaltimer;
	st.global.u64 [%rd2], %rd3;
	ret;
}
";

/// How often the clocks are compared; the shortest try counts.
const TRIES: u32 = 8;

/// How much later than the host a kernel ends an overdue launch. Normally the host does; the kernel ends by itself only if the
/// host is gone.
const GRACE: Duration = Duration::from_millis(100);

/// The clocks drift apart by less than one part in 2 to this power, about 240 parts in a million.
const DRIFT: u32 = 12;

/// What the clocks of host and device showed at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockPair {
    host: Instant,
    device_ns: u64,
}

impl ClockPair {
    /// Compares the clocks. The folder is the cache of compiled code.
    pub(super) fn new(context: &CudaContext, folder: Option<&std::path::Path>) -> Result<Self, DeviceError> {
        let cubin = link::cubin(context, PTX, folder)?;
        let alone = context.alone()?;
        let current = context.enter()?;
        let module = current.load(&cubin)?;
        let compared =
            current.function(module, "pelton_clock").map_err(DeviceError::from).and_then(|kernel| {
                let page = Pinned::new(current, Mapped::new(WordWidth::W64, 1)?)?;
                let stream = current.stream()?;
                let compared = compare(current, kernel, &page, stream);
                DeferredFree::Stream(stream).free(current);
                DeferredFree::Host(page).free(current);
                Ok(compared?)
            });
        DeferredFree::Module(module).free(current);
        drop(alone);
        compared
    }

    /// What the device's clock will show after `wait`, in nanoseconds. The time is late rather than early: it allows for the drift
    /// of the clocks, and adds a grace period.
    pub(super) fn after(&self, wait: Duration) -> u64 {
        self.at(self.host.elapsed(), wait)
    }

    fn at(&self, elapsed: Duration, wait: Duration) -> u64 {
        let wait = elapsed.saturating_add(elapsed / (1 << DRIFT)).saturating_add(wait).saturating_add(GRACE);
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        // The greatest number would mean that there is no limit.
        self.device_ns.saturating_add(wait_ns).min(u64::MAX - 1)
    }
}

fn compare(
    current: Current,
    kernel: FunctionHandle,
    page: &Pinned,
    stream: StreamHandle,
) -> Result<ClockPair, DriverStatus> {
    let mut best: Option<(Duration, ClockPair)> = None;
    for _ in 0..TRIES {
        let before = Instant::now();
        // SAFETY: the kernel takes one word, an address that is its own until the stream is waited for.
        unsafe { current.launch(kernel, 1, GroupShape { lanes: 1, shared: 0 }, &mut [page.at], stream) }?;
        current.synchronize(stream)?;
        let took = before.elapsed();
        let device_ns = page.block.words64().map_or(0, |words| words[0].load(Ordering::Relaxed));
        if best.as_ref().is_none_or(|(shortest, _)| took < *shortest) {
            best = Some((took, ClockPair { host: before + took / 2, device_ns }));
        }
    }
    Ok(best.map_or(ClockPair { host: Instant::now(), device_ns: 0 }, |(_, clock)| clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_lie_in_the_future_of_both_clocks() {
        let clock = ClockPair { host: Instant::now(), device_ns: 1_000_000_000 };
        let second = Duration::from_secs(1);
        assert_eq!(clock.at(Duration::ZERO, second), 2_100_000_000);
        // A day later the clocks may be apart by some twenty seconds.
        let day = Duration::from_secs(86_400);
        let after = clock.at(day, second) - 1_000_000_000 - day.as_nanos() as u64;
        assert!((20_000_000_000..25_000_000_000).contains(&after), "{after}");
        // No end is not a moment.
        assert_eq!(clock.at(Duration::MAX, Duration::MAX), u64::MAX - 1);
    }
}
