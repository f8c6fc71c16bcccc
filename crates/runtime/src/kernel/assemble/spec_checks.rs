//! What can be wrong with a `Spec` apart from its handlers: axes, tenants, regions and formats.

use pelton_device::Caps;
use pelton_ir::types::{Access, Type};

use crate::graph::Graph;
use crate::identifier::is_identifier;
use crate::kernel::error::AssembleError;
use crate::kernel::handler::{ARG, FRAME, OBSERVABLE, PAYLOAD, REPLY};
use crate::kernel::kept;
use crate::kernel::layout::check_addressed;
use crate::kernel::placement::Placement;
use crate::kernel::spec::{Geometry, Io, Lifetime, Recovery, SlotBody, Spec};
use crate::kernel::tenant::{Region, RegionMemory, Tenant};
use crate::protocol::log::Format;

/// The most producers of all tenants together.
const MAX_PRODUCERS: u64 = 1024;

/// The longest name of a region, in characters.
const MAX_REGION_NAME: usize = 32;

/// Refuses a `Spec` whose axes, tenants, regions or formats cannot be.
pub(super) fn check_spec(spec: &Spec, caps: &Caps) -> Result<(), AssembleError> {
    kept::check_spec(spec)?;
    check_axes(spec, caps)?;
    check_places(spec)?;
    check_tenants(spec)?;
    check_regions(spec)?;
    check_formats(spec)
}

/// Refuses values of axes that do not work yet, or not on this device, or not together.
fn check_axes(spec: &Spec, caps: &Caps) -> Result<(), AssembleError> {
    let refuse = |axis, value, why| Err(AssembleError::Axis { axis, value, why });
    match spec.io {
        Io::Off => {}
        Io::Polled => return refuse("io", "polled", "nothing serves the requests of tasks yet"),
        Io::OnMiss => return refuse("io", "on_miss", "tasks cannot wait for data yet"),
    }
    if spec.lifetime == Lifetime::Persistent && !caps.persistent {
        let why = "the device cannot keep a kernel running; drain batches instead";
        return refuse("lifetime", "persistent", why);
    }
    if spec.lifetime == Lifetime::Drain && spec.placement == Some(Placement::Near) {
        return refuse("placement", "near", "a drained batch lies in host memory");
    }
    if spec.recovery == Recovery::On {
        check_recovery(spec)?;
    }
    if spec.body == SlotBody::Fused && spec.handlers.len() != 1 {
        let why = "a fused kernel runs its only handler, so there must be exactly one";
        return refuse("body", "fused", why);
    }
    if !spec.cells.is_power_of_two() || spec.cells > Geometry::MAX_SLOTS {
        return Err(AssembleError::Cells { found: spec.cells });
    }
    let cells = Spec::MIN_SPAWN_CELLS..=Geometry::MAX_SLOTS;
    if !spec.spawn_cells.is_power_of_two() || !cells.contains(&spec.spawn_cells) {
        return Err(AssembleError::SpawnCells { found: spec.spawn_cells });
    }
    if spec.events > Spec::MAX_EVENTS {
        let (what, found) = ("the number of events of a tenant", spec.events.into());
        return Err(AssembleError::Size { what, found, most: Spec::MAX_EVENTS.into() });
    }
    for (what, found, most) in [
        ("the number of instances of graphs", spec.graph_instances, Spec::MAX_GRAPH_INSTANCES),
        ("the number of nodes of a graph", spec.graph_nodes.max(1), Graph::MAX_NODES),
    ] {
        if !(1..=most).contains(&found) {
            return Err(AssembleError::Size { what, found: found.into(), most: most.into() });
        }
    }
    if spec.graph_nodes > 0 && spec.lifetime == Lifetime::Drain {
        return refuse("graph_nodes", "more than 0", "a drained batch cannot launch graphs");
    }
    if spec.events > 0 && spec.lifetime == Lifetime::Drain {
        return refuse("events", "more than 0", "tasks of a drained batch cannot wait for events");
    }
    match spec.max_steps {
        1..=Spec::MAX_STEPS => Ok(()),
        found => {
            let what = "the most steps of a task";
            Err(AssembleError::Size { what, found: found.into(), most: Spec::MAX_STEPS.into() })
        }
    }
}

/// Refuses what a session that recovers cannot have.
fn check_recovery(spec: &Spec) -> Result<(), AssembleError> {
    let refuse = |why| Err(AssembleError::Axis { axis: "recovery", value: "on", why });
    match spec {
        _ if spec.lifetime == Lifetime::Drain => refuse("a drained batch has no session that could recover"),
        _ => Ok(()),
    }
}

/// Refuses payloads and replies that are too large.
fn check_places(spec: &Spec) -> Result<(), AssembleError> {
    let most = u64::from(Spec::MAX_PLACE_BYTES);
    for (what, bytes) in
        [("the size of a payload in bytes", spec.payload), ("the size of a reply in bytes", spec.reply)]
    {
        if u64::from(bytes) > most {
            return Err(AssembleError::Size { what, found: bytes.into(), most });
        }
    }
    Ok(())
}

/// Refuses tenants that cannot be, and numbers of producers that are too small or too large.
fn check_tenants(spec: &Spec) -> Result<(), AssembleError> {
    for (at, tenant) in spec.tenants.iter().enumerate() {
        let refuse = |why: String| Err(AssembleError::Tenant { id: tenant.id, why });
        if tenant.id >= Tenant::MAX_TENANTS {
            return refuse(format!("tenants are numbered below {}", Tenant::MAX_TENANTS));
        }
        if spec.tenants[..at].iter().any(|t| t.id == tenant.id || t.name == tenant.name) {
            return refuse("another tenant has the same number or name".into());
        }
        if tenant.quota > Tenant::MAX_QUOTA {
            return refuse(format!(
                "its quota is {}, and may be at most {}",
                tenant.quota,
                Tenant::MAX_QUOTA
            ));
        }
        if let Some(weight) = tenant.weight.filter(|weight| !(1..=Tenant::MAX_WEIGHT).contains(weight)) {
            let most = Tenant::MAX_WEIGHT;
            return refuse(format!("its weight is {weight}, and must be at least 1 and at most {most}"));
        }
        let is_region = |name: &str| spec.regions.iter().any(|region| region.name == name);
        if let Some((name, _)) = tenant.sizes.iter().find(|(name, _)| !is_region(name)) {
            return refuse(format!("it gives the size of region {name:?}, and there is no such region"));
        }
    }
    let observables = spec.tenants.iter().map(|t| u64::from(t.observables)).sum();
    check_addressed("the number of observables", observables)?;
    match spec.tenants.iter().map(|t| u64::from(t.producers)).sum::<u64>() {
        0 => Err(AssembleError::Producers),
        1..=MAX_PRODUCERS => Ok(()),
        found => Err(AssembleError::Size { what: "the number of producers", found, most: MAX_PRODUCERS }),
    }
}

/// Refuses regions that cannot be.
fn check_regions(spec: &Spec) -> Result<(), AssembleError> {
    let refuse = |region: &Region, why: &str| {
        Err(AssembleError::Region { name: region.name.clone(), why: why.into() })
    };
    for (at, region) in spec.regions.iter().enumerate() {
        if !is_identifier(&region.name, MAX_REGION_NAME) {
            let why = format!(
                "its name must be up to {MAX_REGION_NAME} letters, digits and underscores, and must not start with a digit"
            );
            return refuse(region, &why);
        }
        let place = region.name == PAYLOAD && spec.payload > 0 || region.name == REPLY && spec.reply > 0;
        if place || [ARG, OBSERVABLE, FRAME].contains(&&*region.name) {
            return refuse(region, "the name is taken");
        }
        if spec.regions[..at].iter().any(|r| r.name == region.name) {
            return refuse(region, "another region has the same name");
        }
        if region.elem == Type::Bool {
            return refuse(region, "memory cannot hold elements of type bool");
        }
        if region.shared && region.access != Access::Read {
            return refuse(region, "a region that tenants share can only be read");
        }
    }
    match spec.regions.iter().find(|r| r.name == "data") {
        Some(data) if data.elem != Type::U32 || data.access != Access::ReadWrite || data.shared => {
            refuse(data, "this region must hold u32, must be writable, and cannot be shared by tenants")
        }
        Some(data) if data.memory == RegionMemory::Host => refuse(
            data,
            "this region must lie in the memory of the device, because built-in opcodes modify it atomically",
        ),
        Some(_) => Ok(()),
        None => Err(AssembleError::Region { name: "data".into(), why: "this region must exist".into() }),
    }
}

/// Refuses formats that PRINTF cannot print.
fn check_formats(spec: &Spec) -> Result<(), AssembleError> {
    for (id, format) in spec.formats.iter().enumerate() {
        format.parse::<Format>().map_err(|why| AssembleError::Format { id: id + 1, why: why.to_string() })?;
    }
    Ok(())
}
