//! `test kernel`: compares the atomic accesses of an assembled megakernel with the protocol's steps, and prints where it
//! wakes groups.
//!
//! The `test` line describes the kernel: first `near`, `far`, `both` or `drain`; then, where they apply,
//! `priority`, `fused`, `uncounted`, `lane` (groups of one lane), `watch` (groups of one subgroup), `teams` (groups
//! of several subgroups that progress independently), `remote` (the device has memory of its own, and its groups do not
//! sleep), `payload` (tasks have payloads and replies), `steps` (a lane-wide handler is resumable), `wide-steps` (a
//! group-wide one is), `spawns` (tasks spawn others), `events` (there are events), `graphs` (there can be graphs),
//! `weights` (two tenants share the rings by weight), `recovery` (the session can recover), `once` (it has a handler whose
//! tasks must not begin twice) and `serial` (one task runs at a time).
//! Accesses inside a `switch` are left out, because a kernel switches over opcodes only, so that they belong to a task.
//! `test verb` compares those that a task makes by what it asks of the runtime.

use pelton::kernel::handler_trees::Child;
use pelton::kernel::{Claim, Geometry, HandlerBody, Lifetime, SlotBody, Spec, Telemetry, Width, assemble};
use pelton::protocol::step::{
    self, ALONE, DRAIN, EVENTS, FAR, FENCES, FOLLOWS, GRAPHS, GROUP_STEPS, KEEPER, KEPT, LANE, LANE_STEPS,
    LANES, LOCAL, MARKS, NEAR, ONCE, OWN, PAIR, PAYLOAD, ProtocolStep, RECOVERY, REMOTE, REPLY, SPAWNS,
    STEPS, TELLS, TOLD, TREES, WATCH,
};
use pelton::{Class, Handler, Placement, Recovery, TaskOrder, Tenant};
use pelton_device::{Caps, open};
use pelton_ir::arena::Region;
use pelton_ir::limits::MAX_INSTS;
use pelton_ir::module::{Attr, Function, Module, Node};
use pelton_ir::op::Op;
use pelton_ir::pass::inline::inline_calls;
use pelton_ir::types::{Order, Scope};
use pelton_ir::valid::Valid;

use crate::command::{CommandContext, Printed, TestCommand};
use crate::diff::diff_lines;
use crate::failure::Failure;
use crate::hint::name_hint;

/// The command `kernel`, which prints the accesses, each with its step.
pub struct KernelCommand;

impl TestCommand for KernelCommand {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn prints(&self) -> bool {
        true
    }

    fn run_on(&self, context: &CommandContext<'_>) -> Result<Printed, Failure> {
        let WantedKernel { spec, caps, shapes } = wanted_kernel(context.args)?;
        let found = kernel_lines(&spec, &caps)?;
        let rows: Vec<&ProtocolStep> = shapes.iter().flat_map(|shape| step::kernel_steps(*shape)).collect();
        print_lines(&rows, &found).map(Some)
    }
}

/// Prints what was found, each access with its step, after it was compared with the steps.
pub(crate) fn print_lines(rows: &[&ProtocolStep], found: &[KernelLine]) -> Result<String, Failure> {
    let accesses: Vec<&KernelAccess> = found.iter().filter_map(KernelLine::access).collect();
    check_steps(rows, &accesses)?;
    let mut lines: Vec<(String, u32)> = Vec::new();
    let mut ordered = rows.iter().filter(|row| row.orders());
    for found in found {
        let line = match found {
            KernelLine::Wake => "wake".into(),
            KernelLine::Access(access) => {
                let step = match access.orders() {
                    true => ordered.next(),
                    false => rows.iter().find(|row| access.is_step(row)),
                };
                format!("{:<8} {access}", step.map_or("", |step| step.name))
            }
        };
        match lines.last_mut() {
            Some((last, times)) if *last == line => *times += 1,
            _ => lines.push((line, 1)),
        }
    }
    let text = |(line, times)| if times == 1 { line } else { format!("{line} × {times}") };
    Ok(join_lines(lines.into_iter().map(text)))
}

/// Compares ordering accesses with the steps one by one. Each relaxed access must be equal to some step.
fn check_steps(rows: &[&ProtocolStep], found: &[&KernelAccess]) -> Result<(), Failure> {
    let law = "accesses of the protocol = accesses of the kernel";
    let expected: Vec<&&ProtocolStep> = rows.iter().filter(|row| row.orders()).collect();
    let ordered: Vec<&&KernelAccess> = found.iter().filter(|access| access.orders()).collect();
    if ordered.len() != expected.len()
        || !ordered.iter().zip(&expected).all(|(access, row)| access.is_step(row))
    {
        let left = join_lines(expected.iter().map(|row| KernelAccess::from_step(row).to_string()));
        let right = join_lines(
            ordered.iter().map(|access| KernelAccess { word: None, ..(**access).clone() }.to_string()),
        );
        return Err(Failure::Law { law, diff: diff_lines(&left, &right) });
    }
    let stray = join_lines(
        found
            .iter()
            .filter(|access| !rows.iter().any(|row| access.is_step(row)))
            .map(|access| access.to_string()),
    );
    if stray.is_empty() { Ok(()) } else { Err(Failure::Law { law, diff: diff_lines("", &stray) }) }
}

/// What is printed of a kernel.
pub(crate) enum KernelLine {
    Access(KernelAccess),
    /// The kernel wakes groups that sleep.
    Wake,
}

impl KernelLine {
    fn from_node(module: &Module, node: &Node) -> Option<KernelLine> {
        match node.op {
            Op::Wake => Some(KernelLine::Wake),
            _ => KernelAccess::from_node(module, node).map(KernelLine::Access),
        }
    }

    fn access(&self) -> Option<&KernelAccess> {
        match self {
            KernelLine::Access(access) => Some(access),
            KernelLine::Wake => None,
        }
    }
}

/// An atomic access of a kernel.
#[derive(Clone)]
pub(crate) struct KernelAccess {
    op: Op,
    order: Order,
    scope: Scope,
    /// The buffer's name; empty for a fence.
    buffer: String,
    /// The index of the word, if it is constant.
    word: Option<u32>,
}

impl KernelAccess {
    fn from_step(row: &ProtocolStep) -> KernelAccess {
        let ProtocolStep { op, order, scope, word, .. } = *row;
        KernelAccess { op, order, scope, buffer: row.buffer.into(), word }
    }

    fn from_node(module: &Module, node: &Node) -> Option<KernelAccess> {
        let (buffer, order, scope) = match node.attr {
            Attr::Atomic(buffer, order, scope) => {
                // Each placement has a buffer of its own, and both follow the same steps.
                let name = &module.buffers[buffer].name;
                (name.trim_end_matches(".near").trim_end_matches(".far").into(), order, scope)
            }
            Attr::Fence(order, scope) => (String::new(), order, scope),
            _ => return None,
        };
        let index = node.args.first().filter(|_| !buffer.is_empty());
        let word = index.and_then(|index| index.constant()).map(|index| index.bits() as u32);
        Some(KernelAccess { op: node.op, order, scope, buffer, word })
    }

    fn orders(&self) -> bool {
        self.order != Order::Relaxed
    }

    /// Whether the access is what a step describes. A step that names no word allows any.
    fn is_step(&self, row: &ProtocolStep) -> bool {
        let word = row.word.is_none() || row.word == self.word;
        word && self.buffer == row.buffer
            && (self.op, self.order, self.scope) == (row.op, row.order, row.scope)
    }
}

impl std::fmt::Display for KernelAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.op.row().name, self.order, self.scope)?;
        match (&*self.buffer, self.word) {
            ("", _) => Ok(()),
            (buffer, Some(word)) => write!(f, " @{buffer}[{word}]"),
            (buffer, None) => write!(f, " @{buffer}"),
        }
    }
}

fn join_lines(lines: impl Iterator<Item = String>) -> String {
    lines.flat_map(|line| [line, "\n".into()]).collect()
}

/// The kernel that a `test kernel` line describes.
#[derive(Debug)]
pub struct WantedKernel {
    /// The spec of the kernel.
    pub spec: Spec,
    /// The capabilities of the device that the kernel is for.
    pub caps: Caps,
    /// The kernel's shapes in the table of steps: the shape of near rings, then that of far rings, where there are
    /// both.
    pub shapes: Vec<u32>,
}

/// Parses the arguments of a `test kernel` line.
pub fn wanted_kernel(args: &[String]) -> Result<WantedKernel, Failure> {
    let device = open("reference").map_err(|error| Failure::Assemble(error.to_string()))?;
    let mut caps = device.caps().clone();
    let mut spec = Spec::new(Geometry::new(64).lanes(8).groups(3));
    let mut shape = FENCES | LANES | LOCAL;
    for arg in args {
        (spec, shape) = match &**arg {
            "near" => (spec.placement(Placement::Near), shape | NEAR),
            "far" => (spec.placement(Placement::Far), shape | FAR),
            "both" => (spec.placement(Placement::Both), shape | NEAR | FAR),
            "drain" => (spec.lifetime(Lifetime::Drain), shape | DRAIN),
            "priority" => (spec.claim(Claim::PRIORITY), shape),
            "fused" => (with_lone_handler(spec), shape & !FENCES),
            "uncounted" => (spec.telemetry(Telemetry::Off), shape),
            "lane" => (with_lanes(spec, 1), shape & !LANES | LANE),
            "watch" => (with_lanes(spec, caps.subgroup), shape | WATCH),
            "teams" => {
                caps.independent_subgroups = true;
                (with_lanes(spec, 2 * caps.subgroup), shape | WATCH)
            }
            "remote" => {
                (caps.memory_bytes, caps.wakes) = (Some(1 << 30), false);
                (spec, shape & !LOCAL | REMOTE)
            }
            "payload" => (with_payloads(spec), shape | PAYLOAD | REPLY),
            "steps" => (with_steps(spec, Width::Lane), shape | STEPS | LANE_STEPS),
            "wide-steps" => (with_steps(spec, Width::Group), shape | STEPS | GROUP_STEPS),
            "weights" => (with_weights(spec), shape),
            "spawns" => (with_children(spec), shape | TREES | SPAWNS),
            "events" => (spec.events(4), shape | TREES | EVENTS),
            "graphs" => (spec.graph_nodes(8), shape | TREES | GRAPHS),
            "recovery" => (spec.recovery(Recovery::On), shape | RECOVERY),
            "once" => (with_once(spec), shape | ONCE),
            "serial" => (with_serial(spec), shape),
            word => {
                let words = [
                    "near",
                    "far",
                    "both",
                    "drain",
                    "priority",
                    "fused",
                    "uncounted",
                    "lane",
                    "watch",
                    "teams",
                    "remote",
                    "payload",
                    "steps",
                    "wide-steps",
                    "weights",
                    "spawns",
                    "events",
                    "graphs",
                    "recovery",
                    "once",
                    "serial",
                ];
                let (arg, hint) = (word.into(), name_hint(word, &words));
                return Err(Failure::Argument { command: "kernel", arg, hint });
            }
        };
    }
    let teams = args.iter().any(|arg| arg == "teams");
    Ok(WantedKernel { spec, caps, shapes: step_shapes(shape, teams) })
}

/// The shape of each part of a kernel, in the order of the text.
fn step_shapes(shape: u32, teams: bool) -> Vec<u32> {
    let both = shape & NEAR != 0 && shape & FAR != 0;
    let shape = match (shape & TREES != 0, shape & GRAPHS != 0) {
        (false, _) => shape | ALONE,
        // Built-in operations take steps too. Where there are graphs, a group launches them with all lanes.
        (true, false) => shape | STEPS | LANE_STEPS,
        (true, true) => shape | STEPS | LANE_STEPS | GROUP_STEPS,
    };
    let shape = if both { shape & !LANE | LANES } else { shape };
    let kept = match (shape & FAR != 0, shape & LOCAL != 0) {
        (true, _) => KEPT,
        (false, true) => OWN,
        (false, false) => KEPT | KEEPER,
    };
    // Where the device has memory of its own, the pollers of near groups and the teams of a router are notified of
    // changes.
    let told =
        |kind: u32, polls: bool| if shape & LOCAL == 0 && shape & kind != 0 && polls { TOLD } else { 0 };
    let (near, far) = (told(NEAR, shape & WATCH != 0), told(FAR, teams));
    let tells = if near | far == 0 { 0 } else { TELLS };
    let cells = shape & STEPS != 0 && shape & DRAIN == 0;
    let marks = if cells || shape & NEAR == 0 { MARKS } else { 0 };
    let follows = if cells { 0 } else { FOLLOWS };
    let pair = if both { PAIR } else { 0 };
    let part = |kind: u32, more: u32| {
        let more = more | follows | pair | if kind == NEAR { marks } else { MARKS };
        (shape & kind != 0).then_some(shape & !(NEAR | FAR | DRAIN) | kind | more)
    };
    [part(NEAR, kept | near | tells), part(FAR, far | tells), part(DRAIN, 0)].into_iter().flatten().collect()
}

/// The spec with groups of a number of lanes.
fn with_lanes(spec: Spec, lanes: u32) -> Spec {
    Spec { geometry: spec.geometry.clone().lanes(lanes), ..spec }
}

/// The spec with a single handler that accesses no memory.
fn with_lone_handler(spec: Spec) -> Spec {
    spec.body(SlotBody::Fused).handler("seven", Handler::lane_wide(|task| task.finish(7)))
}

/// The spec with a handler of a width whose tasks yield, requeue themselves or wait for the host.
fn with_steps(spec: Spec, width: Width) -> Spec {
    let drains = spec.lifetime == Lifetime::Drain;
    let steps = move |task: &HandlerBody<'_>| {
        task.step(|| match drains {
            true => task.requeue(task.arg(0)),
            false => task.park_then(1),
        });
        task.finish(7);
    };
    let handler = match width {
        Width::Lane => Handler::lane_wide(move |task| steps(&task)),
        Width::Group => Handler::group_wide(move |group| steps(&group)),
    };
    spec.handler("steps", handler)
}

/// The spec with a handler whose tasks must not begin twice.
fn with_once(spec: Spec) -> Spec {
    spec.handler("seven", Handler::lane_wide(|task| task.finish(7)).class(Class::Once))
}

/// The spec with a kept region whose writer depends on the order, so that one task runs at a time.
fn with_serial(spec: Spec) -> Spec {
    let write = Handler::lane_wide(|task| {
        let log = task.region::<u32>("log");
        task.body().store(log.at(0), task.arg(0));
    });
    let spec = Spec { geometry: Geometry { groups: Some(1), ..spec.geometry }, ..spec };
    let log = pelton::Region::new("log", pelton_ir::types::Type::U32, 4).kept();
    spec.order(TaskOrder::Serial).region(log).handler("write", write)
}

/// The spec with two tenants that share the rings by weight.
pub fn with_weights(spec: Spec) -> Spec {
    spec.tenant(Tenant::new(0).producers(2).weight(1)).tenant(Tenant::new(1).weight(3))
}

/// The spec with a handler whose tasks spawn one of their kind and wait for it.
fn with_children(spec: Spec) -> Spec {
    let parent = Handler::lane_wide(|task| {
        task.step(|| {
            task.body().when(!task.reserve_children(1), || task.finish(0));
            task.spawn(Child::same_handler(&task));
            task.wait_children();
        });
        task.finish(7);
    });
    spec.handler("parent", parent)
}

/// The spec with payloads and replies. Its handler gives the first word of its payload back; if the kernel has another
/// handler already, it is that one, with payloads that it does not use.
fn with_payloads(spec: Spec) -> Spec {
    let spec = spec.payload(64).reply(16);
    if !spec.handlers.is_empty() {
        return spec;
    }
    let echo = Handler::lane_wide(|task| {
        let f = task.body();
        f.store(task.reply().at(0), f.load(task.payload().at(0)));
        task.set_reply_len(task.payload_len());
    });
    spec.handler("echo", echo)
}

/// The atomic accesses and the wakes of the kernel itself, in the order of the text.
fn kernel_lines(spec: &Spec, caps: &Caps) -> Result<Vec<KernelLine>, Failure> {
    let module = inlined_kernel(spec, caps)?;
    let mut found = Vec::new();
    for kernel in module.kernels() {
        let function = &module.functions[kernel];
        collect_lines(&module, function, function.body, &mut found);
    }
    Ok(found)
}

/// The kernel of a spec, in which all calls are inlined.
pub(crate) fn inlined_kernel(spec: &Spec, caps: &Caps) -> Result<Valid, Failure> {
    let made = assemble(spec, caps).map_err(|error| Failure::Assemble(error.to_string()))?;
    Ok(inline_calls(&made.module, MAX_INSTS).module)
}

/// Collects what stands in a region, but not in the cases of a `switch`.
pub(crate) fn collect_lines(
    module: &Module,
    function: &Function,
    region: Region,
    found: &mut Vec<KernelLine>,
) {
    for inst in &function.region(region).insts {
        let node = function.inst(*inst);
        found.extend(KernelLine::from_node(module, node));
        if node.op != Op::Switch {
            for region in &node.regions {
                collect_lines(module, function, *region, found);
            }
        }
    }
}
