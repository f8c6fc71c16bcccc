//! Who may write kept regions, which are restored after a device was lost.
//!
//! A kept region is [restored](crate::session) from the last checkpoint, and by running the tasks once more that have ended
//! since. What the host knows of these tasks is their slots and their records, and not the order in which they ran. So this
//! is only right under some conditions, which are checked here:
//!
//! - **Order does not matter, or is known.** Whoever writes a kept region is of the class [`Commuting`](Class::Commuting), or
//!   the kernel runs [one task at a time](TaskOrder::Serial) and numbers them.
//! - **A task with a record has done all that it does.** So a writer takes one step, and spawns nothing. A checkpoint would
//!   otherwise hold half of a task.
//! - **A slot says what ran.** A task that waits for an event, a spawned task and a node of a graph run in cells. So a kernel
//!   with a kept region has neither events nor graphs, and no handler that spawns tasks.
//! - **A record says whether the handler ran.** The kernel ends a task with [certain faults](REFUSALS) without running its
//!   handler, so a writer must not use these codes itself.
//! - **The same again.** A writer does not read the clock.
//! - **Nobody else writes.** Some built-in operations write the region `data`, in an order that matters. If `data` is kept, no
//!   tenant may use them.
//!
//! **One task at a time.** A kernel of [`TaskOrder::Serial`] has one group that runs tasks, with windows of one task, and no light
//! tasks, which whoever polls would run beside it. So its tasks run one after another, and it numbers them: before a task
//! begins, its lane stores the number in a word of the task's slot in the host's memory. The fence of the window stands between
//! that word and the record, so whoever finds the record after a loss finds the number.

use pelton_ir::arena::Func;
use pelton_ir::builder::FunctionBuilder;
use pelton_ir::op::Op;
use pelton_ir::types::{Access, Order, Scope};
use pelton_ir::valid::Valid;

use super::context::state;
use super::error::AssembleError;
use super::handler::{Class, NamedHandler};
use super::import::{self, VerbAction};
use super::placement::Placement;
use super::spec::{Lifetime, Recovery, SlotBody, Spec, TaskOrder};
use super::tenant::{Region, RegionMemory, TenantId};
use super::window::{TaskPlace, WindowRunner};
use crate::protocol::{FaultCode, Opcode};

/// The faults with which the kernel ends a task instead of running its handler.
pub(crate) const REFUSALS: &[FaultCode] = &[FaultCode::UNKNOWN, FaultCode::DENIED, FaultCode::MALFORMED];

/// The built-in operations that write the region `data`.
const DATA_WRITERS: &[Opcode] =
    &[Opcode::STORE_U32, Opcode::ATOMIC_ADD, Opcode::COMPARE_SWAP, Opcode::MEMCPY];

/// Returns whether a `Spec` has kept regions.
pub(crate) fn has_kept(spec: &Spec) -> bool {
    spec.regions.iter().any(Region::is_kept)
}

/// Returns the kept region that a handler may write, if there is one.
fn written_region<'s>(spec: &'s Spec, handler: &NamedHandler) -> Option<&'s Region> {
    let buffers = || handler.module.buffers.iter().map(|(_, decl)| decl);
    let written =
        |region: &&Region| buffers().any(|decl| decl.name == region.name && decl.access != Access::Read);
    spec.regions.iter().filter(|region| region.is_kept()).find(written)
}

/// Returns the handlers of a `Spec` that may write kept regions.
pub(crate) fn kept_writers(spec: &Spec) -> impl Iterator<Item = &NamedHandler> {
    spec.handlers.iter().filter(|handler| written_region(spec, handler).is_some())
}

/// Refuses a `Spec` whose kept regions could not be restored, whatever its handlers are.
pub(super) fn check_spec(spec: &Spec) -> Result<(), AssembleError> {
    if spec.order == TaskOrder::Serial {
        check_serial(spec)?;
    }
    let Some(region) = spec.regions.iter().find(|region| region.is_kept()) else { return Ok(()) };
    let refuse = |why: &str| Err(AssembleError::Region { name: region.name.clone(), why: why.into() });
    match spec {
        _ if spec.regions.iter().any(|region| region.is_kept() && region.memory == RegionMemory::Host) => {
            return refuse("a region in host memory outlives the device by itself, so it cannot be kept");
        }
        _ if spec.recovery == Recovery::Off => {
            return refuse("only a session that recovers (`recovery = \"on\"`) can have a kept region");
        }
        _ if spec.events > 0 => {
            return refuse(
                "it cannot be restored from tasks that wait for events; set `events = 0`, or do not keep the region",
            );
        }
        _ if spec.largest_graph() > 0 => {
            return refuse(
                "it cannot be restored from nodes of graphs; remove the graphs, or do not keep the region",
            );
        }
        _ => {}
    }
    spec.tenants.iter().try_for_each(|tenant| check_mask(spec, tenant.id, tenant.mask))
}

/// Refuses what a kernel that runs one task at a time cannot have.
fn check_serial(spec: &Spec) -> Result<(), AssembleError> {
    let refuse = |why| Err(AssembleError::Axis { axis: "order", value: "serial", why });
    match spec {
        _ if spec.lifetime == Lifetime::Drain => refuse("a drained batch has no region that could be kept"),
        _ if !has_kept(spec) => refuse("it serves to restore kept regions, and no region is kept"),
        _ if spec.geometry.groups.is_some_and(|groups| groups != 1) => {
            refuse("one group runs all tasks, and the geometry asks for more")
        }
        _ if spec.placement == Some(Placement::Both) => {
            refuse("one group runs all tasks, and near and far rings together take two")
        }
        _ => Ok(()),
    }
}

/// Refuses a mask with which a tenant could write a kept region `data` by built-in operations.
pub(crate) fn check_mask(spec: &Spec, tenant: TenantId, mask: u32) -> Result<(), AssembleError> {
    let data = spec.regions.iter().any(|region| region.name == "data" && region.is_kept());
    // A fused kernel has no built-in operations.
    let allowed = DATA_WRITERS.iter().find(|op| mask & op.mask_bit() != 0);
    match allowed.filter(|_| data && spec.body != SlotBody::Fused) {
        None => Ok(()),
        Some(op) => {
            let why = format!(
                "its mask allows {op}, which may write the region \"data\", and that is kept; \
                 allow only opcodes that do not"
            );
            Err(AssembleError::Tenant { id: tenant, why })
        }
    }
}

/// Refuses a handler beside which kept regions could not be restored: one that spawns tasks, and one that writes a kept region
/// in another way than it may.
pub(super) fn check_writer(
    spec: &Spec,
    handler: &NamedHandler,
    (module, func): (&Valid, Func),
    actions: &[VerbAction],
) -> Result<(), String> {
    if !has_kept(spec) {
        return Ok(());
    }
    let written = written_region(spec, handler);
    if let (None, Some(action)) = (written, actions.iter().find(|action| action.concerns_children())) {
        let verb = import::verb_name(*action);
        return Err(format!("it calls `{verb}`, and there can be no kept region beside spawned tasks"));
    }
    let Some(region) = written else { return Ok(()) };
    let refuse = |why: &str| Err(format!("it may write the region {:?}, which is kept, {why}", region.name));
    if let Some(action) = actions.iter().find(|action| action.needs_cell()) {
        let verb = import::verb_name(*action);
        return refuse(&format!("and calls `{verb}`; a checkpoint could hold half of such a task"));
    }
    if handler.class != Class::Commuting && spec.order == TaskOrder::Free {
        return refuse(
            "so its class must be `commuting`, since after a loss tasks run once more in any order; \
             or let the order be `serial`, or declare the buffer as one that is only read",
        );
    }
    for (_, node) in module.functions[func].insts() {
        let code = node.args.first().and_then(|arg| arg.constant()).map(|code| code.bits() as u32);
        let is_refusal = |code: u32| REFUSALS.iter().any(|refusal| refusal.code() == code);
        match node.op {
            Op::Clock => {
                return refuse("and reads the clock, so running it once more could give something else");
            }
            Op::Fault if code.is_none_or(is_refusal) => {
                return refuse(
                    "so the codes of its faults must be constants, and none of those with which the kernel \
                     refuses a task",
                );
            }
            _ => {}
        }
    }
    Ok(())
}

impl WindowRunner<'_> {
    /// Numbers a task that is about to run, if tasks run one at a time.
    pub(super) fn number_task<'b>(self, f: &'b FunctionBuilder<'b>, place: &TaskPlace<'b>) {
        let Some(serial) = &self.kernel.serial else { return };
        // Only the lane that runs the only task of a window comes here, in the only group that runs tasks.
        let number = f.load(serial.next.at(0)) + 1u64;
        f.store(serial.next.at(0), number);
        let slot = self.slots.session_slot(place.number);
        f.atomic_store(Order::Relaxed, Scope::System, serial.numbers.at(slot), number);
        // The record must not come before the number.
        f.store(self.kernel.shared.state.at(state::DIRTY), 1);
    }
}
