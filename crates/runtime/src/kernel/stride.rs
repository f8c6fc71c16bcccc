//! Strides, by which a group shares what it takes among tenants by weight.
//!
//! A tenant has a *time* in each group, which advances with everything that the group takes from it. One piece advances
//! it by the tenant's *stride*, which is the less the greater the weight of the tenant is. Among the tenants that have
//! something to take, the one whose time is least comes first, so in the long run each gets its share. A tenant that has
//! nothing to take saves nothing up: its time is brought to that of the tenant that was chosen.

use super::context::{U32, U64};
use super::spec::Spec;
use super::tenant::Tenant;
use pelton_ir::builder::FunctionBuilder;

/// By how much one piece that is taken advances the time of a tenant of weight 1.
pub(super) const STRIDE_OF_WEIGHT_1: u32 = 1 << 20;

/// Returns the stride of each tenant, by its number. Numbers that no tenant has get that of weight 1.
pub(crate) fn tenant_strides(spec: &Spec) -> Vec<u32> {
    let weight =
        |id: u32| spec.tenants.iter().find(|tenant| tenant.id == id).and_then(|tenant| tenant.weight);
    (0..Tenant::MAX_TENANTS).map(|id| STRIDE_OF_WEIGHT_1 / weight(id).unwrap_or(1).max(1)).collect()
}

/// By how much `taken` pieces advance the time of a tenant with this stride.
pub(super) fn strides_of<'b>(f: &'b FunctionBuilder<'b>, taken: U64<'b>, stride: U32<'b>) -> U64<'b> {
    taken * f.cast::<u64>(stride)
}
