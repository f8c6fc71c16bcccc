//! `test kernel`: the atomic accesses of an assembled megakernel, held equal to the protocol's steps.
//!
//! What is wanted of the kernel stands on the `test` line: `near`, `far` or `drain`, then `priority`, `fused` or `uncounted`
//! where it is so. What stands in a `switch` is left out: a kernel switches over opcodes alone, so that is a task's own.

use pelton::Opcode;
use pelton::kernel::{Body, Claim, Geometry, Lifetime, Spec, Telemetry, assemble};
use pelton::protocol::step::{self, COUNTS, DRAIN, FAR, FENCES, FUSED, LEVELS, NEAR};
use pelton_device::{Placement, open};
use pelton_ir::arena::Region;
use pelton_ir::limits::MAX_INSTS;
use pelton_ir::module::{Attr, Function, Module, Node};
use pelton_ir::op::Op;
use pelton_ir::pass::inline::inline;

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
        let (spec, shape) = wanted(context.args)?;
        let found = accesses(&spec)?;
        let expected: Vec<Access> = step::kernel(shape).flat_map(Access::repeated).collect();
        let same = found.len() == expected.len() && found.iter().zip(&expected).all(|(f, e)| e.admits(f));
        if !same {
            // A word that the step leaves open is no difference.
            let aligned = found.iter().enumerate().map(|(k, found)| match expected.get(k) {
                Some(step) if step.admits(found) => step.to_string(),
                _ => found.to_string(),
            });
            let diff = diff(&lines(expected.iter().map(Access::to_string)), &lines(aligned));
            return Err(Failure::Law { law: "accesses of the protocol = accesses of the kernel", diff });
        }
        let mut rows: Vec<(String, u32)> = Vec::new();
        for (found, step) in found.iter().zip(&expected) {
            let row = format!("{:<8} {found}", step.step);
            match rows.last_mut() {
                Some((last, times)) if *last == row => *times += 1,
                _ => rows.push((row, 1)),
            }
        }
        let text = |(row, times)| if times == 1 { row } else { format!("{row} × {times}") };
        Ok(Some(lines(rows.into_iter().map(text))))
    }
}

/// An atomic access, as found or as expected.
struct Access {
    step: &'static str,
    op: Op,
    buffer: String,
    word: Option<u32>,
    rest: String,
}

impl Access {
    fn repeated(step: &step::Step) -> impl Iterator<Item = Access> {
        (0..step.times).map(|_| Access {
            step: step.name,
            op: step.op,
            buffer: step.buffer.into(),
            word: step.word,
            rest: format!("{} {}", step.order, step.scope),
        })
    }

    fn found(module: &Module, node: &Node) -> Option<Access> {
        let (buffer, order, scope) = match node.attr {
            Attr::Atomic(buffer, order, scope) => (module.buffers[buffer].name.clone(), order, scope),
            Attr::Fence(order, scope) => (String::new(), order, scope),
            _ => return None,
        };
        let index = node.args.first().filter(|_| !buffer.is_empty());
        let word = index.and_then(|index| index.constant()).map(|index| index.bits() as u32);
        Some(Access { step: "", op: node.op, buffer, word, rest: format!("{order} {scope}") })
    }

    /// Whether a step is what was found; a step that names no word allows any.
    fn admits(&self, found: &Access) -> bool {
        let word = self.word.is_none() || self.word == found.word;
        word && (self.op, &self.buffer, &self.rest) == (found.op, &found.buffer, &found.rest)
    }
}

impl std::fmt::Display for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.op.row().name, self.rest)?;
        match (&*self.buffer, self.word) {
            ("", _) => Ok(()),
            (buffer, Some(word)) => write!(f, " @{buffer}[{word}]"),
            (buffer, None) => write!(f, " @{buffer}"),
        }
    }
}

fn lines(rows: impl Iterator<Item = String>) -> String {
    rows.flat_map(|row| [row, "\n".into()]).collect()
}

/// What a `test` line asks for, and its shape in the table of steps.
fn wanted(args: &[String]) -> Result<(Spec, u8), Failure> {
    let mut spec = Spec::new(Geometry::new(64).lanes(8).groups(3));
    let mut shape = COUNTS | FENCES;
    for arg in args {
        (spec, shape) = match &**arg {
            "near" => (spec.placement(Placement::Near), shape | NEAR),
            "far" => (spec.placement(Placement::Far), shape | FAR),
            "drain" => (spec.lifetime(Lifetime::Drain), shape | DRAIN),
            "priority" => (spec.claim(Claim::PRIORITY), shape | LEVELS),
            "fused" => (alone(spec), shape & !FENCES | FUSED),
            "uncounted" => (spec.telemetry(Telemetry::Off), shape & !COUNTS),
            word => {
                let words = ["near", "far", "drain", "priority", "fused", "uncounted"];
                return Err(Failure::Argument {
                    command: "kernel",
                    arg: word.into(),
                    hint: hint(word, &words),
                });
            }
        };
    }
    Ok((spec, shape))
}

/// With one handler that touches nothing.
fn alone(spec: Spec) -> Spec {
    match Opcode::user(8) {
        Ok(op) => spec.body(Body::Fused).handler(op, |slot| slot.finish(7)),
        Err(_) => spec,
    }
}

/// The atomic accesses of the kernel's own, in the order of the text.
fn accesses(spec: &Spec) -> Result<Vec<Access>, Failure> {
    let device = open("reference").map_err(|error| Failure::Assemble(error.to_string()))?;
    let made = assemble(spec, device.caps()).map_err(|error| Failure::Assemble(error.to_string()))?;
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
