//! Each rule, broken once: one mistake is one error, and the error is of that rule.

use std::collections::BTreeSet;

use crate::arena::{Func, Handle};
use crate::limits::{MAX_ARGS, MAX_BUFFERS, MAX_CASES};
use crate::module::{Attr, BufferDecl, Function, FunctionKind, ImportFlow, Module, Operand, TextPlace};
use crate::op::Op;
use crate::text::{self, ColorMode};
use crate::types::{Access, Len, Need, Space, Type};
use crate::valid::{Invalid, Reach, Rule, validate};
use crate::write::FunctionWriter;

/// Texts that break one rule, and what the error says.
const TEXTS: &[(Rule, &str, &str)] = &[
    (
        Rule::Element,
        "buffer b: [bool; 4] global read kernel k { %x = load @b[0] %y = add %x, 1 }",
        "use u32 with 0 and 1",
    ),
    (Rule::Empty, "buffer b: [u32; 0] global read kernel k { %x = load @b[0] }", "no elements"),
    (Rule::Length, "buffer b: [u32; 4294967296] global read", "at most 4294967295 are allowed"),
    (Rule::SharedLength, "buffer b: [u32; ?] shared read_write", "write a number"),
    (Rule::SharedAccess, "buffer b: [u32; 4] shared read kernel k { store @b[0], 1 }", "write `read_write`"),
    (
        Rule::SharedSize,
        "buffer a: [u32; 65536] shared read_write buffer b: [u64; 1] shared read_write",
        "take 262152 bytes",
    ),
    (Rule::Kernel, "kernel k(%x: u32) { }", "pass values in a buffer"),
    (Rule::Undefined, "kernel k { %r: u32 = if true { yield %r } else { yield 1 } }", "before it is defined"),
    (
        Rule::Scope,
        "kernel k { if true { %x = lane } %y = add %x, 1 %z = add %y, 1.0 }",
        "pass it out of the region with `yield`",
    ),
    (Rule::Scope, "kernel k { if true { %x = lane } else { %y = add %x, 1 } }", "`%x` is not visible here"),
    (Rule::End, "fn f() -> u32 { return 1 %x = lane backoff 1.0 }", "nothing runs after `return`"),
    (Rule::Yield, "kernel k { yield }", "write `return`"),
    (Rule::Target, "kernel k { block ^a { } break ^a }", "`^a`, which does not enclose it"),
    (Rule::Continue, "kernel k { block ^a { continue ^a } }", "does not repeat"),
    (Rule::Continue, "kernel k { while ^a { continue ^a } do { } }", "move it to the body"),
    (Rule::Case, "kernel k { switch 1 { case 1 { } case 2, 1 { } } }", "the value 1 has two cases"),
    (Rule::CallKernel, "kernel a { } kernel k { call a() }", "is a kernel"),
    (Rule::Count, "kernel k { %x = add 1 }", "has 1 operand, but takes 2: a, b"),
    (Rule::Count, "kernel k { %x = lane 1 }", "takes none"),
    (Rule::Count, "fn f(%x: u32) { } kernel k { call f() }", "no operands, but `f` has 1 parameter"),
    (
        Rule::Operand,
        "fn f(%x: i32) -> i32 { %y = add 1, %x %z = mul %y, %x return %z }",
        "operand `a` of `add` is u32, but i32 is expected: write `1i32`",
    ),
    (
        Rule::Operand,
        "fn f(%x: f32) { %y = shl 1, %x }",
        "`by` of `shl` is f32, but u32 is expected: write `cast u32 %x`",
    ),
    (Rule::Operand, "kernel k { %x = rem 1.0, 2.0 }", "but u32, i32 or u64 is expected"),
    (Rule::Operand, "kernel k { %i = lane if %i { } }", "write `ne %i, 0`"),
    (Rule::Operand, "kernel k { loop %i = 0u64 to 1u64 step 1u64 { } }", "u32 or i32 is expected"),
    (Rule::Operand, "fn f(%x: u64) { } kernel k { call f(7) }", "write `7u64`"),
    (Rule::Result, "kernel k { %x: f32 = add 1, 2 %y = add %x, 1.0 }", "is u32, but was declared f32"),
    (
        Rule::Result,
        "kernel k { %x: f32 = loop %i = 0 to 1 step 1 with %a = 1 { yield %a } }",
        "it carries is u32",
    ),
    (Rule::Result, "kernel k { block ^a { %x: u32 = break ^a } }", "but has 1 name on its left"),
    (Rule::Ends, "kernel k { %x: f32 = if true { yield 1 } else { yield 1 } }", "is f32: write `1.0`"),
    (
        Rule::Ends,
        "kernel k { %x: f32 = block ^a { if true { break ^a 1u64 } yield 1.0 } }",
        "value 1 of `break`",
    ),
    (Rule::Ends, "kernel k { forever ^a with %x = 1 { continue ^a } }", "the `forever` carries 1 value"),
    (Rule::Ends, "fn f() -> u32 { }", "end it with `return`"),
    (Rule::Test, "kernel k { while { } do { } }", "takes one bool"),
    (Rule::Test, "kernel k { while { yield 1 } do { } }", "write `true`"),
    (Rule::Cast, "kernel k { %x = cast bool 1 }", "write `ne 1, 0`"),
    (Rule::Cast, "kernel k { %x = bitcast u64 1 }", "keeps 32 bits"),
    (
        Rule::Read,
        "buffer b: [u32; 4] host write kernel k { %x = atomic_load relaxed system @b[0] }",
        "is `write`",
    ),
    (Rule::Write, "buffer b: [u32; 4] global read kernel k { store @b[0], 1 }", "is `read`"),
    (
        Rule::Write,
        "buffer b: [u32; 4] global read kernel k { %x = atomic_or relaxed group @b[0], 1 }",
        "is `read`",
    ),
    (
        Rule::AtomicType,
        "buffer b: [f32; 4] global read_write kernel k { %x = atomic_add relaxed group @b[0], 1.0 }",
        "of `@b` are f32",
    ),
    (
        Rule::HostAtomic,
        "buffer b: [u32; 4] host read_write kernel k { %x = atomic_add relaxed system @b[0], 1 }",
        "one writer",
    ),
    (
        Rule::AtomicOrder,
        "buffer b: [u32; 4] host read kernel k { %x = atomic_load release system @b[0] }",
        "write `relaxed` or `acquire`",
    ),
    (
        Rule::AtomicOrder,
        "buffer b: [u32; 4] host write kernel k { atomic_store acquire system @b[0], 1 }",
        "`release`",
    ),
    (
        Rule::AtomicOrder,
        "buffer b: [u64; 4] host read kernel k { %x, %y = load_wide acquire system @b[0] }",
        "write `relaxed`",
    ),
    (
        Rule::AtomicOrder,
        "buffer b: [u32; 4] global read_write kernel k { %x = atomic_add seq_cst device @b[0], 1 }",
        "only fences",
    ),
    (Rule::FenceOrder, "kernel k { fence relaxed device }", "write `acq_rel`"),
    (
        Rule::SharedScope,
        "buffer b: [u32; 4] shared read_write kernel k { %x = atomic_add relaxed device @b[0], 1 }",
        "write `group`",
    ),
    (Rule::Index, "buffer b: [u32; 4] global read kernel k { %x = load @b[4] }", "the last is 3"),
    (
        Rule::Index,
        "buffer b: [u32; 6] global read kernel k { %p, %q, %r, %s = load_wide relaxed group @b[5] }",
        "4 at once",
    ),
    (
        Rule::Copy,
        "buffer a: [u32; 4] shared read_write buffer b: [f32; 4] global read kernel k { async_load @a[0], @b[0], 4, 0 }",
        "copies f32 elements to u32",
    ),
    (
        Rule::UniformImport,
        "import uniform fn f() kernel k { %e = elect if %e { call f() } }",
        "`f` needs all lanes of a group at once",
    ),
    (
        Rule::Barrier,
        "import fn f() -> bool kernel k { %c = call f() if %c { barrier } }",
        "`call` does not give",
    ),
    (Rule::Count, "import fn f(%x: u32) kernel k { call f() }", "no operands, but `f` has 1 parameter"),
    (Rule::Barrier, "kernel k { %i = lane %c = eq %i, 0 if %c { barrier barrier } }", "all lanes of a group"),
    (Rule::Subgroup, "kernel k { %i = lane %c = eq %i, 0 if %c { %e = elect } }", "all lanes of a subgroup"),
    (Rule::From, "kernel k { %i = subgroup %x = group_broadcast %i, %i }", "differs among lanes of a group"),
    (Rule::From, "kernel k { %i = lane %x = broadcast %i, %i }", "`shuffle` takes any lane"),
];

fn refuse(module: Module) -> Invalid {
    validate(module).expect_err("the module breaks a rule")
}

#[test]
fn one_mistake_is_one_error() {
    for (rule, source, part) in TEXTS {
        let module = text::parse(source).unwrap_or_else(|e| panic!("{source}: {}", e[0]));
        let invalid = refuse(module);
        let report = invalid.report("text", Some(source), ColorMode::Plain);
        let found: Vec<Rule> = invalid.errors.iter().map(|error| error.rule).collect();
        assert_eq!(found, [*rule], "{report}");
        assert!(report.contains(part), "no {part:?} in {report}");
        assert_eq!(rule.reach(), Reach::Text, "{rule}");
    }
}

/// A module with one kernel.
fn kernel(write: impl FnOnce(&mut FunctionWriter)) -> Module {
    let mut writer = FunctionWriter::new("k", FunctionKind::Kernel, &[], &[]);
    write(&mut writer);
    let mut module = Module::default();
    module.functions.push(writer.finish());
    module
}

fn buffers(names: &[&str]) -> Module {
    let mut module = Module::default();
    for name in names {
        module.buffers.push(BufferDecl {
            name: name.to_string(),
            elem: Type::U32,
            len: Len::Fixed(1),
            space: Space::Global,
            access: Access::Read,
            place: TextPlace::default(),
        });
    }
    module
}

/// A module with these functions.
fn functions(list: impl IntoIterator<Item = Function>) -> Module {
    let mut module = Module::default();
    for function in list {
        module.functions.push(function);
    }
    module
}

/// An import in the making.
fn import(params: &[Type]) -> FunctionWriter {
    FunctionWriter::new("f", FunctionKind::Import(ImportFlow::Any), params, &[])
}

fn push(op: Op, attr: Attr, args: Vec<Operand>, results: &[Type]) -> Module {
    kernel(|w| {
        w.push(op, attr, args, results);
    })
}

/// Modules that break one rule in a way that no text can.
fn modules() -> Vec<(Rule, Module)> {
    let none = Vec::new;
    let many: Vec<String> = (0..=MAX_BUFFERS).map(|k| format!("b{k}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let call = |func| push(Op::Call, Attr::Call(Func::new(func)), none(), &[]);
    let cases = (0..MAX_CASES as u32).map(|k| vec![k]).collect();
    let lost = kernel(|w| {
        let (inst, _) = w.push(Op::If, Attr::None, vec![true.into()], &[]);
        w.open_region(inst, &[]);
        w.close_region();
        w.push(Op::Barrier, Attr::None, none(), &[]);
        w.open_region(inst, &[]);
        w.close_region();
    });
    vec![
        (Rule::Size, buffers(&many)),
        (Rule::Values, push(Op::Yield, Attr::None, vec![1u32.into(); MAX_ARGS + 1], &[])),
        (
            Rule::Cases,
            kernel(|w| {
                let (inst, _) = w.push(Op::Switch, Attr::Cases(cases), vec![1u32.into()], &[]);
                for _ in 0..=MAX_CASES {
                    w.open_region(inst, &[]);
                    w.close_region();
                }
            }),
        ),
        (Rule::Need, Module { needs: vec![Need::Subgroups; 2], ..Module::default() }),
        (Rule::Name, buffers(&["a b"])),
        (Rule::Name, buffers(&["x".repeat(65).as_str()])),
        (Rule::Duplicate, buffers(&["a", "a"])),
        (Rule::Duplicate, functions([import(&[]).finish_import(), import(&[Type::U32]).finish_import()])),
        (
            Rule::Duplicate,
            functions([
                import(&[]).finish_import(),
                FunctionWriter::new("f", FunctionKind::Function, &[], &[]).finish(),
            ]),
        ),
        (Rule::ImportBody, functions([import(&[Type::U32]).finish()])),
        (Rule::Values, functions([import(&[Type::U32; MAX_ARGS + 1]).finish_import()])),
        (Rule::Order, lost),
        (Rule::Attribute, push(Op::Load, Attr::Type(Type::U32), vec![0u32.into()], &[Type::U32])),
        (Rule::Regions, push(Op::Block, Attr::None, none(), &[])),
        (
            Rule::Regions,
            kernel(|w| {
                let (inst, _) = w.push(Op::Barrier, Attr::None, none(), &[]);
                w.open_region(inst, &[]);
                w.close_region();
            }),
        ),
        (Rule::Callee, call(0)),
        (Rule::Callee, call(7)),
        (Rule::Buffer, push(Op::Len, Attr::Buffer(Handle::new(3)), none(), &[Type::U32])),
    ]
}

#[test]
fn programs_are_held_to_the_same_rules() {
    for (rule, module) in modules() {
        let invalid = refuse(module);
        let report = invalid.report("module", None, ColorMode::Plain);
        let found: Vec<Rule> = invalid.errors.iter().map(|error| error.rule).collect();
        assert_eq!(found, [rule], "{report}");
        assert!(report.contains(rule.code()), "{report}");
        assert_eq!(rule.reach(), Reach::Rust, "{rule}");
    }
}

#[test]
fn every_rule_is_broken_here() {
    // Depth has its own tests beside the garbage.
    let mut broken = BTreeSet::from([Rule::Depth]);
    broken.extend(TEXTS.iter().map(|(rule, ..)| *rule));
    broken.extend(modules().iter().map(|(rule, _)| *rule));
    let missing: Vec<&Rule> = Rule::ALL.iter().filter(|rule| !broken.contains(rule)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn errors_beyond_the_first_are_counted() {
    let wrong: String = (0..80).map(|k| format!("%x{k} = add 1, 1.0 ")).collect();
    let module = text::parse(&format!("kernel k {{ {wrong} }}")).expect("the text is right");
    let invalid = refuse(module);
    assert_eq!((invalid.errors.len(), invalid.more), (50, 30));
    let places: Vec<u32> = invalid.diagnostics().iter().map(|found| found.place.start).collect();
    assert!(places.is_sorted_by(|a, b| a < b), "errors come in the order of the text");
    assert!(invalid.to_string().ends_with("(and 79 more)"));
}
