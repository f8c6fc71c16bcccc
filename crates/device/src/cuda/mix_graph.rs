//! Measures CUDA graphs whose nodes depend on each other and compute something. Benchmarks compare graphs of tasks with
//! them.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphNode};

use crate::error::DeviceError;

use super::Cuda;
use super::current::{Current, FunctionHandle, StreamHandle};
use super::deferred::DeferredFree;
use super::graph::LaunchGraph;
use super::link;
use super::raw::{DriverStatus, check};

/// A kernel that computes the number of a node. Its words are the addresses of the two numbers that it takes, the address
/// of its own number, and what it adds.
const PTX: &str = "\
.version 7.0
.target sm_80
.address_size 64

.visible .entry pelton_mix(.param .align 8 .b8 words[32])
{
	.reg .b64 %left, %right, %own;
	.reg .b32 %a, %b, %add;
	ld.param.u64 %left, [words];
	ld.param.u64 %right, [words+8];
	ld.param.u64 %own, [words+16];
	ld.param.u32 %add, [words+24];
	ld.global.u32 %a, [%left];
	ld.global.u32 %b, [%right];
	shf.l.wrap.b32 %b, %b, %b, 5;
	xor.b32 %a, %a, %b;
	add.u32 %a, %a, %add;
	st.global.u32 [%own], %a;
	ret;
}
";

/// A node that computes a number from two others: `(a ^ b.rotate_left(5)) + add`, without regard to overflow.
#[derive(Clone, Copy, Debug)]
pub struct MixNode {
    /// The nodes whose numbers it takes, by their places in the graph, which must be before its own. `None` stands for
    /// the parameter of the graph.
    pub inputs: [Option<u32>; 2],
    /// What it adds.
    pub add: u32,
}

/// What graphs of [`MixNode`]s have computed, and how long that took.
#[derive(Clone, Debug)]
pub struct MixedGraphs {
    /// How long each round took from the first launch to the last end.
    pub times: Vec<Duration>,
    /// The numbers of all nodes, for each graph.
    pub numbers: Vec<Vec<u32>>,
}

impl Cuda {
    /// Launches equal graphs side by side, one for each parameter, round after round for a while. Each graph has a stream
    /// and memory of its own. A round ends when all graphs have ended.
    ///
    /// # Panics
    ///
    /// Panics if a node takes the number of a node that does not come before it.
    pub fn mix_graphs(
        &self,
        nodes: &[MixNode],
        parameters: &[u32],
        time: Duration,
    ) -> Result<MixedGraphs, DeviceError> {
        let cubin = link::cubin(&self.context, PTX, None)?;
        let alone = self.context.alone()?;
        let current = self.context.enter()?;
        let module = current.load(&cubin)?;
        let mixed = current.function(module, "pelton_mix").and_then(|kernel| {
            let graph = |parameter: &u32| MixGraph::new(current, kernel, nodes, *parameter);
            run_rounds(&parameters.iter().map(graph).collect::<Result<Vec<_>, _>>()?, time)
        });
        DeferredFree::Module(module).free(current);
        drop(alone);
        Ok(mixed?)
    }
}

/// Launches all graphs in every round until the time is over.
fn run_rounds(graphs: &[MixGraph], time: Duration) -> Result<MixedGraphs, DriverStatus> {
    let mut times = Vec::new();
    let round = || {
        let start = Instant::now();
        graphs.iter().try_for_each(MixGraph::launch)?;
        graphs.iter().try_for_each(|graph| graph.current.synchronize(graph.stream))?;
        Ok(start.elapsed())
    };
    // The first round is slower than the others and does not count.
    round()?;
    let start = Instant::now();
    while start.elapsed() < time {
        times.push(round()?);
    }
    Ok(MixedGraphs { times, numbers: graphs.iter().map(MixGraph::numbers).collect::<Result<_, _>>()? })
}

/// A graph with its stream and its numbers.
struct MixGraph {
    current: Current,
    stream: StreamHandle,
    /// The address of the parameter, behind which the numbers of the nodes lie.
    parameter: u64,
    nodes: usize,
    graph: Option<LaunchGraph>,
}

impl MixGraph {
    fn new(
        current: Current,
        kernel: FunctionHandle,
        nodes: &[MixNode],
        parameter: u32,
    ) -> Result<Self, DriverStatus> {
        let stream = current.stream()?;
        let at = current
            .alloc(4 * (nodes.len() + 1))
            .inspect_err(|_| DeferredFree::Stream(stream).free(current))?;
        let mut mixed = MixGraph { current, stream, parameter: at, nodes: nodes.len(), graph: None };
        let word = (&raw const parameter).cast();
        // SAFETY: the word is there until the stream is synchronised right below, and so is the memory.
        unsafe { current.copy_in(at, word, 4, stream) }?;
        current.synchronize(stream)?;
        mixed.graph = Some(LaunchGraph::from_plan(current, |plan| add_nodes(plan, kernel, nodes, at))?);
        Ok(mixed)
    }

    fn launch(&self) -> Result<(), DriverStatus> {
        self.graph.as_ref().map_or(Ok(()), |graph| graph.launch(self.stream))
    }

    /// The numbers of the nodes.
    fn numbers(&self) -> Result<Vec<u32>, DriverStatus> {
        let mut numbers = vec![0u32; self.nodes];
        let to = numbers.as_mut_ptr().cast();
        // SAFETY: both are there until the stream is synchronised right below.
        unsafe { self.current.copy_out(to, self.parameter + 4, 4 * self.nodes, self.stream) }?;
        self.current.synchronize(self.stream)?;
        Ok(numbers)
    }
}

impl Drop for MixGraph {
    fn drop(&mut self) {
        self.graph = None;
        DeferredFree::Stream(self.stream).free(self.current);
        DeferredFree::Device(self.parameter).free(self.current);
    }
}

/// Adds kernels to a plan. The parameter of the graph lies at an address, and the numbers of the nodes behind it.
fn add_nodes(
    plan: CUgraph,
    kernel: FunctionHandle,
    nodes: &[MixNode],
    parameter: u64,
) -> Result<(), DriverStatus> {
    let mut handles: Vec<CUgraphNode> = Vec::with_capacity(nodes.len());
    for (place, node) in (1u64..).zip(nodes) {
        let [left, right] =
            node.inputs.map(|input| parameter + 4 * input.map_or(0, |input| u64::from(input) + 1));
        let mut words = [left, right, parameter + 4 * place, node.add.into()];
        let mut parameters: [*mut c_void; 1] = [words.as_mut_ptr().cast()];
        let mut before: Vec<CUgraphNode> =
            node.inputs.iter().flatten().map(|input| handles[*input as usize]).collect();
        // An edge may be given only once.
        before.dedup();
        let launch = CUDA_KERNEL_NODE_PARAMS {
            func: kernel.0,
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: parameters.as_mut_ptr(),
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the plan and the handles of earlier nodes are there, the driver writes one handle, and it copies the
        // words, of which the kernel takes as many, before it returns.
        let added = unsafe {
            sys::cuGraphAddKernelNode_v2(&mut handle, plan, before.as_ptr(), before.len(), &launch)
        };
        check("cuGraphAddKernelNode", added)?;
        handles.push(handle);
    }
    Ok(())
}
