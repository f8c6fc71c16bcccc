//! `test kernel`: the atomic accesses of an assembled megakernel, held equal to the protocol's steps.
//!
//! What is wanted of the kernel stands on the `test` line: `near`, `far` or `drain`, then `priority`, `fused`, `uncounted`, `lane`
//! (groups of one), `watch` (of a subgroup), `teams` (of several that progress independently) or `remote` (the device has memory of its
//! own) where it is so. What stands in a `switch` is left out: a kernel
//! switches over opcodes alone, so that is a task's own.

use pelton::Opcode;
use pelton::kernel::{Body, Claim, Geometry, Lifetime, Spec, Telemetry, assemble};
use pelton::protocol::step::{
    self, DRAIN, FAR, FENCES, KEEPER, KEPT, LANE, LANES, LOCAL, NEAR, OWN, REMOTE, Step, TELLS, TOLD, WATCH,
};
use pelton_device::{Caps, Placement, open};
use pelton_ir::arena::Region;
use pelton_ir::limits::MAX_INSTS;
use pelton_ir::module::{Attr, Function, Module, Node};
use pelton_ir::op::Op;
use pelton_ir::pass::inline::inline;
use pelton_ir::types::{Order, Scope};

use crate::command::{Command, Context, Printed};
use crate::diff::diff;
use crate::failure::Failure;
use crate::near::hint;

/// Prints the accesses, each with its step.
pub struct Kernel;

impl Command for Kernel {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn prints(&self) -> bool {
        true
    }

    fn run(&self, context: &Context<'_>) -> Result<Printed, Failure> {
        let Wanted { spec, caps, shapes } = wanted(context.args)?;
        let found = accesses(&spec, &caps)?;
        let rows: Vec<&Step> = shapes.iter().flat_map(|shape| step::kernel(*shape)).collect();
        held(&rows, &found)?;
        let mut lines: Vec<(String, u32)> = Vec::new();
        let mut ordered = rows.iter().filter(|row| row.orders());
        for access in &found {
            let step = match access.orders() {
                true => ordered.next(),
                false => rows.iter().find(|row| access.is(row)),
            };
            let line = format!("{:<8} {access}", step.map_or("", |step| step.name));
            match lines.last_mut() {
                Some((last, times)) if *last == line => *times += 1,
                _ => lines.push((line, 1)),
            }
        }
        let text = |(line, times)| if times == 1 { line } else { format!("{line} × {times}") };
        Ok(Some(joined(lines.into_iter().map(text))))
    }
}

/// Holds what orders to the steps one by one, and the rest to the steps that there are.
fn held(rows: &[&Step], found: &[Access]) -> Result<(), Failure> {
    let law = "accesses of the protocol = accesses of the kernel";
    let expected: Vec<&&Step> = rows.iter().filter(|row| row.orders()).collect();
    let ordered: Vec<&Access> = found.iter().filter(|access| access.orders()).collect();
    if ordered.len() != expected.len() || !ordered.iter().zip(&expected).all(|(access, row)| access.is(row)) {
        let left = joined(expected.iter().map(|row| Access::of(row).to_string()));
        let right =
            joined(ordered.iter().map(|access| Access { word: None, ..(*access).clone() }.to_string()));
        return Err(Failure::Law { law, diff: diff(&left, &right) });
    }
    let stray =
        joined(found.iter().filter(|access| !rows.iter().any(|row| access.is(row))).map(Access::to_string));
    if stray.is_empty() { Ok(()) } else { Err(Failure::Law { law, diff: diff("", &stray) }) }
}

/// An atomic access.
#[derive(Clone)]
struct Access {
    op: Op,
    order: Order,
    scope: Scope,
    /// None of a fence.
    buffer: String,
    /// The word, where it is constant.
    word: Option<u32>,
}

impl Access {
    fn of(row: &Step) -> Access {
        let Step { op, order, scope, word, .. } = *row;
        Access { op, order, scope, buffer: row.buffer.into(), word }
    }

    fn found(module: &Module, node: &Node) -> Option<Access> {
        let (buffer, order, scope) = match node.attr {
            Attr::Atomic(buffer, order, scope) => {
                // Where each placement has its own, they are alike.
                let name = &module.buffers[buffer].name;
                (name.trim_end_matches(".near").trim_end_matches(".far").into(), order, scope)
            }
            Attr::Fence(order, scope) => (String::new(), order, scope),
            _ => return None,
        };
        let index = node.args.first().filter(|_| !buffer.is_empty());
        let word = index.and_then(|index| index.constant()).map(|index| index.bits() as u32);
        Some(Access { op: node.op, order, scope, buffer, word })
    }

    fn orders(&self) -> bool {
        self.order != Order::Relaxed
    }

    /// Whether it is what a step says; a step that names no word allows any.
    fn is(&self, row: &Step) -> bool {
        let word = row.word.is_none() || row.word == self.word;
        word && self.buffer == row.buffer
            && (self.op, self.order, self.scope) == (row.op, row.order, row.scope)
    }
}

impl std::fmt::Display for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.op.row().name, self.order, self.scope)?;
        match (&*self.buffer, self.word) {
            ("", _) => Ok(()),
            (buffer, Some(word)) => write!(f, " @{buffer}[{word}]"),
            (buffer, None) => write!(f, " @{buffer}"),
        }
    }
}

fn joined(lines: impl Iterator<Item = String>) -> String {
    lines.flat_map(|line| [line, "\n".into()]).collect()
}

/// What a `test` line asks for.
#[derive(Debug)]
pub struct Wanted {
    /// The kernel.
    pub spec: Spec,
    /// The device that it is for.
    pub caps: Caps,
    /// Its shape in the table of steps; that of near rings, then that of far ones, where there are both.
    pub shapes: Vec<u16>,
}

/// What the arguments of a `test kernel` line ask for.
pub fn wanted(args: &[String]) -> Result<Wanted, Failure> {
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
            "fused" => (alone(spec), shape & !FENCES),
            "uncounted" => (spec.telemetry(Telemetry::Off), shape),
            "lane" => (of(spec, 1), shape & !LANES | LANE),
            "watch" => (of(spec, caps.subgroup), shape | WATCH),
            "teams" => {
                caps.independent_subgroups = true;
                (of(spec, 2 * caps.subgroup), shape | WATCH)
            }
            "remote" => {
                caps.memory_bytes = Some(1 << 30);
                (spec, shape & !LOCAL | REMOTE)
            }
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
                ];
                let (arg, hint) = (word.into(), hint(word, &words));
                return Err(Failure::Argument { command: "kernel", arg, hint });
            }
        };
    }
    let teams = args.iter().any(|arg| arg == "teams");
    Ok(Wanted { spec, caps, shapes: parts(shape, teams) })
}

/// The shape of each part of a kernel, in the order of the text.
fn parts(shape: u16, teams: bool) -> Vec<u16> {
    let both = shape & NEAR != 0 && shape & FAR != 0;
    let shape = if both { shape & !LANE | LANES } else { shape };
    let kept = match (shape & FAR != 0, shape & LOCAL != 0) {
        (true, _) => KEPT,
        (false, true) => OWN,
        (false, false) => KEPT | KEEPER,
    };
    // Where the device has memory of its own, the watches of near groups and the teams of a router are told of changes.
    let told =
        |kind: u16, polls: bool| if shape & LOCAL == 0 && shape & kind != 0 && polls { TOLD } else { 0 };
    let (near, far) = (told(NEAR, shape & WATCH != 0), told(FAR, teams));
    let tells = if near | far == 0 { 0 } else { TELLS };
    let part =
        |kind: u16, more: u16| (shape & kind != 0).then_some(shape & !(NEAR | FAR | DRAIN) | kind | more);
    [part(NEAR, kept | near | tells), part(FAR, far | tells), part(DRAIN, 0)].into_iter().flatten().collect()
}

/// In groups of so many lanes.
fn of(spec: Spec, lanes: u32) -> Spec {
    Spec { geometry: spec.geometry.clone().lanes(lanes), ..spec }
}

/// With one handler that touches nothing.
fn alone(spec: Spec) -> Spec {
    match Opcode::user(8) {
        Ok(op) => spec.body(Body::Fused).handler(op, |slot| slot.finish(7)),
        Err(_) => spec,
    }
}

/// The atomic accesses of the kernel's own, in the order of the text.
fn accesses(spec: &Spec, caps: &Caps) -> Result<Vec<Access>, Failure> {
    let made = assemble(spec, caps).map_err(|error| Failure::Assemble(error.to_string()))?;
    let module = inline(&made.module, MAX_INSTS).module;
    let mut found = Vec::new();
    for kernel in module.kernels() {
        let function = &module.functions[kernel];
        walk(&module, function, function.body, &mut found);
    }
    Ok(found)
}

fn walk(module: &Module, function: &Function, region: Region, found: &mut Vec<Access>) {
    for inst in &function.region(region).insts {
        let node = function.inst(*inst);
        found.extend(Access::found(module, node));
        if node.op != Op::Switch {
            for region in &node.regions {
                walk(module, function, *region, found);
            }
        }
    }
}
