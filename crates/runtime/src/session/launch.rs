//! From a `Spec` to a running kernel: assembles and loads it, allocates and fills its memory, and launches it.

use std::sync::Arc;

use pelton_device::{Device, Kernel, Launch};
use pelton_ir::module::Module;

use super::fill::fill_buffers;
use super::kernel::SessionKernel;
use super::memory::{BufferMemories, DeviceMemory, MemoryOwner, RingMemory, kernel_memory};
use super::resize::fitting_workers;
use super::rings::Rings;
use super::run::ServedRings;
use super::running::residence_of;
use super::start::StartPositions;
use crate::error::Error;
use crate::kernel::{AssembleError, Assembled, Geometry, Layout, Lifetime, Placement, Spec, assemble};

/// What a launch makes: the rings with their first run, and the kernel with its memory.
pub(super) struct Launched {
    pub served: ServedRings,
    pub kernel: SessionKernel,
}

/// Assembles the kernel of a spec, allocates and fills its memory, and starts it.
pub(super) fn launch_session(
    device: &Arc<dyn Device>,
    spec: &Spec,
    starts: &StartPositions,
) -> Result<Launched, Error> {
    if spec.lifetime != Lifetime::Persistent {
        let (axis, value, why) = ("lifetime", "drain", "a session is persistent; `Drain` runs batches");
        return Err(AssembleError::Axis { axis, value, why }.into());
    }
    let (Assembled { module, layout }, loaded, geometry) = load_kernel(device, spec)?;
    let (rings, memory) = match allocate_memory(device, &layout) {
        // The spec did not insist on near rings, and the device has no room for them.
        Err(_) if spec.placement.is_none() && layout.placement() == Placement::Both => {
            let mut launched = launch_session(device, &spec.clone().placement(Placement::Far), starts)?;
            launched.kernel.spec = Arc::new(spec.clone());
            return Ok(launched);
        }
        found => found?,
    };
    let starts = starts.per_stripe(&layout)?;
    let memories = kernel_memory(&rings, &memory);
    fill_buffers(spec, &layout, &memories, &starts)?;
    let launch = bind_buffers(spec, &module, &layout, &memories);
    let layout = Arc::new(layout);
    let rings = Arc::new(Rings::new(layout.clone(), rings, &memory, &starts, spec)?);
    let launch = launch.residence(residence_of(&rings));
    let served = ServedRings::launch(rings, spec.lease, || Ok(loaded.launch(&launch)?))?;
    let kernel = SessionKernel {
        device: device.clone(),
        spec: Arc::new(spec.clone()),
        layout,
        memories,
        geometry,
        stand_ins: Vec::new(),
        loaded,
        launch,
    };
    Ok(Launched { served, kernel })
}

/// Allocates the memory of the rings, which is the smaller part, and then the memory at the device.
fn allocate_memory(device: &Arc<dyn Device>, layout: &Layout) -> Result<(RingMemory, DeviceMemory), Error> {
    let rings = RingMemory::allocate(MemoryOwner::Process, device, layout)?;
    Ok((rings, DeviceMemory::allocate(device, layout)?))
}

/// Assembles and loads the kernel of a spec. If the kernel turns out so large that fewer groups fit than it was
/// assembled for, it is assembled again for as many as fit. Also returns the geometry with which it was assembled.
fn load_kernel(
    device: &Arc<dyn Device>,
    spec: &Spec,
) -> Result<(Assembled, Arc<dyn Kernel>, Geometry), Error> {
    let made = assemble(spec, device.caps())?;
    let kernel = device.load(&made.module, None, made.layout.lanes)?;
    let fit = fitting_workers(&*kernel, spec.share, &made.layout);
    if spec.geometry.groups.is_some() || made.layout.workers <= fit {
        return Ok((made, kernel, spec.geometry.clone()));
    }
    let workers = fit.max(1);
    // A geometry with a given number of groups does not divide the slots of a near ring among them, so they are divided
    // here. Each stripe keeps its slots, or gets so many that all stripes together have as many as were asked for.
    let share = spec.geometry.slots.div_ceil(workers).next_power_of_two().min(spec.geometry.slots);
    let (slots, window) = (made.layout.largest_stripe().max(share), made.layout.window);
    let geometry = Geometry { slots, window, ..spec.geometry.clone().groups(workers) };
    let smaller = Spec { geometry, ..spec.clone() };
    let made = assemble(&smaller, device.caps())?;
    let kernel = device.load(&made.module, None, made.layout.lanes)?;
    Ok((made, kernel, smaller.geometry))
}

/// Makes the launch of a kernel, with every buffer of the module bound to its memory.
pub(crate) fn bind_buffers(
    spec: &Spec,
    module: &Module,
    layout: &Layout,
    memories: &BufferMemories,
) -> Launch {
    let mut launch = Launch::new(layout.groups).lease(spec.lease);
    for bound in &layout.buffers {
        let buffer = module.buffers.iter().find(|(_, decl)| decl.name == bound.name);
        if let (Some((buffer, _)), Some(memory)) = (buffer, memories.get(bound.key)) {
            launch = launch.bind(buffer, memory.clone());
        }
    }
    launch
}
