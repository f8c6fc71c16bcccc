//! What megakernel is wanted, as plain data.
//!
//! A [`Spec`] is a value: it can be cloned, compared, hashed, printed and read back. Each way in which kernels differ is
//! an axis of it, never another function. Nothing is checked here; [`assemble`](super::assemble) refuses what cannot be, by
//! name.

use std::time::Duration;

use pelton_ir::module::Module;

use super::error::UnknownOpcode;
use super::handler::{Handler, NamedHandler};
use super::placement::Placement;
use super::tenant::{Region, Tenant};
use crate::protocol::{Opcode, opcode};

/// How many slots, lanes and groups. What is left open suits the device.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Geometry {
    /// Slots of a ring, a power of two. Of a near ring each group has so many, unless there are as many groups as suit a device
    /// with memory of its own, or far rings too: then the groups share them out.
    pub slots: u32,
    /// Lanes of a group.
    pub lanes: Option<u32>,
    /// Groups that run tasks.
    pub groups: Option<u32>,
    /// The most tasks that a group takes at once.
    pub window: u32,
}

impl Geometry {
    /// The most slots a ring may have.
    pub const MAX_SLOTS: u32 = 1 << 24;
    /// The most tasks a group may take at once.
    pub const MAX_WINDOW: u32 = 256;

    /// Rings of so many slots.
    pub fn new(slots: u32) -> Self {
        Geometry { slots, lanes: None, groups: None, window: Self::MAX_WINDOW.min(slots) }
    }

    /// Groups of so many lanes.
    pub fn lanes(self, lanes: u32) -> Self {
        Geometry { lanes: Some(lanes), ..self }
    }

    /// So many groups that run tasks.
    pub fn groups(self, groups: u32) -> Self {
        Geometry { groups: Some(groups), ..self }
    }

    /// At most so many tasks at once.
    pub fn window(self, window: u32) -> Self {
        Geometry { window, ..self }
    }
}

impl Default for Geometry {
    /// Rings of 4,096 slots.
    fn default() -> Self {
        Geometry::new(4096)
    }
}

/// How long the kernel stays.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Lifetime {
    /// Until it is stopped; it is fed while it runs.
    #[default]
    Persistent,
    /// One pass over a batch.
    Drain,
}

/// Which tasks come first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Claim {
    /// Windows in ring order, rings in turn.
    #[default]
    Owned,
    /// A ring a level a producer, the most urgent first; every so many windows the level that has waited longest.
    #[allow(missing_docs)]
    Priority { every: u32 },
}

impl Claim {
    /// By priority, with every eighth window for the level that has waited longest.
    pub const PRIORITY: Claim = Claim::Priority { every: 8 };

    /// How many rings a producer has.
    pub fn levels(self) -> u32 {
        match self {
            Claim::Owned => 1,
            Claim::Priority { .. } => crate::protocol::Priority::ALL.len() as u32,
        }
    }
}

/// What runs in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SlotBody {
    /// The handler of its opcode, or what is built in.
    #[default]
    Dispatch,
    /// The one handler there is.
    Fused,
}

/// How tasks ask the host for data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Io {
    /// They do not.
    #[default]
    Off,
    /// The kernel looks for answers as it goes.
    Polled,
    /// A task that misses waits aside.
    OnMiss,
}

/// What comes back from a drained batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Report {
    /// Every slot's status and result.
    #[default]
    Full,
    /// The control words alone.
    Control,
}

/// What the kernel counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Telemetry {
    /// Tasks by opcode, tenant and priority; latency of one task in 1,024.
    #[default]
    Sampled,
    /// The same, and the latency of every task that is waited for.
    Full,
    /// Nothing.
    Off,
}

/// What megakernel is wanted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Spec {
    /// Slots, lanes, groups.
    pub geometry: Geometry,
    /// How long it stays.
    pub lifetime: Lifetime,
    /// Where its rings lie; what suits the device unless said.
    pub placement: Option<Placement>,
    /// Which tasks come first.
    pub claim: Claim,
    /// What runs in a slot.
    pub body: SlotBody,
    /// How tasks ask the host for data.
    pub io: Io,
    /// What comes back from a drained batch.
    pub report: Report,
    /// What it counts.
    pub telemetry: Telemetry,
    /// How much of the device it may take, in percent of the groups that are resident at once.
    pub share: u32,
    /// How long it may run without a sign of life from its host.
    pub lease: Duration,
    /// How many turns all loops of one task may take together; the task ends as a fault then.
    pub fuel: u32,
    /// The workspace. `data` is always there.
    pub regions: Vec<Region>,
    /// Who uses it. Tenant 0 is there unless others are named.
    pub tenants: Vec<Tenant>,
    /// What tasks can do beyond what is built in.
    pub handlers: Vec<NamedHandler>,
    /// Modules whose functions handlers can import.
    pub libraries: Vec<Module>,
    /// What PRINTF says, by format id.
    pub formats: Vec<String>,
}

/// The least of everything: persistent, in ring order, with what is built in.
impl Default for Spec {
    fn default() -> Self {
        Spec::new(Geometry::default())
    }
}

/// One setter an axis.
impl Spec {
    /// A kernel of this geometry; everything else as by default.
    pub fn new(geometry: Geometry) -> Self {
        Spec {
            geometry,
            lifetime: Lifetime::default(),
            placement: None,
            claim: Claim::default(),
            body: SlotBody::default(),
            io: Io::default(),
            report: Report::default(),
            telemetry: Telemetry::default(),
            share: 100,
            lease: Duration::from_secs(10),
            fuel: 1 << 20,
            regions: vec![Region::new("data", pelton_ir::types::Type::U32, 1024)],
            tenants: vec![Tenant::new(0)],
            handlers: Vec::new(),
            libraries: Vec::new(),
            formats: Vec::new(),
        }
    }

    /// Sets how long it stays.
    pub fn lifetime(self, lifetime: Lifetime) -> Self {
        Spec { lifetime, ..self }
    }

    /// Sets where its rings lie.
    pub fn placement(self, placement: Placement) -> Self {
        Spec { placement: Some(placement), ..self }
    }

    /// Sets which tasks come first.
    pub fn claim(self, claim: Claim) -> Self {
        Spec { claim, ..self }
    }

    /// Sets what runs in a slot.
    pub fn body(self, body: SlotBody) -> Self {
        Spec { body, ..self }
    }

    /// Sets how tasks ask the host for data.
    pub fn io(self, io: Io) -> Self {
        Spec { io, ..self }
    }

    /// Sets what comes back from a drained batch.
    pub fn report(self, report: Report) -> Self {
        Spec { report, ..self }
    }

    /// Sets what it counts.
    pub fn telemetry(self, telemetry: Telemetry) -> Self {
        Spec { telemetry, ..self }
    }

    /// Sets how much of the device it may take, in percent.
    pub fn share(self, share: u32) -> Self {
        Spec { share, ..self }
    }

    /// Sets how long it may run without a sign of life from its host.
    pub fn lease(self, lease: Duration) -> Self {
        Spec { lease, ..self }
    }

    /// Sets how many turns all loops of one task may take together.
    pub fn fuel(self, fuel: u32) -> Self {
        Spec { fuel, ..self }
    }

    /// Adds a region to the workspace, or changes the one of that name.
    pub fn region(mut self, region: Region) -> Self {
        match self.regions.iter_mut().find(|r| r.name == region.name) {
            Some(old) => *old = region,
            None => self.regions.push(region),
        }
        self
    }

    /// Adds a tenant, or changes the one of that number.
    pub fn tenant(mut self, tenant: Tenant) -> Self {
        match self.tenants.iter_mut().find(|t| t.id == tenant.id) {
            Some(old) => *old = tenant,
            None => self.tenants.push(tenant),
        }
        self
    }

    /// Gives tenant 0 so many producers.
    pub fn producers(self, producers: u32) -> Self {
        let tenant = self.tenants.iter().find(|t| t.id == 0).cloned().unwrap_or_else(|| Tenant::new(0));
        self.tenant(tenant.producers(producers))
    }

    /// Adds a handler under a name. Its opcode is the lowest of [`Opcode::ASSIGNED`] that no handler of this `Spec` has yet, so handlers that
    /// are added in the same order get the same opcodes; [`opcode`](Spec::opcode) looks it up. What is wrong with the handler is said by
    /// [`assemble`](super::assemble), and so is a `Spec` in which no opcode is free.
    ///
    /// ```
    /// use pelton::{Handler, Spec, Task};
    ///
    /// let spec = Spec::default().handler(
    ///     "add",
    ///     Handler::lane_wide(|task| {
    ///         let old = task.atomic_add(task.arg(0), task.arg(1));
    ///         task.finish(old);
    ///     }),
    /// );
    /// let add = spec.opcode("add")?;
    /// let task = Task::new(add).args([64, 5]);
    /// assert_eq!(spec.opcode("ad").unwrap_err().to_string(), r#"there is no opcode "ad"; did you mean "add"?"#);
    /// # Ok::<(), pelton::kernel::UnknownOpcode>(())
    /// ```
    pub fn handler(self, name: impl Into<String>, handler: Handler) -> Self {
        match Opcode::lowest_free(self.handlers.iter().map(|known| known.op)) {
            Some(op) => self.handler_at(op, name, handler),
            None => {
                let why = "there is no free opcode for it; give it one beyond those that are assigned";
                let handler = Handler { error: Some(why.into()), ..handler };
                self.handler_at(Opcode::from_code(*Opcode::ASSIGNED.end()), name, handler)
            }
        }
    }

    /// Adds a handler under a name and with an opcode of one's own choice. Add these before the handlers whose opcodes are assigned, or
    /// choose opcodes beyond [`Opcode::ASSIGNED`]: two handlers with one opcode are refused.
    pub fn handler_at(mut self, op: Opcode, name: impl Into<String>, handler: Handler) -> Self {
        self.handlers.push(NamedHandler::new(op, name.into(), handler));
        self
    }

    /// Adds a module whose functions handlers can import, such as one that [`text::parse`](pelton_ir::text::parse) gives. Its functions run
    /// as the handler's own code: in the tenant's regions, on the task's fuel.
    pub fn library(mut self, module: Module) -> Self {
        self.libraries.push(module);
        self
    }

    /// Looks up the opcode of a handler by its name, or a built-in opcode by its name in capitals or not. Look it up once, and make any
    /// number of tasks with it.
    ///
    /// # Errors
    ///
    /// [`UnknownOpcode`], which says which known name is nearest.
    pub fn opcode(&self, name: &str) -> Result<Opcode, UnknownOpcode> {
        let own = self.handlers.iter().find(|known| known.name == name).map(|known| known.op);
        own.or_else(|| Opcode::from_name(name)).ok_or_else(|| {
            let own = self.handlers.iter().map(|known| known.name.as_str());
            let nearest =
                pelton_ir::text::nearest_name(name, own.chain(opcode::TABLE.iter().map(|row| row.name)));
            UnknownOpcode { name: name.into(), nearest: nearest.map(String::from) }
        })
    }

    /// Adds what PRINTF says for the next format id, from 1 on.
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.formats.push(format.into());
        self
    }
}
