//! From a `Spec` to a running kernel: memory, tables, start.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use pelton_device::{Device, Kernel, Launch, Memory, Placement, View64};
use pelton_ir::module::Module;

use super::core::{Core, Memories, Stripe};
use super::rights::{quota_limit, quota_word};
use crate::error::Error;
use crate::kernel::{Assembled, Geometry, Layout, Lifetime, Refused, STRIDE, Spec, Tenant, assemble};
use crate::protocol::control;
use crate::ring::{Home, Ring};

/// Assembles, allocates, fills in and starts.
pub(super) fn launch(device: &Arc<dyn Device>, spec: &Spec, start: u64) -> Result<Core, Error> {
    if spec.lifetime != Lifetime::Persistent {
        let (axis, value, why) = ("lifetime", "drain", "a session is persistent; `Drain` runs batches");
        return Err(Refused::Axis { axis, value, why }.into());
    }
    let (Assembled { module, layout }, kernel) = load(device, spec)?;
    let memories = match memories(device, &layout) {
        // Near rings were nobody's wish, and there is no room for them.
        Err(_) if spec.placement.is_none() && layout.placement == Placement::Both => {
            return launch(device, &spec.clone().placement(Placement::Far), start);
        }
        found => found?,
    };
    fill(spec, &layout, &memories, start)?;
    let launch = bind(spec, &module, &layout, &memories);
    let need = |name: &str| memories.get(name).ok_or_else(|| Error::Region(name.into()));
    let host = need("host")?.view32().ok_or_else(|| Error::Mapped("host".into()))?;
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
    let (slots, window) = (made.layout.slots().max(share), made.layout.window);
    let geometry = Geometry { slots, window, ..spec.geometry.clone().groups(workers) };
    let smaller = Spec { geometry, ..spec.clone() };
    let made = assemble(&smaller, device.caps())?;
    let kernel = device.load(&made.module, None, made.layout.lanes)?;
    Ok((made, kernel))
}

/// Memory for every buffer that the layout has. The optimiser may have dropped a buffer; its memory is harmless.
pub(crate) fn memories(device: &Arc<dyn Device>, layout: &Layout) -> Result<Memories, Error> {
    let one = |b: &crate::kernel::layout::Bound| Ok((b.name.clone(), device.alloc(b.kind, b.width, b.len)?));
    Ok(Memories(layout.buffers.iter().map(one).collect::<Result<_, Error>>()?))
}

/// The launch of a kernel with its memory.
pub(crate) fn bind(spec: &Spec, module: &Module, layout: &Layout, memories: &Memories) -> Launch {
    let mut launch = Launch::new(layout.groups).lease(spec.lease);
    for (name, memory) in &memories.0 {
        if let Some((buffer, _)) = module.buffers.iter().find(|(_, decl)| decl.name == *name) {
            launch = launch.bind(buffer, memory.clone());
        }
    }
    launch
}

/// Puts in what the kernel finds when it starts.
pub(crate) fn fill(spec: &Spec, layout: &Layout, memories: &Memories, start: u64) -> Result<(), Error> {
    let put32 = |name: &str, words: &[u32]| match memories.get(name) {
        Some(memory) => memory.upload(0, &words[..words.len().min(memory.len())]).map_err(Error::from),
        None => Ok(()),
    };
    let put64 = |name: &str, words: &[u64]| match memories.get(name) {
        Some(memory) => memory.upload(0, &words[..words.len().min(memory.len())]).map_err(Error::from),
        None => Ok(()),
    };
    let mut host = vec![0u32; control::OBSERVABLES as usize];
    host[control::TENANT_BASE as usize] = control::MASKS;
    for tenant in &spec.tenants {
        host[(control::MASKS + tenant.id) as usize] = tenant.mask;
        host[(control::QUOTAS + tenant.id) as usize] = quota_word(quota_limit(tenant.quota));
    }
    put32("host", &host)?;
    put32("mirror", &host)?;
    put32("rings", &layout.rings.iter().map(|ring| ring.tenant).collect::<Vec<_>>())?;
    put32("regions", &pieces(layout))?;
    put64("start", &vec![start; layout.all() as usize])?;
    // Tails, claims and frontiers have a stride each.
    let strides = |a_ring: usize| -> Vec<u64> {
        let words = layout.rings.len() * a_ring * STRIDE as usize;
        (0..words).map(|k| if k % STRIDE as usize == 0 { start } else { 0 }).collect()
    };
    put64("tails", &strides(1))?;
    put64("route", &strides(2))?;
    put64("front", &strides(1))
}

/// First element and number of elements of every piece, by tenant and column; the last column is the observables.
fn pieces(layout: &Layout) -> Vec<u32> {
    let mut words = Vec::new();
    for tenant in 0..Tenant::MOST as usize {
        let areas = layout.areas.iter().map(|area| area.pieces[tenant]);
        for (first, len) in areas.chain([layout.observables[tenant]]) {
            words.extend([first, len]);
        }
    }
    words
}

fn stripes(layout: &Layout, memories: &Memories, start: u64) -> Result<Vec<Stripe>, Error> {
    let memory = |name: &str| memories.get(name).ok_or_else(|| Error::Region(name.into()));
    let view = |name: &str| -> Result<View64, Error> {
        memory(name)?.view64().ok_or_else(|| Error::Mapped(name.into()))
    };
    let own = |len: usize| -> Result<View64, Error> {
        let memory = Memory::mapped(pelton_device::Kind::Host, pelton_device::Width::W64, len)?;
        memory.view64().ok_or_else(|| Error::Mapped("taken".into()))
    };
    let mut stripes = Vec::with_capacity(layout.all() as usize);
    for bed in &layout.beds {
        let slots = memory(&layout.named("slots", bed.placement))?;
        let home = match slots.view64() {
            Some(view) => Home::Mapped(view),
            None => Home::Near { memory: slots.clone(), copy: own(slots.len())? },
        };
        let done = view(&layout.named("done", bed.placement))?;
        let taken = own(done.len())?;
        let tails = if bed.placement == Placement::Far { Some(view("tails")?) } else { None };
        stripes.extend((0..bed.all() as usize).map(|at| Stripe {
            ring: Ring {
                lines: home.clone(),
                done: done.clone(),
                taken: taken.clone(),
                tail: tails.clone().map(|tails| (tails, at * STRIDE as usize)),
                first: at << bed.log2,
                log2: bed.log2,
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
