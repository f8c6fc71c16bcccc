//! The kernel that stays, and which of its groups does what.
//!
//! In near rings, every group serves stripes of its own. In far rings, the first group to arrive is the router, and
//! works for the others. Where there are both kinds of rings, the groups with the lowest numbers serve near rings. They
//! run no tasks of far rings, so a task in a near ring never waits for a window of a far ring.

use pelton_device::Caps;
use pelton_ir::builder::{Builder, FunctionBuilder};
use pelton_ir::types::Need;

use super::context::KernelContext;
use super::dispatch::HandlerTable;
use super::far::FarServer;
use super::fence::Fences;
use super::home::CellServer;
use super::light::LightTasks;
use super::mode::{LiveRings, NearRings};
use super::near::NearServer;
use super::window::WindowRunner;

/// Writes a kernel that stays and serves rings.
pub(super) fn write_live(
    m: &mut Builder,
    kernel: &KernelContext<'_>,
    rings: &LiveRings,
    table: &HandlerTable,
    caps: &Caps,
) {
    let light = |m: &mut Builder| {
        if caps.independent_subgroups {
            m.need(Need::Subgroups);
        }
        LightTasks::write(m, kernel, &table.entries)
    };
    match rings {
        LiveRings::Near { near: NearRings { slots, frontier, .. }, copy } => {
            let light = kernel.groups_watch().then(|| light(m));
            let fences = Fences::write(m, kernel, slots, frontier.as_ref());
            let cells = CellServer { kernel, table, near: Some(&fences), far: None };
            let run = WindowRunner { kernel, slots, table, fences: &fences };
            let near = NearServer::write(m, run, cells, light, caps);
            write_main(m, kernel, |f| near.serve_or_keep(f, copy.as_ref()));
        }
        LiveRings::Far(far) => {
            let light = light(m);
            let fences = Fences::write(m, kernel, &far.slots, Some(&far.frontier));
            let run = WindowRunner { kernel, slots: &far.slots, table, fences: &fences };
            let cells = CellServer { kernel, table, near: None, far: Some(&fences) };
            let far = FarServer::write(m, run, far, cells, light, caps);
            write_main(m, kernel, |f| far.serve(f));
        }
        LiveRings::Both { near: NearRings { slots, frontier, .. }, far } => {
            let light = light(m);
            let near_fences = Fences::write(m, kernel, slots, frontier.as_ref());
            let far_fences = Fences::write(m, kernel, &far.slots, Some(&far.frontier));
            let cells = CellServer { kernel, table, near: Some(&near_fences), far: Some(&far_fences) };
            let near = WindowRunner { kernel, slots, table, fences: &near_fences };
            let near = NearServer::write(m, near, cells, Some(light).filter(|_| kernel.groups_watch()), caps);
            let run = WindowRunner { kernel, slots: &far.slots, table, fences: &far_fences };
            let far = FarServer::write(m, run, far, cells, light, caps);
            write_main(m, kernel, |f| {
                let is_near = f.group().lt(near.groups());
                f.choose(is_near, || near.serve(f), || far.serve(f));
            });
        }
    }
}

/// Writes the entry point of the kernel. Every group first copies the table of pieces, and then does what `serve`
/// writes.
fn write_main(
    m: &mut Builder,
    kernel: &KernelContext<'_>,
    serve: impl for<'b> FnOnce(&'b FunctionBuilder<'b>),
) {
    m.kernel("main", |f| {
        kernel.copy_piece_table(f);
        serve(f);
    });
}
