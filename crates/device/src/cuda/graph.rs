//! Measures CUDA graphs, which give launches that are known beforehand to the device in one call. Benchmarks compare Pelton with them.

use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUgraph, CUgraphExec, CUstreamCaptureMode};

use crate::error::DeviceError;

use super::Cuda;
use super::current::{Current, FunctionHandle, GroupShape, StreamHandle};
use super::deferred::DeferredFree;
use super::link;
use super::raw::{DriverStatus, check};

/// A kernel that does nothing.
const PTX: &str = "\
.version 7.0
.target sm_80
.address_size 64

.visible .entry pelton_nothing(.param .u64 none)
{
	ret;
}
";

impl Cuda {
    /// Measures how long a CUDA graph takes from its launch to its end, once per round. The graph consists of `nodes` empty
    /// kernels, one after the other.
    pub fn graph(&self, nodes: u32, rounds: u32) -> Result<Vec<Duration>, DeviceError> {
        let cubin = link::cubin(&self.context, PTX, None)?;
        let alone = self.context.alone()?;
        let current = self.context.enter()?;
        let module = current.load(&cubin)?;
        let times = current.function(module, "pelton_nothing").and_then(|kernel| {
            let stream = current.stream()?;
            let times = times(current, kernel, stream, (nodes, rounds));
            DeferredFree::Stream(stream).free(current);
            times
        });
        DeferredFree::Module(module).free(current);
        drop(alone);
        Ok(times?)
    }
}

fn times(
    current: Current,
    kernel: FunctionHandle,
    stream: StreamHandle,
    (nodes, rounds): (u32, u32),
) -> Result<Vec<Duration>, DriverStatus> {
    let graph = LaunchGraph::capture(current, stream, || {
        // SAFETY: the kernel takes one word, and reads none.
        (0..nodes).try_for_each(|_| unsafe {
            current.launch(kernel, 1, GroupShape { lanes: 1, shared: 0 }, &mut [0], stream)
        })
    })?;
    let mut times = Vec::with_capacity(rounds as usize);
    // The first round is slower than the others and does not count.
    for round in 0..=rounds {
        let start = Instant::now();
        graph.launch(stream)?;
        current.synchronize(stream)?;
        times.extend((round > 0).then(|| start.elapsed()));
    }
    Ok(times)
}

/// A CUDA graph that can be launched.
pub(super) struct LaunchGraph {
    plan: CUgraph,
    made: CUgraphExec,
}

impl LaunchGraph {
    /// A graph that has neither a plan nor anything to launch yet.
    const EMPTY: LaunchGraph = LaunchGraph { plan: std::ptr::null_mut(), made: std::ptr::null_mut() };

    /// Captures what `put` queues on a stream.
    fn capture(
        _current: Current,
        stream: StreamHandle,
        put: impl FnOnce() -> Result<(), DriverStatus>,
    ) -> Result<Self, DriverStatus> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is there, and nobody else uses it.
        check("cuStreamBeginCapture", unsafe { sys::cuStreamBeginCapture_v2(stream.0, mode) })?;
        let put = put();
        let mut graph = LaunchGraph::EMPTY;
        // SAFETY: the driver writes one handle.
        let ended =
            check("cuStreamEndCapture", unsafe { sys::cuStreamEndCapture(stream.0, &mut graph.plan) });
        put.and(ended)?;
        graph.instantiate()
    }

    /// Makes a graph of what `add` adds to its plan.
    pub(super) fn from_plan(
        _current: Current,
        add: impl FnOnce(CUgraph) -> Result<(), DriverStatus>,
    ) -> Result<Self, DriverStatus> {
        let mut graph = LaunchGraph::EMPTY;
        // SAFETY: the driver writes one handle.
        check("cuGraphCreate", unsafe { sys::cuGraphCreate(&mut graph.plan, 0) })?;
        add(graph.plan)?;
        graph.instantiate()
    }

    fn instantiate(mut self) -> Result<Self, DriverStatus> {
        // SAFETY: the driver writes one handle; the plan is there.
        let made = unsafe { sys::cuGraphInstantiateWithFlags(&mut self.made, self.plan, 0) };
        check("cuGraphInstantiate", made)?;
        Ok(self)
    }

    /// Queues a launch on a stream, which must be synchronised before the graph is dropped.
    pub(super) fn launch(&self, stream: StreamHandle) -> Result<(), DriverStatus> {
        // SAFETY: the graph is there, and so is the stream.
        check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(self.made, stream.0) })
    }
}

impl Drop for LaunchGraph {
    fn drop(&mut self) {
        if !self.made.is_null() {
            // SAFETY: it was made, is not under way, and ends once. Failing here leaks it, no more.
            let _ = unsafe { sys::cuGraphExecDestroy(self.made) };
        }
        if !self.plan.is_null() {
            // SAFETY: as above.
            let _ = unsafe { sys::cuGraphDestroy(self.plan) };
        }
    }
}
