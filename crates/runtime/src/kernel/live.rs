//! The kernel that stays: which group does what.
//!
//! Where rings lie near, every group has stripes of its own; where they lie far, the first group to arrive routes for the others.
//! Where there are both, the first groups are those of the near rings. They run no tasks of far rings, so a task of a near
//! ring never waits for a window of far ones.

use pelton_device::Caps;
use pelton_ir::builder::Builder;
use pelton_ir::types::Need;

use super::dispatch::Table;
use super::far::Crew;
use super::fence::Fences;
use super::kit::Kit;
use super::light::Light;
use super::near::Near;
use super::window::Runner;

/// Writes the kernel.
pub(super) fn write(m: &mut Builder, kit: &Kit<'_>, table: &Table, caps: &Caps) {
    let independent = caps.independent_subgroups;
    let far = kit.far.as_ref().zip(kit.mirror.as_ref());
    let polls = far.is_some() || kit.watches();
    if independent && polls {
        m.need(Need::Subgroups);
    }
    let light = polls.then(|| Light::write(m, kit, &table.entries));
    let in_order = kit.near.as_ref().map(|slots| Fences::write(m, kit, slots, None));
    let loose = kit.far.as_ref().map(|far| Fences::write(m, kit, &far.slots, kit.frontier.as_ref()));
    let near = kit.near.as_ref().zip(in_order.as_ref()).map(|(slots, fences)| {
        let run = Runner { kit, slots, table, fences };
        Near::write(m, run, light, independent)
    });
    let far = far.zip(loose.as_ref()).zip(light).map(|(((far, mirror), fences), light)| {
        let run = Runner { kit, slots: &far.slots, table, fences };
        Crew::write(m, run, (far, mirror), light, caps)
    });
    m.kernel("main", |f| {
        kit.arm(f);
        match (near, far) {
            (Some(near), Some(far)) => {
                let home = f.group().lt(near.groups());
                f.choose(home, || near.serve(f), || far.serve(f));
            }
            (Some(near), None) => near.main(f),
            (None, Some(far)) => far.serve(f),
            (None, None) => {}
        }
    });
}
