//! Tenants, which share a kernel, and the regions of memory that the kernel has for them.

use pelton_ir::types::{Access, Type};

use crate::protocol::{Opcode, control};

/// The number of a tenant, which is below [`Tenant::MAX_TENANTS`].
pub type TenantId = u32;

/// What becomes of the elements of a region when the device is lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Retention {
    /// The elements are lost with the device. After that they are zero, or what the user's
    /// [hook](crate::Session::on_recovery) has written.
    #[default]
    Volatile,
    /// The elements are restored: they hold what every task has written that had ended. This is only possible in sessions that
    /// [recover](super::spec::Recovery), and only handlers of the class [`Commuting`](super::Class::Commuting) may write
    /// such a region, unless tasks run [one at a time](super::spec::TaskOrder::Serial).
    Kept,
}

/// The memory that a region lies in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum RegionMemory {
    /// The memory of the device. This is the fastest for tasks; the host copies elements in and out.
    #[default]
    Device,
    /// Memory of the host, which the host and tasks read and write in place. On a device with memory of its own, every
    /// access of a task crosses the bus. It outlives the device: a session that [recovers](crate::Recovery) finds it as
    /// tasks and the host have left it.
    Host,
}

/// A named and typed part of the workspace. Either every tenant has elements of its own, or all tenants share the same
/// elements, which handlers can only read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Region {
    /// The name by which handlers refer to the region.
    pub name: String,
    /// The type of the elements.
    pub elem: Type,
    /// How many elements each tenant has, unless [`Tenant::sizes`] says otherwise.
    pub len: u32,
    /// How handlers may access the region.
    pub access: Access,
    /// Whether all tenants share the same elements.
    pub shared: bool,
    /// What becomes of the elements when the device is lost.
    pub retention: Retention,
    /// The memory that the region lies in.
    pub memory: RegionMemory,
}

impl Region {
    /// Returns a region in which every tenant has `len` elements of its own.
    pub fn new(name: impl Into<String>, elem: Type, len: u32) -> Self {
        Region {
            name: name.into(),
            elem,
            len,
            access: Access::ReadWrite,
            shared: false,
            retention: Retention::Volatile,
            memory: RegionMemory::Device,
        }
    }

    /// Returns a region of `len` elements that all tenants share and handlers can only read.
    pub fn shared(name: impl Into<String>, elem: Type, len: u32) -> Self {
        Region { access: Access::Read, shared: true, ..Region::new(name, elem, len) }
    }

    /// Makes the region read-only for handlers. The host can still write it.
    pub fn read_only(self) -> Self {
        Region { access: Access::Read, ..self }
    }

    /// Makes the region one that is restored after its device was lost. [`Retention::Kept`] says what that takes.
    pub fn kept(self) -> Self {
        Region { retention: Retention::Kept, ..self }
    }

    /// Returns whether the region is restored after its device was lost.
    pub fn is_kept(&self) -> bool {
        self.retention == Retention::Kept
    }

    /// Puts the region into the memory of the host, where tasks and the host read and write it in place.
    ///
    /// A task sees what the host wrote before it submitted the task, and whoever has seen the record of a task sees what
    /// the task wrote. Handlers reach the region as any other one, but cannot modify its elements atomically: common GPUs
    /// do not make that atomic against the host.
    ///
    /// ```
    /// use std::sync::atomic::Ordering::Relaxed;
    /// use std::time::Duration;
    /// use pelton::{Handler, Region, Session, Spec, Task, device};
    /// use pelton::ir::types::Type;
    ///
    /// let double = Handler::lane_wide(|task| {
    ///     let (f, words) = (task.body(), task.region::<u32>("words"));
    ///     f.store(words.at(1), f.load(words.at(0)) * 2);
    ///     task.finish(f.lit(0));
    /// });
    /// let spec = Spec::default().region(Region::new("words", Type::U32, 16).in_host_memory()).handler("double", double);
    /// let session = Session::launch(&device::open("cpu")?, &spec)?;
    /// let view = session.view::<u32>(0, "words")?;
    /// let words = view.words()?; // the words themselves, not a copy
    /// words[0].store(21, Relaxed);
    /// let double = Task::new(session.opcode("double")?);
    /// session.producer(0)?.submit(double)?.wait(Duration::from_secs(60))?;
    /// assert_eq!(words[1].load(Relaxed), 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn in_host_memory(self) -> Self {
        Region { memory: RegionMemory::Host, ..self }
    }
}

/// A user of a kernel: what it may do, how many tasks it may run, and what memory it has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tenant {
    /// The number of the tenant.
    pub id: TenantId,
    /// The name of the tenant in snapshots and messages.
    pub name: String,
    /// How many producers the tenant may have at once. Each producer is used by one thread.
    pub producers: u32,
    /// The opcodes that the tenant may use: bit i allows opcode i, and bit 31 allows all opcodes from 31 on. 0
    /// disables the tenant.
    pub mask: u32,
    /// How many tasks the tenant may start before it needs more credit, at most [`Tenant::MAX_QUOTA`]. 0 means no
    /// limit. Spawned tasks count like those that are submitted. The launch of a graph counts as one task, however many
    /// nodes the graph has.
    pub quota: u32,
    /// The tenant's share of the tasks that run, relative to the weights of other tenants. It is at least 1 and at most
    /// [`Tenant::MAX_WEIGHT`]. A tenant that states none has weight 1.
    pub weight: Option<u32>,
    /// How many observables the tenant has. Observables are words that tasks show to the host: LOAD_U32 and fences
    /// write them.
    pub observables: u32,
    /// The names of the regions in which the tenant does not have the usual number of elements, each with the number
    /// that it has.
    pub sizes: Vec<(String, u32)>,
}

impl Tenant {
    /// The greatest number of tenants that a kernel can have. The numbers of tenants are below it.
    pub const MAX_TENANTS: u32 = control::TENANTS as u32;
    /// The greatest number of tasks for which a tenant may have credit at once. The kernel's account holds a little
    /// more, because groups charge whole windows, give back what they do not take, and must not overflow the account
    /// in the meantime.
    pub const MAX_QUOTA: u32 = 1_000_000_000;

    /// Returns a tenant that has one producer and may use every opcode, without a limit on its tasks.
    pub fn new(id: TenantId) -> Self {
        Tenant {
            id,
            name: id.to_string(),
            producers: 1,
            mask: u32::MAX,
            quota: 0,
            weight: None,
            observables: 0,
            sizes: Vec::new(),
        }
    }

    /// Sets the name of the tenant.
    pub fn name(self, name: impl Into<String>) -> Self {
        Tenant { name: name.into(), ..self }
    }

    /// Sets how many producers the tenant may have at once.
    pub fn producers(self, producers: u32) -> Self {
        Tenant { producers, ..self }
    }

    /// Sets the opcodes that the tenant may use: bit i allows opcode i, and bit 31 allows all opcodes from 31 on.
    pub fn mask(self, mask: u32) -> Self {
        Tenant { mask, ..self }
    }

    /// Allows only these opcodes. All opcodes from 31 on share one bit, so allowing one of them allows them all.
    pub fn allow(self, ops: &[Opcode]) -> Self {
        self.mask(Opcode::mask_of(ops))
    }

    /// Sets how many tasks the tenant may start before it needs more credit, at most [`Tenant::MAX_QUOTA`]. 0 means no
    /// limit. The field `quota` says what counts as a task.
    pub fn quota(self, quota: u32) -> Self {
        Tenant { quota, ..self }
    }

    /// The greatest weight that a tenant may have.
    pub const MAX_WEIGHT: u32 = 1000;

    /// Sets the tenant's share of the tasks that run. While several tenants have tasks that wait at the same level of
    /// priority, each group takes their tasks in proportion to the weights of the tenants, however many producers they
    /// have. For resumable tasks, this divides the steps too, if they are alike.
    ///
    /// If no tenant of a `Spec` states a weight, then resumable tasks are taken as if all tenants had weight 1, but other
    /// tasks are taken by producer in turn, so that a tenant with more producers gets more of them.
    pub fn weight(self, weight: u32) -> Self {
        Tenant { weight: Some(weight), ..self }
    }

    /// Sets how many observables the tenant has.
    pub fn observables(self, observables: u32) -> Self {
        Tenant { observables, ..self }
    }

    /// Sets how many elements the tenant has in a region.
    pub fn size(mut self, region: impl Into<String>, len: u32) -> Self {
        let region = region.into();
        self.sizes.retain(|(name, _)| *name != region);
        self.sizes.push((region, len));
        self
    }

    /// Returns how many elements the tenant has in a region.
    pub fn region_len(&self, region: &Region) -> u32 {
        if region.shared {
            return region.len;
        }
        self.sizes.iter().rev().find(|(name, _)| *name == region.name).map_or(region.len, |(_, len)| *len)
    }
}
