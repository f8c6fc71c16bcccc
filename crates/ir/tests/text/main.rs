//! Text: what is printed reads back as the same module, and no text is too bad to read.

mod bad;
mod cascade;
mod every;
mod format;

use every::every;
use pelton_ir::arena::Handle;
use pelton_ir::module::{Attr, FunctionKind, Module, Operand, Site};
use pelton_ir::op::{Op, TABLE};
use pelton_ir::text::{self, ColorMode};
use pelton_ir::types::{Const, Type};
use pelton_ir::write::FunctionWriter;

/// A text that uses every construct.
const SAMPLE: &str = include_str!("sample.pel");

fn read(text: &str) -> Module {
    text::parse(text).unwrap_or_else(|errors| {
        panic!("{}", text::render_diagnostics("text", text, &errors, ColorMode::Plain))
    })
}

/// A module of one function.
fn module(writer: FunctionWriter) -> Module {
    let mut module = Module::default();
    module.functions.push(writer.finish());
    module
}

#[test]
fn every_op_reads_back() {
    let module = every();
    let used = |op: Op| module.functions.iter().any(|(_, f)| f.insts().any(|(_, node)| node.op == op));
    for row in TABLE {
        assert!(used(row.op), "{} is not tried", row.name);
    }
    let text = text::print(&module);
    assert_eq!(read(&text), module);
    assert_eq!(text::print(&read(&text)), text);
}

#[test]
fn the_sample_reads_back_with_its_names() {
    let module = read(SAMPLE);
    let text = module.to_string();
    assert_eq!(read(&text), module);
    assert_eq!(text::print(&read(&text)), text);
    assert!(text.contains("loop ^l %k = 0 to %n step 1 with %acc = 0 {"), "{text}");
}

#[test]
fn names_that_collide_or_are_no_names_give_way_to_handles() {
    let mut writer = FunctionWriter::new("f", FunctionKind::Function, &[Type::U32; 5], &[Type::U32]);
    let params = writer.function().params;
    writer.debug_mut().values = ["x", "x", "2", "a b", "y"].map(Into::into).to_vec();
    let (block, _) = writer.push(Op::Block, Attr::None, vec![], &[]);
    writer.open_region(block, &[]);
    let (inner, _) = writer.push(Op::Block, Attr::None, vec![], &[]);
    writer.debug_mut().labels = vec![(block, "out".into()), (inner, "out".into())];
    writer.open_region(inner, &[]);
    writer.push(Op::Break, Attr::Target(inner), vec![], &[]);
    writer.close_region();
    writer.push(Op::Break, Attr::Target(block), vec![], &[]);
    writer.close_region();
    for value in params.iter() {
        writer.push(Op::Trap, Attr::None, vec![value.into()], &[]);
    }
    writer.push(Op::Return, Attr::None, vec![params.get(1).into()], &[]);
    let module = module(writer);
    let text = text::print(&module);
    assert!(text.starts_with("fn f(%x: u32, %1: u32, %2: u32, %3: u32, %y: u32) -> u32 {"), "{text}");
    assert!(text.contains("block ^out {\n    block ^1 {"), "{text}");
    assert_eq!(read(&text), module);
}

#[test]
fn what_a_writer_makes_reads_back_even_if_it_is_wrong() {
    let mut writer = FunctionWriter::new("f", FunctionKind::Kernel, &[Type::U32], &[Type::U32]);
    let x: Operand = writer.function().params.get(0).into();
    writer.push(Op::Add, Attr::None, vec![x], &[Type::Bool]);
    writer.push(Op::Barrier, Attr::None, vec![x, x], &[]);
    writer.push(Op::Yield, Attr::None, vec![x], &[]);
    writer.push(Op::Return, Attr::None, vec![], &[]);
    writer.push(Op::Add, Attr::None, vec![x, x], &[Type::U32]);
    writer.push(Op::Barrier, Attr::None, vec![], &[]);
    writer.push(Op::Add, Attr::None, vec![x, x], &[Type::U32, Type::F32]);
    writer.push(Op::Return, Attr::None, vec![], &[]);
    writer.push(Op::Return, Attr::None, vec![], &[]);
    let module = module(writer);
    let text = text::print(&module);
    assert_eq!(read(&text), module, "{text}");
}

#[test]
fn constants_read_back_to_the_same_bits() {
    let floats = [0, 1, 0x8000_0000, 0x0080_0000, 0x3dcc_cccd, 0x5f00_0000, 0x7f7f_ffff];
    let special = [0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x7fc0_0001, 0xffff_ffff];
    let mut all: Vec<Const> =
        floats.iter().chain(&special).map(|bits| Const::new(Type::F32, *bits)).collect();
    for ty in [Type::U32, Type::I32, Type::U64, Type::Bool] {
        all.extend([0, 1, 0x7fff_ffff, 0x8000_0000, u64::MAX].map(|bits| Const::new(ty, bits)));
    }
    let mut writer = FunctionWriter::new("f", FunctionKind::Function, &[], &[]);
    for c in all {
        writer.push(Op::Return, Attr::None, vec![Operand::Const(c)], &[]);
    }
    let module = module(writer);
    assert_eq!(read(&text::print(&module)), module);
}

#[test]
fn literals_mean_what_they_say_or_are_refused() {
    let constant = |text: &str| {
        let module = text::parse(&format!("fn f() {{\n  return {text}\n}}\n")).ok()?;
        let (_, function) = module.functions.iter().next()?;
        let (_, node) = function.insts().next()?;
        node.args.first()?.constant()
    };
    assert_eq!(constant("0xff"), Some(255u32.into()));
    assert_eq!(constant("0xffff_ffff"), Some(u32::MAX.into()));
    assert_eq!(constant("1_000"), Some(1000u32.into()));
    assert_eq!(constant("-2147483648i32"), Some(i32::MIN.into()));
    assert_eq!(constant("0xffu64"), Some(255u64.into()));
    assert_eq!(constant("1.5e-3"), Some(1.5e-3f32.into()));
    assert_eq!(constant("1e30"), Some(1e30f32.into()));
    assert_eq!(constant("-0.0"), Some((-0.0f32).into()));
    assert_eq!(constant("-inf"), Some(f32::NEG_INFINITY.into()));
    for bad in [
        "4294967296",
        "-1",
        "2147483648i32",
        "-2147483649i32",
        "18446744073709551616u64",
        "-1u64",
        "1e99",
        "1.",
        ".5",
        "0x",
        "0xg",
        "1f32",
        "7u8",
        "-nan",
        "nan:0x7f800000",
        "nan:0x",
        "1e",
        "1e+",
        "--1",
        "1e5u64",
        "u32",
    ] {
        assert_eq!(constant(bad), None, "{bad}");
    }
}

#[test]
fn places_span_heads() {
    let module = read(SAMPLE);
    let listing = text::print_listing(&module);
    for (func, function) in module.functions.iter() {
        assert!(SAMPLE[function.debug.head.range()].ends_with('{'));
        assert!(listing.text[listing.head(func).range()].ends_with('{'));
        for (inst, node) in function.insts() {
            let place = function.debug.place(inst).expect("it came from text");
            let listed = listing.inst(Site { func, inst });
            for shown in [&SAMPLE[place.range()], &listing.text[listed.range()]] {
                let implied = shown == "}" && node.op.is_terminator();
                assert!(implied || shown.contains(node.op.row().name), "{shown:?} shows {:?}", node.op);
                assert!(implied || shown.ends_with('{') == node.op.has_regions(), "{shown:?}");
                assert!(!shown.contains('\n'), "{shown:?}");
            }
            for region in &node.regions {
                assert_eq!(&SAMPLE[function.debug.ends[region.index()].range()], "}");
                assert_eq!(&listing.text[listing.end(func, *region).range()], "}");
            }
        }
    }
    for (buffer, decl) in module.buffers.iter() {
        assert!(SAMPLE[decl.place.range()].starts_with(&format!("buffer {}", decl.name)));
        assert!(listing.text[listing.buffer(buffer).range()].starts_with(&format!("buffer {}", decl.name)));
    }
}

#[test]
fn notes_are_comments() {
    let module = read(SAMPLE);
    let first = |site: Site| site.inst.index() == 0;
    let noted = text::print_annotated(&module, |site| first(site).then(|| "first\nof all".into()));
    assert_eq!(noted.matches("  ; first of all").count(), module.functions.len());
    assert_eq!(read(&noted), module);
}

#[test]
fn deep_modules_print() {
    let mut writer = FunctionWriter::new("main", FunctionKind::Kernel, &[], &[]);
    for _ in 0..50_000 {
        let (inst, _) = writer.push(Op::Block, Attr::None, vec![], &[]);
        writer.open_region(inst, &[]);
    }
    assert_eq!(text::print(&module(writer)).matches("block {").count(), 50_000);
}
