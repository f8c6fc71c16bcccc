//! From a `Spec` to a running kernel: memory, tables, start.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use pelton_device::{Device, Kernel, Launch, Memory, View64};
use pelton_ir::module::Module;

use super::core::{Core, Memories, Stripe};
use super::fill::fill;
use crate::error::Error;
use crate::kernel::layout::BoundBuffer;
use crate::kernel::{
    AssembleError, Assembled, BufferId, Geometry, Layout, Lifetime, Placement, STRIDE, Spec, assemble,
};
use crate::ring::{HostRing, SlotMemory};

/// Assembles, allocates, fills in and starts.
pub(super) fn launch(device: &Arc<dyn Device>, spec: &Spec, start: u64) -> Result<Core, Error> {
    if spec.lifetime != Lifetime::Persistent {
        let (axis, value, why) = ("lifetime", "drain", "a session is persistent; `Drain` runs batches");
        return Err(AssembleError::Axis { axis, value, why }.into());
    }
    let (Assembled { module, layout }, kernel) = load(device, spec)?;
    let memories = match memories(device, &layout) {
        // Near rings were nobody's wish, and there is no room for them.
        Err(_) if spec.placement.is_none() && layout.placement() == Placement::Both => {
            return launch(device, &spec.clone().placement(Placement::Far), start);
        }
        found => found?,
    };
    fill(spec, &layout, &memories, &vec![start; layout.stripe_count() as usize])?;
    let launch = bind(spec, &module, &layout, &memories);
    let host = memories.need(BufferId::Host)?.view32().ok_or(Error::Internal("host"))?;
    let stripes = stripes(&layout, &memories, start)?;
    let run = kernel.launch(&launch)?;
    Ok(Core::new(spec.clone(), layout, stripes, memories, host, run))
}

/// Assembles and loads. If the kernel turns out so large that fewer groups than suit the device fit, it gets those.
fn load(device: &Arc<dyn Device>, spec: &Spec) -> Result<(Assembled, Arc<dyn Kernel>), Error> {
    let made = assemble(spec, device.caps())?;
    let kernel = device.load(&made.module, None, made.layout.lanes)?;
    let fit = (u64::from(kernel.resident()) * u64::from(spec.share) / 100) as u32;
    if spec.geometry.groups.is_some() || made.layout.groups <= fit {
        return Ok((made, kernel));
    }
    let workers = fit.saturating_sub(made.layout.groups - made.layout.workers).max(1);
    // Groups that are asked for by number do not share a near ring's slots out, and these must: they have what they have, or as much as
    // it takes that all of them together have as many slots as were asked for.
    let share = spec.geometry.slots.div_ceil(workers).next_power_of_two().min(spec.geometry.slots);
    let (slots, window) = (made.layout.largest_stripe().max(share), made.layout.window);
    let geometry = Geometry { slots, window, ..spec.geometry.clone().groups(workers) };
    let smaller = Spec { geometry, ..spec.clone() };
    let made = assemble(&smaller, device.caps())?;
    let kernel = device.load(&made.module, None, made.layout.lanes)?;
    Ok((made, kernel))
}

/// Memory for every buffer that the layout has. The optimiser may have dropped a buffer; its memory is harmless.
pub(crate) fn memories(device: &Arc<dyn Device>, layout: &Layout) -> Result<Memories, Error> {
    let one = |b: &BoundBuffer| Ok((b.key, device.alloc(b.kind, b.width, b.len)?));
    Ok(Memories(layout.buffers.iter().map(one).collect::<Result<_, Error>>()?))
}

/// The launch of a kernel with its memory.
pub(crate) fn bind(spec: &Spec, module: &Module, layout: &Layout, memories: &Memories) -> Launch {
    let mut launch = Launch::new(layout.groups).lease(spec.lease);
    for bound in &layout.buffers {
        let buffer = module.buffers.iter().find(|(_, decl)| decl.name == bound.name);
        if let (Some((buffer, _)), Some(memory)) = (buffer, memories.get(bound.key)) {
            launch = launch.bind(buffer, memory.clone());
        }
    }
    launch
}

fn stripes(layout: &Layout, memories: &Memories, start: u64) -> Result<Vec<Stripe>, Error> {
    let view = |id: BufferId| -> Result<View64, Error> {
        memories.need(id)?.view64().ok_or(Error::Internal(id.row().names[0]))
    };
    let own = |len: usize| -> Result<View64, Error> {
        let memory = Memory::mapped(pelton_device::Kind::Host, pelton_device::Width::W64, len)?;
        memory.view64().ok_or_else(|| Error::Mapped("taken".into()))
    };
    let mut stripes = Vec::with_capacity(layout.stripe_count() as usize);
    for bank in layout.banks.iter() {
        let (slots, done, tails) = match bank.placement {
            Placement::Near => (BufferId::NearSlots, BufferId::NearDone, None),
            _ => (BufferId::FarSlots, BufferId::FarDone, Some(view(BufferId::Tails)?)),
        };
        let slots = memories.need(slots)?;
        let home = match slots.view64() {
            Some(view) => SlotMemory::Mapped(view),
            None => SlotMemory::Near { memory: slots.clone(), copy: own(slots.len())? },
        };
        let done = view(done)?;
        let taken = own(done.len())?;
        stripes.extend((0..bank.stripe_count() as usize).map(|at| Stripe {
            ring: HostRing {
                lines: home.clone(),
                done: done.clone(),
                taken: taken.clone(),
                tail: tails.clone().map(|tails| (tails, at * STRIDE as usize)),
                first: at << bank.log2_slots,
                log2: bank.log2_slots,
            },
            tail: AtomicU64::new(start),
            free: AtomicU64::new(start),
            start,
            waiting: AtomicUsize::new(0),
            waiters: OnceLock::new(),
        }));
    }
    Ok(stripes)
}
