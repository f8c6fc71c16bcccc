//! The demo's kernel, with two tenants, the built-in opcodes, and two opcodes of its own.

use pelton::kernel::{Visible, Width};
use pelton::{Claim, Geometry, Handler, Opcode, Region, Spec, Tenant};
use pelton_ir::types::Type;

use super::work::{AREA, AREAS, SPAN, TABLE};

/// The names of the tenants.
pub(super) const TENANTS: [&str; 2] = ["north", "south"];
/// The number of threads per tenant that feed the kernel.
pub(super) const FEEDERS: u32 = 2;
/// The number of slots per ring: as many as one producer ever has under way.
const SLOTS: usize = SPAN * AREAS;

/// Mixes the bits of a word. One lane runs it.
pub(super) const MIX: Opcode = Opcode::from_code(8);
/// Sums words. A whole group runs it.
pub(super) const SUM: Opcode = Opcode::from_code(9);
/// An opcode without a handler. The second tenant's mask forbids it as well.
pub(super) const UNKNOWN_OPCODE: Opcode = Opcode::from_code(30);

/// The number of words of a tenant's data: a read-only table, then the areas of its feeders, then one word for the
/// sampler.
pub(super) const DATA: u32 = SAMPLER + 1;
/// The index of the sampler's word.
pub(super) const SAMPLER: u32 = TABLE + FEEDERS * AREAS as u32 * AREA;
/// The number of observables of a tenant: the tag of its last fence, then one per task under way.
pub(super) const OBSERVABLES: u32 = 1 + FEEDERS * SLOTS as u32;

/// The spec of the demo's kernel.
pub(super) fn demo_spec() -> Spec {
    let tenant =
        |id: usize| Tenant::new(id as u32).name(TENANTS[id]).producers(FEEDERS).observables(OBSERVABLES);
    let mix = Handler::from_text(include_str!("mix.pel")).visible(Visible::Result);
    let sum = Handler::from_text(include_str!("sum.pel")).width(Width::Group).visible(Visible::Result);
    Spec::new(Geometry::new(SLOTS as u32))
        .claim(Claim::PRIORITY)
        .region(Region::new("data", Type::U32, DATA))
        // One more producer, for the thread that measures.
        .tenant(tenant(0).producers(FEEDERS + 1))
        .tenant(tenant(1).mask(!UNKNOWN_OPCODE.mask_bit()))
        .handler_at(MIX, "mix", mix)
        .handler_at(SUM, "sum", sum)
        .format("feeder {} says hello from span {}")
}
