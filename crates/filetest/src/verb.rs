//! `test verb`: compares the atomic accesses that a task makes by one request to the runtime with the protocol's steps.
//!
//! The `test` line names the verb that a handler calls, or the built-in opcode, and `recovery` after it means that the session
//! recovers. Such accesses stand in the case of a
//! `switch` over opcodes, which `test kernel` leaves out.

use pelton::kernel::handler_trees::Child;
use pelton::kernel::{Geometry, Handler, HandlerBody, Spec};
use pelton::protocol::step::{self, EVENTS, GRAPHS, RECOVERY, SPAWNS, STEPS, TREES, VERB};
use pelton::{Opcode, Placement, Recovery};
use pelton_device::open;
use pelton_ir::arena::Region;
use pelton_ir::module::{Attr, Function, Module};

use crate::command::{CommandContext, Printed, TestCommand};
use crate::failure::Failure;
use crate::hint::name_hint;
use crate::kernel::{KernelLine, collect_lines, inlined_kernel, print_lines};

/// The command `verb`, which prints the accesses, each with its step.
pub(crate) struct VerbCommand;

impl TestCommand for VerbCommand {
    fn name(&self) -> &'static str {
        "verb"
    }

    fn prints(&self) -> bool {
        true
    }

    fn run_on(&self, context: &CommandContext<'_>) -> Result<Printed, Failure> {
        let (name, recovery) = match context.args {
            [name] => (name, Recovery::Off),
            [name, word] if word == "recovery" => (name, Recovery::On),
            args => {
                let arg = args.join(" ");
                return Err(Failure::Argument { command: "verb", arg, hint: String::new() });
            }
        };
        let verb = VERBS.iter().find(|verb| verb.name == name).ok_or_else(|| {
            let names: Vec<&str> = VERBS.iter().map(|verb| verb.name).collect();
            Failure::Argument { command: "verb", arg: name.clone(), hint: name_hint(name, &names) }
        })?;
        let recovers = if recovery == Recovery::On { RECOVERY } else { 0 };
        let rows: Vec<_> = step::kernel_steps(VERB | STEPS | TREES | verb.shape | recovers).collect();
        print_lines(&rows, &verb_lines(verb, recovery)?).map(Some)
    }
}

/// What a task asks of the runtime.
struct Verb {
    name: &'static str,
    /// Whose steps these are.
    shape: u32,
    /// What a handler has to call, or the opcode that is built in.
    call: Call,
}

enum Call {
    Handler(fn(&HandlerBody<'_>)),
    BuiltIn(Opcode),
}

const VERBS: &[Verb] = &[
    Verb { name: "reserve_children", shape: SPAWNS, call: Call::Handler(reserve) },
    Verb { name: "spawn", shape: 0, call: Call::Handler(|task| task.spawn(Child::same_handler(task))) },
    Verb { name: "wait_children", shape: 0, call: Call::Handler(|task| task.wait_children_then(1)) },
    Verb { name: "child_faults", shape: 0, call: Call::Handler(|task| task.finish(task.child_faults())) },
    Verb { name: "signal", shape: EVENTS, call: Call::Handler(|task| task.signal(0, 1)) },
    Verb { name: "wait_event", shape: 0, call: Call::Handler(|task| task.wait_event(0, 1)) },
    Verb { name: "SIGNAL", shape: EVENTS, call: Call::BuiltIn(Opcode::SIGNAL) },
    Verb { name: "LAUNCH_GRAPH", shape: GRAPHS, call: Call::BuiltIn(Opcode::LAUNCH_GRAPH) },
];

fn reserve(task: &HandlerBody<'_>) {
    let f = task.body();
    task.finish(f.select(task.reserve_children(1), 1, 0));
}

/// The accesses that a task of one handler makes, in the order of the text.
fn verb_lines(verb: &Verb, recovery: Recovery) -> Result<Vec<KernelLine>, Failure> {
    let device = open("reference").map_err(|error| Failure::Assemble(error.to_string()))?;
    let spec = Spec::new(Geometry::new(64).lanes(1).groups(3)).placement(Placement::Near);
    let spec = spec.events(4).graph_nodes(8).recovery(recovery);
    let (spec, op) = match verb.call {
        Call::BuiltIn(op) => (spec, op),
        Call::Handler(call) => {
            let op = Opcode::user(8).map_err(|error| Failure::Assemble(error.to_string()))?;
            let handler = Handler::lane_wide(move |task| {
                // Every handler here can be resumed, so that its tasks live in cells.
                task.step(|| task.yield_now());
                call(&task);
            });
            (spec.handler_at(op, "verb", handler), op)
        }
    };
    let module = inlined_kernel(&spec, device.caps())?;
    let mut found = Vec::new();
    for kernel in module.kernels() {
        let function = &module.functions[kernel];
        collect_cases(&module, function, function.body, op.code(), &mut found);
    }
    Ok(found)
}

/// Collects what stands in the cases of an opcode.
fn collect_cases(module: &Module, function: &Function, region: Region, op: u32, found: &mut Vec<KernelLine>) {
    for inst in &function.region(region).insts {
        let node = function.inst(*inst);
        for (at, region) in node.regions.iter().enumerate() {
            let own = matches!(&node.attr, Attr::Cases(cases) if cases.get(at).is_some_and(|case| case.contains(&op)));
            match own {
                true => collect_lines(module, function, *region, found),
                false => collect_cases(module, function, *region, op, found),
            }
        }
    }
}
