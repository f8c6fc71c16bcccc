//! From a `Spec` to a kernel. This is the one step that can refuse a `Spec`.
//!
//! Everything that users write is checked first: the [axes, tenants and regions](spec_checks) of the `Spec`, then each
//! [handler](handler_checks), then the [size](limits) of all handlers together, then the [graphs](graph_checks). What is
//! written after that is valid unless Pelton has a defect, and the validator has the last word on it.

mod graph_checks;
mod handler_checks;
mod limits;
mod spec_checks;

use pelton_device::Caps;
use pelton_ir::arena::Arena;
use pelton_ir::builder::Builder;
use pelton_ir::limits::MAX_INSTS;
use pelton_ir::module::Module;
use pelton_ir::pass::{
    self,
    inline::{Inlined, inline_calls},
};
use pelton_ir::text::ColorMode;
use pelton_ir::valid::{Valid, validate};

use super::context::KernelContext;
use super::dispatch::{self, CheckedHandler};
use super::error::AssembleError;
use super::fence::Fences;
use super::handler::NamedHandler;
use super::layout::{GraphLayout, Layout, StepLayout, TreeLayout};
use super::mode::Mode;
use super::spec::{Lifetime, Spec};
use super::window::WindowRunner;
use super::{drain, import, live};
use crate::protocol::Opcode;
use crate::protocol::graph::{HEADER_WORDS, NODE_WORDS};
use crate::simulated;

/// A kernel, and where everything that belongs to it lies.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// The module with the kernel. It can be printed and checked like any other module, and runs on any device that has
    /// what it needs.
    pub module: Valid,
    /// Where the rings, regions, counters and buffers of the kernel lie.
    pub layout: Layout,
}

/// Writes the kernel that a `Spec` asks for, for a device with these capabilities.
///
/// # Errors
///
/// [`AssembleError`] names the axis, tenant, region, handler, library or graph that cannot be assembled, and says why.
pub fn assemble(spec: &Spec, caps: &Caps) -> Result<Assembled, AssembleError> {
    assemble_after(None, spec, caps)
}

/// The kernel that a session has run so far, for the kernel that is to follow it.
#[derive(Clone, Copy)]
pub(crate) struct PreviousKernel<'a> {
    /// Where everything lies that the previous kernel leaves.
    pub layout: &'a Layout,
    /// Handlers that stand in for resumable handlers that were removed, because tasks of theirs may still have cells.
    pub stand_ins: &'a [NamedHandler],
}

/// Writes a kernel as [`assemble`] does. If it is to follow another kernel in a session, then everything that this one
/// leaves in the session's memory stays where it is, and what the new kernel needs beyond that comes after it.
pub(crate) fn assemble_after(
    previous: Option<PreviousKernel<'_>>,
    spec: &Spec,
    caps: &Caps,
) -> Result<Assembled, AssembleError> {
    spec_checks::check_spec(spec, caps)?;
    let libraries = import::check_libraries(spec)?;
    let mut handlers = handler_checks::check_handlers(spec, &libraries)?;
    graph_checks::check_graphs(spec)?;
    for stand_in in previous.iter().flat_map(|previous| previous.stand_ins) {
        handlers.push(handler_checks::check_handler(spec, stand_in, &libraries)?);
    }
    let layout = layout_after(previous.map(|previous| previous.layout), spec, caps, &handlers)?;
    let mut m = Builder::new();
    let fueled = handlers.iter().any(|handler| handler.code.takes_fuel());
    let kernel = KernelContext::new(&mut m, spec, layout, fueled);
    let table = dispatch::write_dispatch(&mut m, &kernel, &handlers);
    match &kernel.mode {
        Mode::Drain(mode) => {
            let fences = Fences::write(&mut m, &kernel, &mode.slots, Some(&mode.frontier));
            let run = WindowRunner { kernel: &kernel, slots: &mode.slots, table: &table, fences: &fences };
            drain::write_drain(&mut m, run, mode);
        }
        Mode::Live(rings) => live::write_live(&mut m, &kernel, rings, &table, caps),
    }
    let layout = kernel.layout.clone();
    let module = m.finish();
    limits::check_shared_memory(caps, &handlers, &module)?;
    Ok(Assembled { module: simulated::kernel_of(module, optimize_kernel)?, layout })
}

/// Validates and optimizes the kernel that was written.
fn optimize_kernel(module: Module) -> Result<Valid, AssembleError> {
    let module = check_kernel(module)?;
    let module = check_kernel(without_inlined_functions(inline_calls(&module, MAX_INSTS)))?;
    Ok(pass::optimize(&module))
}

/// The layout of a kernel with these handlers. If it follows another kernel in a session, it keeps what that one has, and
/// every opcode keeps its column of the counters.
fn layout_after(
    previous: Option<&Layout>,
    spec: &Spec,
    caps: &Caps,
    handlers: &[CheckedHandler<'_>],
) -> Result<Layout, AssembleError> {
    let resumable = handlers.iter().filter(|handler| handler.code.resumable);
    let launch = (spec.largest_graph() > 0).then_some(Opcode::LAUNCH_GRAPH);
    let (mut steps, mut trees) = (step_layout(spec, handlers), tree_layout(spec, handlers));
    if let Some(previous) = previous {
        (steps, trees) = (joint_steps(previous.steps, steps), joint_trees(previous.trees, trees));
    }
    let mut layout = Layout {
        resumable_ops: resumable.map(|handler| handler.handler.op).chain(launch).collect(),
        ..Layout::new(spec, caps, (steps, trees), previous.map(|previous| previous.banks))?
    };
    if let Some(previous) = previous {
        let added = layout.ops.iter().filter(|op| !previous.ops.contains(op)).copied();
        layout.ops = previous.ops.iter().copied().chain(added.collect::<Vec<_>>()).collect();
    }
    Ok(layout)
}

/// What two kernels that follow each other in a session need for steps: the frames are as large as the larger ones of the
/// two.
fn joint_steps(old: Option<StepLayout>, new: Option<StepLayout>) -> Option<StepLayout> {
    let frame_words = new.iter().chain(&old).map(|steps| steps.frame_words).max().unwrap_or(0);
    old.or(new).map(|steps| StepLayout { frame_words, ..steps })
}

/// What two kernels that follow each other in a session need for trees. This is what the old one has, unless only the new
/// one has handlers that spawn tasks. Then it differs from that, and the session refuses the new kernel.
fn joint_trees(old: Option<TreeLayout>, new: Option<TreeLayout>) -> Option<TreeLayout> {
    let spawn_cells = |trees: Option<TreeLayout>| trees.map_or(0, |trees| trees.spawn_cells);
    if spawn_cells(new) > spawn_cells(old) { new } else { old.or(new) }
}

/// What the layout needs for tasks that take several steps, if a handler is resumable.
fn step_layout(spec: &Spec, handlers: &[CheckedHandler<'_>]) -> Option<StepLayout> {
    let resumable = handlers.iter().filter(|handler| handler.code.resumable);
    let frame_words = resumable.map(|handler| handler.code.frame_words).max();
    let frame_words = frame_words.or_else(|| tree_layout(spec, handlers).map(|_| 0))?;
    let producer_cells = if spec.lifetime == Lifetime::Drain { 0 } else { spec.cells };
    Some(StepLayout { frame_words, producer_cells })
}

/// How many words there are for graphs at least.
const MIN_GRAPH_WORDS: u32 = 1 << 16;
/// How many graphs of the largest size and with eight edges per node there is room for at least.
const GRAPHS_OF_LARGEST_SIZE: u32 = 8;

/// How many words a graph with so many nodes and eight edges per node has.
const fn graph_words(nodes: u32) -> u32 {
    HEADER_WORDS as u32 + nodes * (NODE_WORDS as u32 + 8)
}

/// What the layout needs for tasks that make or await others, if there are any.
fn tree_layout(spec: &Spec, handlers: &[CheckedHandler<'_>]) -> Option<TreeLayout> {
    let spawns = handlers.iter().any(|handler| handler.has_children);
    let spawn_cells = if spawns { spec.spawn_cells } else { 0 };
    let nodes = spec.largest_graph();
    let graphs = (nodes > 0 && spec.lifetime == Lifetime::Persistent).then(|| GraphLayout {
        instances: spec.graph_instances,
        nodes,
        words: MIN_GRAPH_WORDS.max(GRAPHS_OF_LARGEST_SIZE * graph_words(nodes)),
    });
    let wanted = spawns || spec.events > 0 || graphs.is_some();
    wanted.then_some(TreeLayout { spawn_cells, events: spec.events, graphs })
}

/// Validates the kernel that was written. It is a defect of Pelton if it is not valid.
fn check_kernel(module: Module) -> Result<Valid, AssembleError> {
    validate(module).map_err(|e| AssembleError::Kernel(e.report("kernel", None, ColorMode::Plain)))
}

/// The module without the functions that its kernel no longer calls, because all of them were inlined.
fn without_inlined_functions(inlined: Inlined) -> Module {
    let mut module = Module::clone(&inlined.module);
    if inlined.left.is_empty() {
        let kernels = module.kernels().map(|kernel| module.functions[kernel].clone()).collect::<Vec<_>>();
        module.functions = Arena::default();
        for kernel in kernels {
            module.functions.push(kernel);
        }
    }
    module
}

/// The error that refuses a handler.
fn refuse_handler(handler: &NamedHandler, why: impl Into<String>) -> AssembleError {
    AssembleError::Handler { name: handler.name.clone(), op: handler.op, why: why.into() }
}
