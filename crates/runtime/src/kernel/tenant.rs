//! Who uses a kernel, and what memory it has for them.

use pelton_ir::types::{Access, Type};

use crate::protocol::{Opcode, control};

/// The number of a tenant, below [`Tenant::MAX_TENANTS`].
pub type TenantId = u32;

/// A named, typed piece of the workspace. Every tenant has its own, or all share one that is only read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Region {
    /// How handlers name it.
    pub name: String,
    /// What it holds.
    pub elem: Type,
    /// How many elements a tenant has, unless the tenant says otherwise.
    pub len: u32,
    /// What handlers may do with it.
    pub access: Access,
    /// Whether all tenants see the same one.
    pub shared: bool,
}

impl Region {
    /// Elements of their own for every tenant.
    pub fn new(name: impl Into<String>, elem: Type, len: u32) -> Self {
        Region { name: name.into(), elem, len, access: Access::ReadWrite, shared: false }
    }

    /// Elements that all tenants read and none writes.
    pub fn shared(name: impl Into<String>, elem: Type, len: u32) -> Self {
        Region { access: Access::Read, shared: true, ..Region::new(name, elem, len) }
    }

    /// Handlers may only read it; the host writes it.
    pub fn read_only(self) -> Self {
        Region { access: Access::Read, ..self }
    }
}

/// Who uses a kernel: what they may do, how much, and with what memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tenant {
    /// Its number.
    pub id: TenantId,
    /// What people call it.
    pub name: String,
    /// How many threads may feed the kernel for it at once.
    pub producers: u32,
    /// What it may do: bit i allows opcode i, bit 31 all from 31 on. 0 disables it.
    pub mask: u32,
    /// How many tasks it may begin before it needs more credit, at most [`Tenant::MAX_QUOTA`]; 0 is no limit.
    pub quota: u32,
    /// How many observables it has.
    pub observables: u32,
    /// Regions in which it has more or fewer elements than others.
    pub sizes: Vec<(String, u32)>,
}

impl Tenant {
    /// Tenants are numbered below this.
    pub const MAX_TENANTS: u32 = control::TENANTS as u32;
    /// The most tasks that a tenant may have credit for at once. The kernel's account could hold a little more: groups charge whole windows
    /// and give back what they do not take, and the account must stay right meanwhile.
    pub const MAX_QUOTA: u32 = 1_000_000_000;

    /// A tenant with one producer that may do everything.
    pub fn new(id: TenantId) -> Self {
        Tenant {
            id,
            name: id.to_string(),
            producers: 1,
            mask: u32::MAX,
            quota: 0,
            observables: 0,
            sizes: Vec::new(),
        }
    }

    /// Sets what people call it.
    pub fn name(self, name: impl Into<String>) -> Self {
        Tenant { name: name.into(), ..self }
    }

    /// Sets how many threads may feed the kernel for it at once.
    pub fn producers(self, producers: u32) -> Self {
        Tenant { producers, ..self }
    }

    /// Sets what it may do, bit by bit.
    pub fn mask(self, mask: u32) -> Self {
        Tenant { mask, ..self }
    }

    /// Allows these opcodes and no others. All from 31 on are allowed or not together.
    pub fn allow(self, ops: &[Opcode]) -> Self {
        self.mask(Opcode::mask_of(ops))
    }

    /// Sets how many tasks it may begin before it needs more credit, at most [`Tenant::MAX_QUOTA`]; 0 is no limit.
    pub fn quota(self, quota: u32) -> Self {
        Tenant { quota, ..self }
    }

    /// Sets how many observables it has.
    pub fn observables(self, observables: u32) -> Self {
        Tenant { observables, ..self }
    }

    /// Sets how many elements it has in a region.
    pub fn size(mut self, region: impl Into<String>, len: u32) -> Self {
        let region = region.into();
        self.sizes.retain(|(name, _)| *name != region);
        self.sizes.push((region, len));
        self
    }

    /// How many elements it has in a region.
    pub fn region_len(&self, region: &Region) -> u32 {
        if region.shared {
            return region.len;
        }
        self.sizes.iter().rev().find(|(name, _)| *name == region.name).map_or(region.len, |(_, len)| *len)
    }
}
