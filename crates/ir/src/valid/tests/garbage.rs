//! Whatever a program writes, the validator answers.

use super::program;
use super::random::Random;
use crate::arena::{Handle, Inst};
use crate::limits::MAX_DEPTH;
use crate::module::{Attr, BufferDecl, Function, FunctionKind, ImportFlow, Module, Operand, TextPlace};
use crate::op::{Op, TABLE};
use crate::text::ColorMode;
use crate::types::{Access, Const, Len, Order, Scope, Space, Type};
use crate::valid::{Rule, validate};
use crate::write::FunctionWriter;

/// A handle that may be one of a few things, and may be of none.
fn handle<H: Handle>(random: &mut Random) -> H {
    let far = random.once(20);
    H::new(if far { u32::MAX as usize - random.below(2) } else { random.below(12) })
}

fn attr(random: &mut Random) -> Attr {
    let (order, scope) = (random.of(Order::ALL), random.of(Scope::ALL));
    match random.below(9) {
        0 => Attr::None,
        1 => Attr::Type(random.of(Type::ALL)),
        2 => Attr::Buffer(handle(random)),
        3 => Attr::Atomic(handle(random), order, scope),
        4 => Attr::Fence(order, scope),
        5 => Attr::Copy { to: handle(random), from: handle(random) },
        6 => Attr::Call(handle(random)),
        7 => Attr::Target(handle(random)),
        _ => Attr::Cases((0..random.below(3)).map(|k| vec![k as u32; random.below(3)]).collect()),
    }
}

fn operand(random: &mut Random) -> Operand {
    match random.below(3) {
        0 => Const::new(random.of(Type::ALL), random.below(9) as u64).into(),
        _ => Operand::Value(handle(random)),
    }
}

fn types(random: &mut Random) -> Vec<Type> {
    (0..random.below(4)).map(|_| random.of(Type::ALL)).collect()
}

fn function(random: &mut Random) -> Function {
    let kind =
        random.of(&[FunctionKind::Kernel, FunctionKind::Function, FunctionKind::Import(ImportFlow::Uniform)]);
    let name = random.of(&["a", "b", "", "7", "é", "x.y"]);
    let mut writer = FunctionWriter::new(name, kind, &types(random), &types(random));
    for _ in 0..random.below(40) {
        let insts = writer.function().insts.len();
        match random.below(8) {
            0 if insts > 0 => {
                writer.open_region(Inst::new(random.below(insts)), &types(random));
            }
            1 if writer.depth() > 1 => {
                writer.close_region();
            }
            _ => {
                let args = (0..random.below(5)).map(|_| operand(random)).collect();
                let op = TABLE[random.below(TABLE.len())].op;
                writer.push(op, attr(random), args, &types(random));
            }
        }
    }
    writer.finish()
}

fn buffer(random: &mut Random) -> BufferDecl {
    BufferDecl {
        name: random.of(&["a", "b", "c", "%"]).into(),
        elem: random.of(Type::ALL),
        len: random.of(&[Len::Launch, Len::Fixed(0), Len::Fixed(5), Len::Fixed(u64::MAX)]),
        space: random.of(Space::ALL),
        access: random.of(Access::ALL),
        place: TextPlace::default(),
    }
}

/// Modules of arbitrary parts: all that the writer can do.
#[test]
fn any_module_gets_an_answer() {
    let mut seen = std::collections::HashSet::new();
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let mut module = Module::default();
        for _ in 0..random.below(4) {
            module.buffers.push(buffer(&mut random));
        }
        for _ in 0..random.below(4) {
            module.functions.push(function(&mut random));
        }
        if let Err(invalid) = validate(module) {
            assert!(
                invalid.report("garbage", None, ColorMode::Plain).contains(invalid.errors[0].rule.code())
            );
            seen.extend(invalid.errors.iter().map(|error| error.rule));
        }
    }
    // Garbage that is always refused for the same reason would show nothing.
    assert!(seen.len() > 15, "only {seen:?}");
}

/// Modules that were right before one thing in them was changed, by hands that no writer has.
#[test]
fn any_change_gets_an_answer() {
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let mut module = program::module(seed % 50);
        let (other, func) = (random.below(3), Handle::new(random.below(3)));
        let donor = module.functions[Handle::new(other)].clone();
        let function = &mut module.functions[func];
        let inst = Inst::new(random.below(function.insts.len()));
        let regions = function.regions.len();
        let node = &mut function.insts[inst];
        match random.below(10) {
            0 => node.op = TABLE[random.below(TABLE.len())].op,
            1 => node.attr = attr(&mut random),
            2 => node.args.push(operand(&mut random)),
            3 => drop(node.args.pop()),
            4 if !node.args.is_empty() => {
                let at = random.below(node.args.len());
                node.args[at] = operand(&mut random);
            }
            5 => node.results = donor.params,
            6 => node.regions.push(Handle::new(random.below(regions))),
            7 => drop(node.regions.pop()),
            8 => function.body = handle(&mut random),
            _ => function.regions[Handle::new(random.below(regions))].params = donor.params,
        }
        match validate(module) {
            Ok(_) => accepted += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused");
}

/// Nesting beyond every stack.
#[test]
fn depth_is_refused_at_once() {
    let mut writer = FunctionWriter::new("deep", FunctionKind::Kernel, &[], &[]);
    for _ in 0..200_000 {
        let (inst, _) = writer.push(Op::Block, Attr::None, Vec::new(), &[]);
        writer.open_region(inst, &[]);
    }
    let mut module = Module::default();
    module.functions.push(writer.finish());
    let invalid = validate(module).unwrap_err();
    assert_eq!(invalid.errors.iter().map(|e| e.rule).collect::<Vec<_>>(), [Rule::Depth]);
}

/// As deep as allowed, and no deeper.
#[test]
fn depth_is_exact() {
    for (blocks, right) in [(MAX_DEPTH - 1, true), (MAX_DEPTH, false)] {
        let mut writer = FunctionWriter::new("deep", FunctionKind::Kernel, &[], &[]);
        for _ in 0..blocks {
            let (inst, _) = writer.push(Op::Block, Attr::None, Vec::new(), &[]);
            writer.open_region(inst, &[]);
        }
        let mut module = Module::default();
        module.functions.push(writer.finish());
        assert_eq!(validate(module).is_ok(), right);
    }
}
