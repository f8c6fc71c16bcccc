//! The demo's kernel: two tenants, what is built in, and two opcodes of its own.

use pelton::kernel::{Visible, Width};
use pelton::{Claim, Geometry, Handler, Opcode, Region, Spec, Tenant};
use pelton_ir::types::Type;

use super::work::{AREA, AREAS, SPAN, TABLE};

/// What tenants are called.
pub const TENANTS: [&str; 2] = ["north", "south"];
/// Threads that feed the kernel for each tenant.
pub const FEEDERS: u32 = 2;
/// Slots of a ring: as many as a producer ever has under way.
const SLOTS: usize = SPAN * AREAS;

/// Mixes a word. A lane runs it.
pub const MIX: Opcode = Opcode::from_code(8);
/// Adds up words. A whole group runs it.
pub const SUM: Opcode = Opcode::from_code(9);
/// Nobody's opcode. The second tenant may not even ask for it.
pub const UNKNOWN_OPCODE: Opcode = Opcode::from_code(30);

/// Words of a tenant's data: a table that is only read, then what its feeders work on, then a word for the sampler.
pub const DATA: u32 = SAMPLER + 1;
/// The sampler's word.
pub const SAMPLER: u32 = TABLE + FEEDERS * AREAS as u32 * AREA;
/// Observables of a tenant: the tag of its last fence, then one a task under way.
pub const OBSERVABLES: u32 = 1 + FEEDERS * SLOTS as u32;

/// What kernel it is.
pub fn demo_spec() -> Spec {
    let tenant =
        |id: usize| Tenant::new(id as u32).name(TENANTS[id]).producers(FEEDERS).observables(OBSERVABLES);
    let mix = Handler::text(MIX, "mix", include_str!("mix.pel")).visible(Visible::Result);
    let sum = Handler::text(SUM, "sum", include_str!("sum.pel")).width(Width::Group).visible(Visible::Result);
    Spec::new(Geometry::new(SLOTS as u32))
        .claim(Claim::PRIORITY)
        .region(Region::new("data", Type::U32, DATA))
        // One producer more, for the thread that measures.
        .tenant(tenant(0).producers(FEEDERS + 1))
        .tenant(tenant(1).mask(!UNKNOWN_OPCODE.mask_bit()))
        .with(mix)
        .with(sum)
        .format("feeder {} says hello from span {}")
}
