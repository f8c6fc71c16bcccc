//! The description of the kernel that a session or a drain runs, as plain data.
//!
//! A [`Spec`] is a value: it can be cloned, compared, hashed, printed and read back. Each way in which kernels can
//! differ is an axis of the `Spec`, which is one of its fields. Nothing is checked here: [`assemble`](super::assemble)
//! refuses combinations that cannot work, and names the axis, tenant, region or handler that is wrong.

use std::time::Duration;

use pelton_ir::module::Module;

use super::error::UnknownOpcode;
use super::handler::{Handler, NamedHandler};
use super::placement::Placement;
use super::tenant::{Region, Tenant};
use crate::graph::Graph;
use crate::protocol::{Opcode, opcode};

/// How many slots, lanes and groups a kernel has. Numbers that are left open are chosen to suit the device.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Geometry {
    /// How many slots a ring has, which must be a power of two. A near ring has this many slots for each group that
    /// polls it, with two exceptions: if there are far rings too, or if the number of groups is left open on a device
    /// with memory of its own, the ring has this many slots in total, which the groups divide among them.
    pub slots: u32,
    /// How many lanes a group has.
    pub lanes: Option<u32>,
    /// How many groups run tasks.
    pub groups: Option<u32>,
    /// The most tasks that a group takes at once.
    pub window: u32,
}

impl Geometry {
    /// The most slots that a ring may have.
    pub const MAX_SLOTS: u32 = 1 << 24;
    /// The most tasks that a group may take at once.
    pub const MAX_WINDOW: u32 = 256;

    /// Returns a geometry with this many slots per ring. The numbers of lanes and groups are chosen to suit the device.
    pub fn new(slots: u32) -> Self {
        Geometry { slots, lanes: None, groups: None, window: Self::MAX_WINDOW.min(slots) }
    }

    /// Sets how many lanes a group has.
    pub fn lanes(self, lanes: u32) -> Self {
        Geometry { lanes: Some(lanes), ..self }
    }

    /// Sets how many groups run tasks.
    pub fn groups(self, groups: u32) -> Self {
        Geometry { groups: Some(groups), ..self }
    }

    /// Sets the most tasks that a group takes at once.
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

/// How long a kernel stays on the device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Lifetime {
    /// The kernel stays until it is stopped, and is fed while it runs.
    #[default]
    Persistent,
    /// The kernel runs one pass over a batch, and ends.
    Drain,
}

/// In which order tasks are taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Claim {
    /// Rings are served in turn, and each ring in the order of its tasks. If tenants state weights, they share the turns
    /// by [weight](super::tenant::Tenant::weight()).
    #[default]
    Owned,
    /// Each producer has one ring per level of priority. The most urgent level that has tasks is served first. Once in
    /// `every` windows, the level that has waited longest comes first instead, so that no level starves.
    #[allow(missing_docs)]
    Priority { every: u32 },
}

impl Claim {
    /// Tasks are taken by priority, with every eighth window for the level that has waited longest.
    pub const PRIORITY: Claim = Claim::Priority { every: 8 };

    /// Returns how many rings each producer has: one, or one per level of priority.
    pub fn levels(self) -> u32 {
        match self {
            Claim::Owned => 1,
            Claim::Priority { .. } => crate::protocol::Priority::ALL.len() as u32,
        }
    }
}

/// How the code that runs for a slot is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SlotBody {
    /// A switch over opcodes chooses among the handlers and the built-in operations.
    #[default]
    Dispatch,
    /// The kernel has exactly one handler, and no built-in operations and no switch.
    Fused,
}

/// How tasks ask the host for data. Only [`Io::Off`] can be assembled yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Io {
    /// Tasks do not ask the host for data.
    #[default]
    Off,
    /// The kernel looks for answers of the host while it runs tasks.
    Polled,
    /// A task whose data is missing is put aside until the data is there.
    OnMiss,
}

/// What a drained batch gives back to the host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Report {
    /// The status and the result of every slot.
    #[default]
    Full,
    /// Only the control words, which include the counters.
    Control,
}

/// What is counted and measured while tasks run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Telemetry {
    /// Tasks are counted by opcode, tenant and priority, and the latency of one task in 1,024 is measured.
    #[default]
    Sampled,
    /// The same, but the latency of every task that is waited for is measured.
    Full,
    /// Nothing is counted or measured.
    Off,
}

/// Whether a session goes on after its device was lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Recovery {
    /// A session whose device is lost ends.
    #[default]
    Off,
    /// A session whose device is lost launches its kernel again, on the same device or on
    /// [another one](crate::Session::set_failover), and tasks that had not ended begin again. [`Class`](super::Class) says
    /// which tasks must not. `docs/recovery.md` has every promise.
    On,
}

/// In which order tasks run, which decides how [kept](super::Retention::Kept) regions are restored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum TaskOrder {
    /// Tasks run side by side, in any order.
    #[default]
    Free,
    /// One task runs at a time, and the kernel notes their order. After a loss, tasks run once more in that order, so handlers
    /// of every class may write kept regions. One group runs all tasks, which costs most of the throughput. Only a `Spec` with
    /// kept regions can have this.
    Serial,
}

/// The description of a kernel.
///
/// [`Spec::new`] describes a kernel that has only the built-in operations, and the other methods change one thing each.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Spec {
    /// How many slots, lanes and groups the kernel has.
    pub geometry: Geometry,
    /// How long the kernel stays on the device.
    pub lifetime: Lifetime,
    /// Where the rings lie. If this is `None`, they lie where it suits the device best.
    pub placement: Option<Placement>,
    /// In which order tasks are taken.
    pub claim: Claim,
    /// How the code that runs for a slot is chosen.
    pub body: SlotBody,
    /// How tasks ask the host for data.
    pub io: Io,
    /// What a drained batch gives back to the host.
    pub report: Report,
    /// What is counted and measured while tasks run.
    pub telemetry: Telemetry,
    /// Whether a session goes on after its device was lost.
    pub recovery: Recovery,
    /// In which order tasks run.
    pub order: TaskOrder,
    /// How much of the device the kernel may take, in percent of the groups that can be resident at once.
    pub share: u32,
    /// How long the kernel may run without a sign of life from its host before it ends. A session gives the sign by
    /// itself while its process runs.
    pub lease: Duration,
    /// How much work the loops of one task may do together. A turn of a loop takes one unit of fuel, and one more for
    /// every 256 instructions that it may run; short counted loops take none. A task that runs out of fuel ends with a
    /// fault.
    pub fuel: u32,
    /// The most steps that a task of a drained batch may take, at most [`Spec::MAX_STEPS`]. A task that asks for more
    /// ends with the fault FUEL. Only tasks of resumable handlers take more than one step.
    pub max_steps: u32,
    /// How many tasks of resumable handlers each producer of a session can have under way at once. It must be a power of
    /// two.
    pub cells: u32,
    /// How many spawned tasks each tenant can have under way at once, which must be a power of two and at least
    /// [`Spec::MIN_SPAWN_CELLS`]. Only kernels with a handler that calls `spawn` have room for spawned tasks.
    pub spawn_cells: u32,
    /// How many events each tenant has. Tasks signal events and wait for them.
    pub events: u32,
    /// How many launches of graphs can be under way at once. A launch beyond that waits.
    pub graph_instances: u32,
    /// The most nodes that a graph may have which is given to a session, unless one of [`graphs`](Spec::graphs) has more.
    /// If this is 0 and there are none, the session has no graphs.
    pub graph_nodes: u32,
    /// How many bytes the payload of a task may have. 0 means that tasks have no payloads.
    pub payload: u32,
    /// How many bytes the reply of a task may have. 0 means that tasks have no replies.
    pub reply: u32,
    /// The regions of the workspace. The region `data` must be among them.
    pub regions: Vec<Region>,
    /// The tenants that use the kernel. A new `Spec` has tenant 0.
    pub tenants: Vec<Tenant>,
    /// The handlers, which say what tasks can do beyond the built-in operations.
    pub handlers: Vec<NamedHandler>,
    /// Modules whose functions handlers can import.
    pub libraries: Vec<Module>,
    /// What PRINTF prints, by format id. The first format has id 1.
    pub formats: Vec<String>,
    /// The graphs of tasks that belong to the kernel. Their names differ.
    pub graphs: Vec<Graph>,
}

/// A persistent kernel that serves rings in turn and has only the built-in operations, with the default geometry.
impl Default for Spec {
    fn default() -> Self {
        Spec::new(Geometry::default())
    }
}

/// One method per axis.
impl Spec {
    /// Describes a kernel of this geometry. Everything else has its default.
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
            recovery: Recovery::default(),
            order: TaskOrder::default(),
            share: 100,
            lease: Duration::from_secs(10),
            fuel: 1 << 20,
            max_steps: 1 << 20,
            cells: 1024,
            spawn_cells: 4096,
            events: 0,
            graph_instances: 64,
            graph_nodes: 0,
            payload: 0,
            reply: 0,
            regions: vec![Region::new("data", pelton_ir::types::Type::U32, 1024)],
            tenants: vec![Tenant::new(0)],
            handlers: Vec::new(),
            libraries: Vec::new(),
            formats: Vec::new(),
            graphs: Vec::new(),
        }
    }

    /// Sets how long the kernel stays on the device.
    pub fn lifetime(self, lifetime: Lifetime) -> Self {
        Spec { lifetime, ..self }
    }

    /// Sets where the rings lie.
    pub fn placement(self, placement: Placement) -> Self {
        Spec { placement: Some(placement), ..self }
    }

    /// Sets in which order tasks are taken.
    pub fn claim(self, claim: Claim) -> Self {
        Spec { claim, ..self }
    }

    /// Sets how the code that runs for a slot is chosen.
    pub fn body(self, body: SlotBody) -> Self {
        Spec { body, ..self }
    }

    /// Sets how tasks ask the host for data.
    pub fn io(self, io: Io) -> Self {
        Spec { io, ..self }
    }

    /// Sets what a drained batch gives back to the host.
    pub fn report(self, report: Report) -> Self {
        Spec { report, ..self }
    }

    /// Sets what is counted and measured while tasks run.
    pub fn telemetry(self, telemetry: Telemetry) -> Self {
        Spec { telemetry, ..self }
    }

    /// Sets whether a session goes on after its device was lost.
    pub fn recovery(self, recovery: Recovery) -> Self {
        Spec { recovery, ..self }
    }

    /// Sets in which order tasks run.
    pub fn order(self, order: TaskOrder) -> Self {
        Spec { order, ..self }
    }

    /// Sets how much of the device the kernel may take, in percent of the groups that can be resident at once. Sessions that run
    /// beside each other on a GPU need shares that add up to at most 100.
    pub fn share(self, share: u32) -> Self {
        Spec { share, ..self }
    }

    /// Sets how long the kernel may run without a sign of life from its host.
    pub fn lease(self, lease: Duration) -> Self {
        Spec { lease, ..self }
    }

    /// Sets how much work the loops of one task may do together, in units of fuel, which the field `fuel` explains.
    pub fn fuel(self, fuel: u32) -> Self {
        Spec { fuel, ..self }
    }

    /// The greatest number that [`max_steps`](Spec::max_steps()) can set. The steps of all tasks of a window are counted
    /// in one word.
    pub const MAX_STEPS: u32 = u32::MAX / Geometry::MAX_WINDOW;

    /// Sets the most steps that a task of a drained batch may take, at most [`Spec::MAX_STEPS`].
    pub fn max_steps(self, max_steps: u32) -> Self {
        Spec { max_steps, ..self }
    }

    /// Sets how many tasks of resumable handlers each producer of a session can have under way at once. It must be a
    /// power of two.
    pub fn cells(self, cells: u32) -> Self {
        Spec { cells, ..self }
    }

    /// The least number that [`spawn_cells`](Spec::spawn_cells()) can set.
    pub const MIN_SPAWN_CELLS: u32 = 64;

    /// Sets how many spawned tasks each tenant can have under way at once. It must be a power of two, and at least
    /// [`Spec::MIN_SPAWN_CELLS`]. A handler that finds no room for the tasks that it wants to spawn does their work
    /// itself, so a few thousand suffice for trees of any size; see [`handler_trees`](super::handler_trees).
    pub fn spawn_cells(self, spawn_cells: u32) -> Self {
        Spec { spawn_cells, ..self }
    }

    /// The most events that a tenant may have.
    pub const MAX_EVENTS: u32 = 4096;

    /// Sets how many events each tenant has. An event is a count that only grows: tasks and the host signal it, and a
    /// task can wait until it has reached a number.
    pub fn events(self, events: u32) -> Self {
        Spec { events, ..self }
    }

    /// The most instances of graphs that [`graph_instances`](Spec::graph_instances()) can set.
    pub const MAX_GRAPH_INSTANCES: u32 = 4096;

    /// Sets how many launches of graphs can be under way at once, at most [`Spec::MAX_GRAPH_INSTANCES`].
    pub fn graph_instances(self, instances: u32) -> Self {
        Spec { graph_instances: instances, ..self }
    }

    /// Sets the most nodes that a graph may have which is given to a session with
    /// [`Session::add_graph`](crate::Session::add_graph), at most [`Graph::MAX_NODES`]. A session takes graphs that are
    /// as large as the largest of the `Spec`'s own without this.
    pub fn graph_nodes(self, nodes: u32) -> Self {
        Spec { graph_nodes: nodes, ..self }
    }

    /// Returns the most nodes that a graph may have which is given to a session, or 0 if the session has no graphs.
    pub(crate) fn largest_graph(&self) -> u32 {
        let own = self.graphs.iter().map(|graph| graph.nodes.len() as u32);
        own.chain([self.graph_nodes]).max().unwrap_or(0)
    }

    /// The most bytes that the payload or the reply of a task may have.
    pub const MAX_PLACE_BYTES: u32 = 1 << 19;

    /// Gives every slot room for a payload of up to so many bytes, which [`Task::bytes`](crate::Task::bytes) and
    /// [`Task::words`](crate::Task::words) fill and which handlers read from the buffer `payload`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use pelton::{Handler, Session, Spec, Task, device};
    ///
    /// let spec = Spec::default().payload(256).reply(64).handler(
    ///     "swap",
    ///     Handler::lane_wide(|task| {
    ///         let f = task.body();
    ///         let (payload, reply) = (task.payload(), task.reply());
    ///         f.store(reply.at(0), f.load(payload.at(1)));
    ///         f.store(reply.at(1), f.load(payload.at(0)));
    ///         task.set_reply_len(8);
    ///         task.finish(task.payload_len());
    ///     }),
    /// );
    /// let session = Session::launch(&device::open("cpu")?, &spec)?;
    /// let mut producer = session.producer(0)?;
    /// let mut ticket = producer.submit(Task::new(spec.opcode("swap")?).words(&[7, 9]))?;
    /// let mut reply = [0; 16];
    /// assert_eq!(ticket.wait_words(Duration::from_secs(60), &mut reply)?, 2);
    /// assert_eq!(reply[..2], [9, 7]);
    /// assert_eq!(ticket.result()?, 8, "the number of bytes of the payload");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn payload(self, bytes: u32) -> Self {
        Spec { payload: bytes, ..self }
    }

    /// Gives every slot room for a reply of up to so many bytes, which handlers write to the buffer `reply` and which
    /// [`Ticket::wait_bytes`](crate::Ticket::wait_bytes) and [`Ticket::wait_words`](crate::Ticket::wait_words) read.
    pub fn reply(self, bytes: u32) -> Self {
        Spec { reply: bytes, ..self }
    }

    /// Adds a region to the workspace, or replaces the region with the same name.
    pub fn region(mut self, region: Region) -> Self {
        match self.regions.iter_mut().find(|r| r.name == region.name) {
            Some(old) => *old = region,
            None => self.regions.push(region),
        }
        self
    }

    /// Adds a tenant, or replaces the tenant with the same number.
    pub fn tenant(mut self, tenant: Tenant) -> Self {
        match self.tenants.iter_mut().find(|t| t.id == tenant.id) {
            Some(old) => *old = tenant,
            None => self.tenants.push(tenant),
        }
        self
    }

    /// Sets how many producers tenant 0 has, and adds tenant 0 if it is not there. For other tenants, see
    /// [`Tenant::producers()`].
    pub fn producers(self, producers: u32) -> Self {
        let tenant = self.tenants.iter().find(|t| t.id == 0).cloned().unwrap_or_else(|| Tenant::new(0));
        self.tenant(tenant.producers(producers))
    }

    /// Adds a handler under a name. Its opcode is the lowest of [`Opcode::ASSIGNED`] that no handler of this `Spec` has
    /// yet, so handlers that are added in the same order get the same opcodes; [`opcode`](Spec::opcode) looks it up. If
    /// something is wrong with the handler, or if no opcode is free, [`assemble`](super::assemble) says so.
    ///
    /// A tenant's mask has one bit for each opcode up to 30 and one bit for all others together. So a tenant that may
    /// use one of the handlers from the 24th on may use all of them, and also PRINTF and, in a drained batch, SHUTDOWN.
    /// Add handlers that only some tenants may use first, or choose their opcodes with
    /// [`handler_at`](Spec::handler_at).
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
                let why =
                    "there is no free opcode for it; add it with an opcode beyond those that are assigned";
                let handler = Handler { error: Some(why.into()), ..handler };
                self.handler_at(Opcode::from_code(*Opcode::ASSIGNED.end()), name, handler)
            }
        }
    }

    /// Adds a handler under a name and with a chosen opcode. Two handlers with the same opcode are refused, so add such
    /// handlers before those whose opcodes are assigned, or choose opcodes beyond [`Opcode::ASSIGNED`].
    pub fn handler_at(mut self, op: Opcode, name: impl Into<String>, handler: Handler) -> Self {
        self.handlers.push(NamedHandler::new(op, name.into(), handler));
        self
    }

    /// Adds a module whose functions handlers can import, such as one that [`text::parse`](pelton_ir::text::parse)
    /// returns. Its functions run as part of the handler: they reach the tenant's regions and take the task's fuel.
    pub fn library(mut self, module: Module) -> Self {
        self.libraries.push(module);
        self
    }

    /// Looks up the opcode of a handler by its name, or a built-in opcode by its name in upper or lower case. Look it
    /// up once, and make any number of tasks with it.
    ///
    /// # Errors
    ///
    /// [`UnknownOpcode`] if there is no such name. The error suggests the nearest name that exists.
    pub fn opcode(&self, name: &str) -> Result<Opcode, UnknownOpcode> {
        let own = self.handlers.iter().find(|known| known.name == name).map(|known| known.op);
        own.or_else(|| Opcode::from_name(name)).ok_or_else(|| {
            let own = self.handlers.iter().map(|known| known.name.as_str());
            let nearest =
                pelton_ir::text::nearest_name(name, own.chain(opcode::TABLE.iter().map(|row| row.name)));
            UnknownOpcode { name: name.into(), nearest: nearest.map(String::from) }
        })
    }

    /// Whether tenants share rings by weight: several tenants have rings, and at least one of them states a weight.
    pub(super) fn shares_rings_by_weight(&self) -> bool {
        let served = || self.tenants.iter().filter(|tenant| tenant.producers > 0);
        self.lifetime == Lifetime::Persistent
            && served().count() > 1
            && served().any(|tenant| tenant.weight.is_some())
    }

    /// Adds what PRINTF prints for the next format id. The first format has id 1.
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.formats.push(format.into());
        self
    }

    /// Adds a graph. [`assemble`](super::assemble) checks it, and refuses two graphs with the same name.
    pub fn graph(mut self, graph: Graph) -> Self {
        self.graphs.push(graph);
        self
    }
}
